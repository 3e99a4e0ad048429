package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBroadSource(t *testing.T) {
	images := []Image{
		{"quay.io/shop/cart:v1", running},
		{"quay.io/shop/web:v1", running},
		{"quay.io/team/tool:v1", []Consumer{{Kind: "CronJob", Namespace: "team", Name: "tool", Container: "tool"}}},
	}
	f := facts("m.local/shop/cart:v1 present", "m.local/shop/web:v1 present", "m.local/team/tool:v1 absent", "quay.io/team/tool:v1 absent")
	tests := []struct {
		name, source string
		images       []Image
		want         string
	}{
		{"a whole registry", "quay.io", images, "warn ImageMissing, warn BroadSource"},
		{"a namespace is what somebody meant", "quay.io/shop", images, ""},
		{"a registry of which one repository is in use", "quay.io", images[:1], ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mirror := "m.local" + tt.source[len("quay.io"):]
			plan := shallow(Change{set(), set(itms("a", tt.source, allow, mirrorOf(mirror)))}, tt.images, Settings{})
			if got := summary(plan.Decide(f)); got != tt.want {
				t.Errorf("findings %s, want %s", got, tt.want)
			}
		})
	}
}

func TestBroadSourceText(t *testing.T) {
	images := []Image{{"quay.io/shop/cart:v1", running}, {"quay.io/team/tool:v1", running}}
	plan := shallow(Change{set(), set(itms("a", "quay.io", never, "m.local"))}, images, Settings{Severities: map[string]Severity{"NotFullySynced": Info}})
	v := plan.Decide(facts("m.local/shop/cart:v1 present", "m.local/team/tool:v1 absent", "quay.io/team/tool:v1 absent"))
	want := `ImageTagMirrorSet a is admitted: it reroutes 2 of 2 images, 1 verified.

Warnings:

1. the configuration as a whole
   BroadSource: quay.io covers 2 images of 2 repositories in 1 namespace
   - ImageTagMirrorSet a
   - namespaces: shop
   - narrower sources that the mirror holds completely: quay.io/shop
   To do: name only what is mirrored; check -o narrowed prints such an object
`
	if diff := cmp.Diff(want, v.Report("ImageTagMirrorSet a")); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
