package images

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

func pod(name string, images ...string) Holder {
	h := Holder{Kind: "Pod", Namespace: "shop", Name: name}
	for i, image := range images {
		h.References = append(h.References, Reference{Image: image, Container: fmt.Sprint("c", i), Use: policy.Running})
	}
	return h
}

func consumer(name, container string) policy.Consumer {
	return policy.Consumer{Kind: "Pod", Namespace: "shop", Name: name, Container: container, Use: policy.Running}
}

func TestIndex(t *testing.T) {
	tests := []struct {
		reason string
		change func(*Index)
		want   []policy.Image
	}{
		{"an empty index has no images", func(*Index) {}, []policy.Image{}},
		{
			"images are sorted by reference, consumers by name and container",
			func(x *Index) { x.Put(pod("b", "z", "a")); x.Put(pod("a", "a", "a")) },
			[]policy.Image{
				{Ref: "a", Consumers: []policy.Consumer{consumer("a", "c0"), consumer("a", "c1"), consumer("b", "c1")}},
				{Ref: "z", Consumers: []policy.Consumer{consumer("b", "c0")}},
			},
		},
		{"the same twice is once", func(x *Index) { x.Put(pod("a", "a")); x.Put(pod("a", "a")) }, []policy.Image{{Ref: "a", Consumers: []policy.Consumer{consumer("a", "c0")}}}},
		{
			"a changed object leaves nothing behind",
			func(x *Index) { x.Put(pod("a", "old", "both")); x.Put(pod("a", "both", "new")) },
			[]policy.Image{
				{Ref: "both", Consumers: []policy.Consumer{consumer("a", "c0")}},
				{Ref: "new", Consumers: []policy.Consumer{consumer("a", "c1")}},
			},
		},
		{"the last user takes the image away, twice as well as once", func(x *Index) { x.Put(pod("a", "a")); x.Delete("Pod", "shop", "a"); x.Delete("Pod", "shop", "a") }, []policy.Image{}},
		{"an object that names no images any more is gone", func(x *Index) { x.Put(pod("a", "a")); x.Put(pod("a")) }, []policy.Image{}},
		{"an image that comes back is there", func(x *Index) { x.Put(pod("a", "a")); x.Put(pod("a")); x.Put(pod("a", "a")) }, []policy.Image{{Ref: "a", Consumers: []policy.Consumer{consumer("a", "c0")}}}},
		{
			"a relist takes away what it does not name, of its own kind only",
			func(x *Index) {
				x.Put(pod("gone", "a"))
				x.Put(Holder{"Job", "shop", "gone", []Reference{{Image: "a", Container: "c0"}}})
				x.Replace("Pod", []Holder{pod("new", "a")})
			},
			[]policy.Image{{Ref: "a", Consumers: []policy.Consumer{
				{Kind: "Job", Namespace: "shop", Name: "gone", Container: "c0"}, consumer("new", "c0"),
			}}},
		},
		{
			"one name in two namespaces is two objects",
			func(x *Index) {
				x.Put(pod("a", "a"))
				x.Put(Holder{"Pod", "blog", "a", []Reference{{Image: "a"}}})
				x.Delete("Pod", "shop", "a")
			},
			[]policy.Image{{Ref: "a", Consumers: []policy.Consumer{{Kind: "Pod", Namespace: "blog", Name: "a"}}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			var lazy, eager Index
			tt.change(&lazy)
			if diff := gocmp.Diff(tt.want, lazy.Images().ByReference()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			eager.Images().ByReference() // what was asked before must not matter
			tt.change(&eager)
			if diff := gocmp.Diff(tt.want, eager.Images().ByReference()); diff != "" {
				t.Errorf("asked before: -want +got:\n%s", diff)
			}
		})
	}
}

// What a caller has been given stays as it was.
func TestIndexLeavesResultsAlone(t *testing.T) {
	var x Index
	x.Put(pod("a", "a"))
	before := x.Images().ByReference()
	x.Put(pod("b", "a"))
	x.Delete("Pod", "shop", "a")
	x.Images().ByReference()
	if want := []policy.Image{{Ref: "a", Consumers: []policy.Consumer{consumer("a", "c0")}}}; gocmp.Diff(want, before) != "" {
		t.Errorf("the earlier result became %v", before)
	}
}

// Most events of a pod are about something else than its images.
func TestIndexDoesNothingForNoChange(t *testing.T) {
	var x Index
	x.Put(pod("a", "a"))
	x.Images()
	x.Put(pod("a", "a"))
	if len(x.dirty) > 0 {
		t.Error("a change that is none has images brought up to date")
	}
}

// bruteForce is what Images should return, from scratch.
func bruteForce(holders map[string]Holder) []policy.Image {
	consumers := map[string][]policy.Consumer{}
	for _, h := range holders {
		for _, r := range h.References {
			consumers[r.Image] = append(consumers[r.Image],
				policy.Consumer{Kind: h.Kind, Namespace: h.Namespace, Name: h.Name, Container: r.Container, Use: r.Use, Digest: r.Digest})
		}
	}
	images := []policy.Image{}
	for ref, u := range consumers {
		slices.SortFunc(u, compareConsumers)
		images = append(images, policy.Image{Ref: ref, Consumers: u})
	}
	slices.SortFunc(images, func(a, b policy.Image) int { return cmp.Compare(a.Ref, b.Ref) })
	return images
}

func TestIndexEqualsBruteForce(t *testing.T) {
	const seed = 4
	random := rand.New(rand.NewPCG(seed, seed))
	var x Index
	all := map[string]Holder{}
	for step := range 10_000 {
		h := randomHolder(random)
		key := h.Kind + "/" + h.Namespace + "/" + h.Name
		if random.IntN(3) == 0 {
			delete(all, key)
			x.Delete(h.Kind, h.Namespace, h.Name)
		} else {
			all[key] = h
			x.Put(h)
		}
		if random.IntN(500) == 0 {
			if diff := gocmp.Diff(bruteForce(all), x.Images().ByReference()); diff != "" {
				t.Fatalf("step %d: -want +got:\n%s", step, diff)
			}
		}
	}
}

func randomHolder(random *rand.Rand) Holder {
	h := Holder{
		Kind:      []string{"Pod", "Job", "Deployment"}[random.IntN(3)],
		Namespace: fmt.Sprint("ns", random.IntN(5)),
		Name:      fmt.Sprint("name", random.IntN(200)),
	}
	for i := range random.IntN(4) {
		h.References = append(h.References, Reference{
			Image:     fmt.Sprint("image", random.IntN(random.IntN(60)+1)), // some are used by nearly everything
			Container: fmt.Sprint("c", i),
			Use:       policy.Use(random.IntN(3)),
			Digest:    []string{"", digest}[random.IntN(2)],
		})
	}
	return h
}

// A namespace that makes and deletes pods while nobody asks must not fill the
// memory with what is waiting to be worked off.
func TestIndexIsBoundedUnderChurn(t *testing.T) {
	var x Index
	x.Put(pod("stays", "a"))
	for i := range 20 * minBacklog {
		name := fmt.Sprint("churn-", i)
		x.Put(pod(name, "a", fmt.Sprint("image-", i)))
		x.Delete("Pod", "shop", name)
	}
	if n := len(x.images["a"].changed); n > minBacklog {
		t.Errorf("%d changes are waiting, want at most %d", n, minBacklog)
	}
	if len(x.images) != 1 || len(x.dirty) > 1 || x.Objects() != 1 {
		t.Errorf("%d images, %d of them dirty, and %d objects are left, want one of each", len(x.images), len(x.dirty), x.Objects())
	}
}

// Strings of a decoded object may be parts of its whole text.
func TestIndexKeepsNoLargeTexts(t *testing.T) {
	var x Index
	text := strings.Repeat("x", 64) + "shop/name/quay.io/app:1"
	x.Put(Holder{"Pod", text[64:68], text[69:73], []Reference{{Image: text[74:]}}})
	img := x.Images().ByReference()[0]
	for _, kept := range []string{img.Ref, img.Consumers[0].Namespace, img.Consumers[0].Name} {
		if sharesText(kept, text) {
			t.Errorf("%q still is a part of the text it was cut from", kept)
		}
	}
}

func TestIndexIsSafeForConcurrentUse(t *testing.T) {
	var x Index
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 0))
			for range 2_000 {
				h := randomHolder(random)
				x.Put(h)
				x.Delete(h.Kind, h.Namespace, "name0")
				if random.IntN(50) == 0 {
					for _, img := range x.Images().ByReference() {
						_ = len(img.Consumers)
					}
				}
			}
		})
	}
	wg.Wait()
}
