package images

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	buildv1 "github.com/openshift/api/build/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

func TestDockerfiles(t *testing.T) {
	tests := []struct {
		reason string
		text   string
		want   []string
	}{
		{"a base image", "FROM quay.io/ubi9/ubi:9\nRUN true\n", []string{"quay.io/ubi9/ubi:9"}},
		{"in any case, with a flag, a tab and what Windows ends lines with", "from\t--platform=linux/amd64 quay.io/a:1\r\n", []string{"quay.io/a:1"}},
		{"comments and continued lines", "# FROM quay.io/no:1\nFROM \\\n# in between\n\n  quay.io/a:1\nRUN a \\\n  && b\n", []string{"quay.io/a:1"}},
		{"another escape", "# syntax=x\n# escape=`\nFROM `\n  quay.io/a:1\n", []string{"quay.io/a:1"}},
		{"the end is missing", "FROM quay.io/a:1 \\", []string{"quay.io/a:1"}},
		{"a stage is no image, and all stages are built", "FROM quay.io/go:1 AS Build\nFROM build AS test\nFROM quay.io/run:1\nCOPY --from=build /a /a\nCOPY --from=0 /a /a\n", []string{"quay.io/go:1", "quay.io/run:1"}},
		{"scratch is none", "FROM quay.io/go:1 AS build\nFROM scratch\nCOPY --from=build /a /a\n", []string{"quay.io/go:1"}},
		{"what is copied from an image is not read", "FROM quay.io/a:1\nCOPY --from=quay.io/no:1 /a /a\n", []string{"quay.io/a:1"}},
		{
			"arguments with a default, given, and with neither",
			"ARG TAG=1 REPO=\"quay.io/a\"\nARG GIVEN=no\nARG NONE\nFROM $REPO:${TAG}\nFROM quay.io/b:$GIVEN\nFROM quay.io/c:${NONE:-3}\nFROM quay.io/d:$NONE\nFROM quay.io/e${NONE}:5\n",
			[]string{"quay.io/a:1", "quay.io/b:given", "quay.io/c:3", "quay.io/e:5"},
		},
		{"a default within a default", "ARG A=7\nFROM quay.io/a:${B:-${A}}\nFROM quay.io/b${A:+x}:1\n", []string{"quay.io/a:7", "quay.io/bx:1"}},
		{"arguments of a stage do not count in FROM", "ARG T=1\nFROM quay.io/a:1\nARG T=2\nARG U=2\nFROM quay.io/b:$T\nFROM quay.io/c:$U\n", []string{"quay.io/a:1", "quay.io/b:1"}},
		{"the architecture of the build is not known", "FROM quay.io/a:$TARGETARCH\nFROM --platform=$BUILDPLATFORM quay.io/b:1\n", []string{"quay.io/b:1"}},
		{"texts in it are no instructions", "FROM quay.io/a:1\nRUN <<EOF cat <<-'END'\nFROM quay.io/no:1\nEOF\n  FROM quay.io/no:2\n\tEND\nFROM quay.io/b:1\n", []string{"quay.io/a:1", "quay.io/b:1"}},
		{"another image stands for it", "FROM base:latest\nFROM tools:1\n", nil},
		{"nothing", "\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			spec := buildv1.CommonSpec{Source: buildv1.BuildSource{Dockerfile: &tt.text, Images: []buildv1.ImageSource{{As: []string{"base:latest", "tools:1"}}}}}
			spec.Strategy.DockerStrategy = &buildv1.DockerBuildStrategy{BuildArgs: []corev1.EnvVar{{Name: "GIVEN", Value: "given"}, {Name: "NOBODY", Value: "asks"}}}
			build := buildv1.Build{ObjectMeta: named("shop", "app-1"), Spec: buildv1.BuildSpec{CommonSpec: spec}}
			config := buildv1.BuildConfig{ObjectMeta: named("shop", "app"), Spec: buildv1.BuildConfigSpec{CommonSpec: spec}}
			var want []Reference
			for _, image := range tt.want {
				want = append(want, Reference{Image: image, Container: dockerfileField, Account: "builder"})
			}
			for kind, object := range map[string]any{"Build": build, "BuildConfig": config} {
				h, err := Decode(schema.GroupKind{Group: "build.openshift.io", Kind: kind}, jsonOf(t, object))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, h.References); diff != "" {
					t.Errorf("%s: -want +got:\n%s", kind, diff)
				}
			}
		})
	}
}

// TestDockerfileOfAStrategy: the strategy may have another image for the last stage, and a build
// that has ended pulls none.
func TestDockerfileOfAStrategy(t *testing.T) {
	const text = `
kind: Build
metadata: {name: app-1, namespace: shop}
spec:
  source: {dockerfile: "FROM quay.io/go:1 AS build\nFROM quay.io/replaced:1\nCOPY --from=build / /\n"}
  strategy: {dockerStrategy: {from: {kind: ImageStreamTag, name: "base:1"}, pullSecret: {name: quay}}}
status: {phase: Complete}
`
	h, err := Decode(schema.GroupKind{Group: "build.openshift.io", Kind: "Build"}, jsonOf(t, text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Reference{
		{Tag: "shop/base:1", Container: "spec.strategy.dockerStrategy.from", Use: policy.History, OwnPullSecret: true, Account: "builder"},
		{Image: "quay.io/go:1", Container: dockerfileField, Use: policy.History, OwnPullSecret: true, Account: "builder"},
	}
	if diff := cmp.Diff(want, h.References); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDockerfileIsBounded: an argument that doubles the one before it does not grow for ever.
func TestDockerfileIsBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("ARG A0=quay.io/a\n")
	for i := range 200 {
		fmt.Fprintf(&text, "ARG A%d=$A%d$A%d\n", i+1, i, i)
	}
	text.WriteString("ARG LOOP=$LOOP$LOOP\nFROM quay.io/b:1\nFROM $A200\nFROM $LOOP\n")
	d := dockerfile{given: map[string]string{}, stages: map[string]bool{}}
	if got := d.images(text.String()); !cmp.Equal(got, []string{"quay.io/b:1"}) {
		t.Errorf("got %q", got)
	}
	for name, value := range d.args {
		if len(value) > maxExpanded {
			t.Errorf("%s has %d bytes", name, len(value))
		}
	}
}

// TestDockerfileBound: a Dockerfile of 1 MB does not fill the inventory, and the same image is read once.
func TestDockerfileBound(t *testing.T) {
	var b strings.Builder
	for n := 0; b.Len() < 1_000_000; n++ {
		fmt.Fprintf(&b, "FROM q.io/%x\nFROM q.io/same\n", n)
	}
	d := dockerfile{given: map[string]string{}, others: map[string]bool{}, stages: map[string]bool{}}
	if got := d.images(b.String()); len(got) != maxInDockerfile || !slices.Contains(got, "q.io/same") || !slices.Contains(got, "q.io/0") {
		t.Errorf("%d images", len(got))
	}
}
