package forecast

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// TestPulls: what the facts of a review say about the routes of a node.
func TestPulls(t *testing.T) {
	const image, old, mirror = "quay.io/shop/cart:v1", "old.local/shop/cart:v1", "m.local/shop/cart:v1"
	to := func(location configv1.ImageMirror) mirrors.Set {
		o := &configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		o.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: "quay.io/shop", Mirrors: []configv1.ImageMirror{location}, MirrorSourcePolicy: configv1.NeverContactSource}}
		return mirrors.Set{Objects: []mirrors.Object{o}}
	}
	for _, tt := range []struct {
		name          string
		facts         map[string]policy.Presence
		before, after rollout.Pull
	}{
		{"nobody looked", nil, rollout.PullUnknown, rollout.PullUnknown},
		{"both have it", map[string]policy.Presence{old: policy.Present, mirror: policy.Present}, rollout.PullWorks, rollout.PullWorks},
		{"the new one lacks it", map[string]policy.Presence{mirror: policy.Absent}, rollout.PullUnknown, rollout.PullFails},
		{"the new one is out of reach", map[string]policy.Presence{mirror: policy.Unreachable}, rollout.PullUnknown, rollout.PullUnknown},
		{"the old one has lost it", map[string]policy.Presence{old: policy.Absent, mirror: policy.Present}, rollout.PullFails, rollout.PullWorks},
		{"the old one is out of reach", map[string]policy.Presence{old: policy.Unreachable, mirror: policy.Present}, rollout.PullUnknown, rollout.PullWorks},
	} {
		p := plan.NewOutline(policy.Change{Before: to("old.local/shop"), After: to("m.local/shop")}, plan.Cluster{Images: policy.NewImages(policy.Image{Ref: image})}, settings.Settings{}).Plan()
		facts := policy.Facts{}
		for _, l := range p.Locations() {
			facts[l] = &policy.Fact{Presence: tt.facts[l.Ref], AsNodes: true}
		}
		pulls := pulls(&p.Plan, facts)
		if was, is := pulls.pull(" "+image, "shop", "worker", false), pulls.pull(image, "shop", "worker", true); was != tt.before || is != tt.after {
			t.Errorf("%s: got %v and %v, want %v and %v", tt.name, was, is, tt.before, tt.after)
		}
	}
}
