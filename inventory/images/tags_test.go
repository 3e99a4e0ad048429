package images

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// TestIndexResolvesTags builds from the tag of an ImageStream, whichever of the two comes
// first, moves the tag, and takes both away.
func TestIndexResolvesTags(t *testing.T) {
	build := Holder{Kind: "BuildConfig", Namespace: "shop", Name: "app", References: []Reference{
		{Tag: "openshift/python:3.9", Container: "spec.strategy.sourceStrategy.from"},
		{Tag: "openshift/python@" + digest, Container: "spec.source.images[0].from"},
	}}
	stream := func(image string) Holder {
		return Holder{Kind: "ImageStream", Namespace: "openshift", Name: "python", References: []Reference{
			{Image: image, Tag: "openshift/python:3.9", Container: "tag", Use: policy.History},
			{Image: "quay.io/python@" + digest, Tag: "openshift/python@" + digest, Container: "old", Use: policy.History},
		}}
	}
	for _, order := range []struct {
		reason string
		put    []Holder
	}{
		{"the build comes first", []Holder{build, stream("quay.io/python:old"), stream("quay.io/python:new")}},
		{"the stream comes first", []Holder{stream("quay.io/python:new"), build}},
		{"both come twice", []Holder{build, stream("quay.io/python:new"), build, stream("quay.io/python:new")}},
	} {
		t.Run(order.reason, func(t *testing.T) {
			var x Index
			for _, h := range order.put {
				x.Put(h)
			}
			consumer := func(field string) policy.Consumer {
				return policy.Consumer{Kind: "BuildConfig", Namespace: "shop", Name: "app", Container: field}
			}
			past := func(field string) policy.Consumer {
				return policy.Consumer{Kind: "ImageStream", Namespace: "openshift", Name: "python", Container: field, Use: policy.History}
			}
			want := []policy.Image{
				{Ref: "quay.io/python:new", Consumers: []policy.Consumer{past("tag"), consumer("spec.strategy.sourceStrategy.from")}},
				{Ref: "quay.io/python@" + digest, Consumers: []policy.Consumer{past("old"), consumer("spec.source.images[0].from")}},
			}
			if diff := cmp.Diff(want, x.Images().ByReference()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			x.Delete("ImageStream", "openshift", "python")
			if got := x.Images().ByReference(); len(got) != 0 {
				t.Errorf("without the stream: %v", got)
			}
			x.Replace("BuildConfig", nil)
			x.Put(stream("quay.io/python:new"))
			want = []policy.Image{
				{Ref: "quay.io/python:new", Consumers: []policy.Consumer{past("tag")}},
				{Ref: "quay.io/python@" + digest, Consumers: []policy.Consumer{past("old")}},
			}
			if diff := cmp.Diff(want, x.Images().ByReference()); diff != "" {
				t.Errorf("without the build (-want +got):\n%s", diff)
			}
		})
	}
}

// TestIndexOfManyTags: a BuildConfig may name thousands of ImageStreams. What it takes stays in proportion to its size, and so does what it
// takes that they all change.
func TestIndexOfManyTags(t *testing.T) {
	const streams, size = 10_000, 10_000 * len(`{"from":{"kind":"ImageStreamTag","name":"s1234:1"}},`)
	h := Holder{Kind: "BuildConfig", Namespace: "shop", Name: "app"}
	for i := range streams {
		h.add(Reference{Tag: fmt.Sprintf("shop/s%d:1", i), Container: fmt.Sprintf("spec.source.images[%d].from", i)})
	}
	packed := Pack(h.References) // as it is in memory anyway
	var x Index
	if heap := heapOf(func() any {
		x.Put(Holder{h.Kind, h.Namespace, h.Name, packed.References()})
		return &x
	}); heap > 5*float64(size) {
		t.Errorf("%.0f KB are kept of %d KB", heap/1e3, size/1000)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range streams {
		x.Put(Holder{streamKind, "shop", fmt.Sprint("s", i), []Reference{{Image: fmt.Sprint("quay.io/", i), Tag: fmt.Sprintf("shop/s%d:1", i)}}})
	}
	if n := len(x.Images().ByReference()[0].Consumers); n != 2 {
		t.Errorf("%d consumers, want the stream and the build", n)
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 100*uint64(size) {
		t.Errorf("%d MB are allocated as all streams change", allocated>>20)
	}
}
