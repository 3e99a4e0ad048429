package rules

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

func TestBroadSource(t *testing.T) {
	images := []policy.Image{
		{Ref: "quay.io/shop/cart:v1", Consumers: running},
		{Ref: "quay.io/shop/web:v1", Consumers: running},
		{Ref: "quay.io/team/tool:v1", Consumers: []policy.Consumer{{Kind: "CronJob", Namespace: "team", Name: "tool", Container: "tool"}}},
	}
	f := facts("m.local/shop/cart:v1 present", "m.local/shop/web:v1 present", "m.local/team/tool:v1 absent", "quay.io/team/tool:v1 absent")
	tests := []struct {
		name, source string
		images       []policy.Image
		want         string
	}{
		{"a whole registry", "quay.io", images, "warn ImageMissing, warn BroadSource"},
		{"a namespace is what somebody meant", "quay.io/shop", images, ""},
		{"a registry of which one repository is in use", "quay.io", images[:1], ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mirror := "m.local" + tt.source[len("quay.io"):]
			plan := shallow(policy.Change{Before: set(), After: set(itms("a", tt.source, allow, mirrorOf(mirror)))}, tt.images, settings.Settings{})
			if got := summary(Decide(plan, f)); got != tt.want {
				t.Errorf("findings %s, want %s", got, tt.want)
			}
		})
	}
}

// TestBroadSourceNames: what is covered, and which narrower sources the mirror holds completely.
func TestBroadSourceNames(t *testing.T) {
	images := []policy.Image{{Ref: "quay.io/shop/cart:v1", Consumers: running}, {Ref: "quay.io/team/tool:v1", Consumers: running}}
	v := Decide(shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local"))}, images, severities(policy.NotFullySynced, policy.Info)), facts("m.local/shop/cart:v1 present", "m.local/team/tool:v1 absent", "quay.io/team/tool:v1 absent"))
	f := v.Findings[0]
	if detail := strings.Join(f.Detail, "\n"); f.Rule != policy.BroadSource || !strings.Contains(detail, "ImageTagMirrorSet a") || !strings.HasSuffix(detail, ": quay.io/shop") {
		t.Errorf("%+v", f)
	}
}
