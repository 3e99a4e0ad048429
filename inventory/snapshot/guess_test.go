package snapshot

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// TestGuesses reads kinds that are not known, ConfigMaps that list images, and tags that
// builds start from, and reads the same again from what it writes.
func TestGuesses(t *testing.T) {
	const dump = `
apiVersion: tekton.dev/v1
kind: Task
metadata: {name: build, namespace: ci}
spec: {steps: [{name: go, image: "docker.io/golang:1.26"}]}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: a, namespace: ci}
spec: {color: red}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: openshift-controller-manager-images, namespace: openshift-controller-manager-operator}
data: {builderImage: "quay.io/payload:builder", deployerImage: "quay.io/payload:deployer", note: none}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: widget-images, namespace: openshift-widgets}
data: {images.json: '{"widget": "quay.io/widget/widget:1"}'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: widget-images, namespace: shop}
data: {images.json: '{"widget": "quay.io/shop/widget:1"}'}
---
apiVersion: build.openshift.io/v1
kind: BuildConfig
metadata: {name: app, namespace: shop}
spec: {strategy: {sourceStrategy: {from: {kind: ImageStreamTag, namespace: openshift, name: "python:3.9"}}}}
---
apiVersion: image.openshift.io/v1
kind: ImageStream
metadata: {name: python, namespace: openshift}
status: {tags: [{tag: "3.9", items: [{dockerImageReference: "quay.io/python:3.9"}, {dockerImageReference: "quay.io/python:old"}]}]}
`
	s, err := ReadFrom(strings.NewReader(dump), "a dump")
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Problems(); len(p) != 0 {
		t.Errorf("problems: %v", p)
	}
	want := []policy.Image{
		{Ref: "docker.io/golang:1.26", Consumers: []policy.Consumer{{Kind: "Task.tekton.dev", Namespace: "ci", Name: "build", Container: "spec.steps[go]", Guessed: true}}},
		{Ref: "quay.io/payload:builder", Consumers: []policy.Consumer{{
			Kind: "ConfigMap", Namespace: "openshift-controller-manager-operator", Name: "openshift-controller-manager-images", Container: "data[builderImage]",
		}}},
		{Ref: "quay.io/payload:deployer", Consumers: []policy.Consumer{{
			Kind: "ConfigMap", Namespace: "openshift-controller-manager-operator", Name: "openshift-controller-manager-images", Container: "data[deployerImage]",
		}}},
		{Ref: "quay.io/python:3.9", Consumers: []policy.Consumer{
			{Kind: "ImageStream", Namespace: "openshift", Name: "python", Container: "status.tags[3.9].items[0].dockerImageReference", Use: policy.History},
			{Kind: "BuildConfig", Namespace: "shop", Name: "app", Container: "spec.strategy.sourceStrategy.from", OwnPullSecret: true, PullSecretUnknown: true},
		}},
		{Ref: "quay.io/python:old", Consumers: []policy.Consumer{
			{Kind: "ImageStream", Namespace: "openshift", Name: "python", Container: "status.tags[3.9].items[1].dockerImageReference", Use: policy.History},
		}},
		{Ref: "quay.io/widget/widget:1", Consumers: []policy.Consumer{
			{Kind: "ConfigMap", Namespace: "openshift-widgets", Name: "widget-images", Container: "data[images.json]", Guessed: true},
		}},
	}
	check := func(s *Snapshot) {
		t.Helper()
		got, err := s.Images(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.ByReference()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	check(s)
	if diff := cmp.Diff(map[string]int{"ConfigMap": 1, "Widget": 1}, s.skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	var written bytes.Buffer
	if err := Write(t.Context(), &written, s, s.TrustSettings()); err != nil {
		t.Fatal(err)
	}
	again, err := ReadFrom(&written, "what was written")
	if err != nil {
		t.Fatal(err)
	}
	check(again)
}
