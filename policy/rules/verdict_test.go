package rules

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// TestLooked: nothing is promised that nobody looked at.
func TestLooked(t *testing.T) {
	for _, tc := range []struct {
		verified, layers int
		want             string
	}{
		{0, 0, ""},
		{3, 0, "the manifests were found, layers were not looked up;"},
		{3, 2, "the manifests were found, and the layers of 2 of them;"},
		{3, 3, "manifests and layers were found;"},
	} {
		if got := (policy.Counts{Verified: tc.verified, Layers: tc.layers}).Looked(); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%d, %d: %q", tc.verified, tc.layers, got)
		}
	}
	change := policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}
	for consumer, layers := range map[string]int{"shop": 0, "openshift-ingress": 1} {
		plan := newPlan(change, plan.Cluster{Images: policy.NewImages(policy.Image{Ref: tag, Consumers: used(consumer)})}, settings.Settings{})
		facts := policy.Facts{}
		for lookups := plan.Lookups(facts); len(lookups) > 0; lookups = plan.Lookups(facts) {
			for _, l := range lookups {
				facts[l] = &policy.Fact{Presence: policy.Present, AsNodes: true}
			}
		}
		if got := Decide(plan, facts).Counts; got.Verified != 1 || got.Layers != layers {
			t.Errorf("%s: %+v", consumer, got)
		}
	}
}
