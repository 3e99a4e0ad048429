package policy

import (
	"strings"
	"testing"
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

// TestBroadSourceNames: what is covered, and which narrower sources the mirror holds completely.
func TestBroadSourceNames(t *testing.T) {
	images := []Image{{"quay.io/shop/cart:v1", running}, {"quay.io/team/tool:v1", running}}
	v := shallow(Change{set(), set(itms("a", "quay.io", never, "m.local"))}, images, severities(NotFullySynced, Info)).
		Decide(facts("m.local/shop/cart:v1 present", "m.local/team/tool:v1 absent", "quay.io/team/tool:v1 absent"))
	f := v.Findings[0]
	if detail := strings.Join(f.Detail, "\n"); f.Rule != BroadSource || !strings.Contains(detail, "ImageTagMirrorSet a") || !strings.HasSuffix(detail, ": quay.io/shop") {
		t.Errorf("%+v", f)
	}
}
