package images

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

func extracted(t *testing.T, group, text string) Holder {
	t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	kind, ok := KindOf(schema.GroupKind{Group: group, Kind: o.GetKind()})
	if !ok {
		t.Fatalf("no kind %s", o.GetKind())
	}
	return kind.Extract(&o)
}

// TestFollowedTags: what something pulls for an ImageStream without being asked again.
func TestFollowedTags(t *testing.T) {
	h := extracted(t, "image.openshift.io", `
kind: ImageStream
metadata: {name: a, namespace: shop}
spec:
  tags:
  - {name: scheduled, from: {kind: DockerImage, name: "q.io/a:1"}, importPolicy: {scheduled: true}}
  - {name: ondemand, from: {kind: DockerImage, name: "q.io/a:2"}}
  - {name: imported, from: {kind: DockerImage, name: "q.io/a@sha256:3"}, importPolicy: {scheduled: true}}
  - {name: waiting, from: {kind: DockerImage, name: "q.io/a@sha256:4"}, importPolicy: {scheduled: true}}
  - {name: local, from: {kind: DockerImage, name: "q.io/a:5"}, referencePolicy: {type: Local}}
  - {name: built, referencePolicy: {type: Local}}
  - {name: odd, from: 7, importPolicy: scheduled, referencePolicy: [Local]}
  - nonsense
status:
  dockerImageRepository: registry.svc:5000/shop/a
  tags:
  - {tag: imported, items: [{dockerImageReference: "q.io/a@sha256:3"}]}
  - {tag: local, items: [{dockerImageReference: "q.io/a@sha256:5"}, {dockerImageReference: "q.io/a@sha256:0"}]}
  - {tag: built, items: [{dockerImageReference: "registry.svc:5000/shop/a@sha256:6"}]}
`)
	got := map[string]string{}
	for _, r := range h.References {
		c := policy.Consumer{Kind: h.Kind, Container: r.Container, Use: r.Use}
		got[r.Container] = fmt.Sprint(c.Puller(), " ", r.Use)
	}
	want := map[string]string{
		"spec.tags[scheduled].from":                           "imports referenced",
		"spec.tags[ondemand].from":                            "imports history",
		"spec.tags[imported].from":                            "imports history",
		"spec.tags[waiting].from":                             "imports referenced",
		"spec.tags[local].from":                               "imports history",
		"status.tags[imported].items[0].dockerImageReference": "nodes history",
		"status.tags[local].items[0].dockerImageReference":    "pull-through referenced",
		"status.tags[local].items[1].dockerImageReference":    "nodes history",
		"status.tags[built].items[0].dockerImageReference":    "nodes history",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestNoRegistry: without an integrated registry nothing is pulled through.
func TestNoRegistry(t *testing.T) {
	h := extracted(t, "image.openshift.io", `
kind: ImageStream
metadata: {name: a, namespace: shop}
spec: {tags: [{name: "1", referencePolicy: {type: Local}}]}
status: {tags: [{tag: "1", items: [{dockerImageReference: "q.io/a@sha256:3"}]}]}
`)
	if len(h.References) != 1 || h.References[0].Use != policy.History {
		t.Errorf("got %v", h.References)
	}
}

// TestLayering: what the image of a pool's nodes is built from, beside MCO's own stages.
func TestLayering(t *testing.T) {
	h := extracted(t, "machineconfiguration.openshift.io", `
kind: MachineOSConfig
metadata: {name: worker}
spec:
  baseImagePullSecret: {name: base}
  containerFile:
  - content: |
      FROM q.io/tool:1 AS tool
      FROM configs AS final
      COPY --from=tool /a /b
`)
	want := []Reference{
		{Image: "q.io/tool:1", Container: "spec.containerFile[0].content", OwnPullSecret: true},
	}
	if diff := cmp.Diff(want, h.References); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestManyTags: an ImageStream of a tenant's may have as many tags as fit into an object.
func TestManyTags(t *testing.T) {
	tags := strings.Repeat(`{"name":"x","from":{"kind":"DockerImage","name":"q.io/a:1"},"importPolicy":{"scheduled":true}},`, 3_000)
	h := extracted(t, "image.openshift.io", `{"kind":"ImageStream","metadata":{"name":"a","namespace":"shop"},"spec":{"tags":[`+strings.TrimSuffix(tags, ",")+`]}}`)
	if len(h.References) != 3_000 {
		t.Errorf("%d references", len(h.References))
	}
}
