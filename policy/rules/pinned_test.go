package rules

import (
	"math/rand/v2"
	"slices"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// TestPinnedAndRerouted: a change that pins an image and sends its pulls elsewhere is refused wherever the
// PinnedImageSet alone would be, with the mirrors as they are afterwards. That nothing gets the image today either is an
// excuse for mirrors, and none for a set that is sure to fail on every node.
func TestPinnedAndRerouted(t *testing.T) {
	worker := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Spec: mcfgv1.MachineConfigPoolSpec{
		MachineConfigSelector: &metav1.LabelSelector{MatchLabels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: "worker"}},
	}}
	rng := rand.New(rand.NewPCG(7, 8))
	refused, excused := 0, 0
	for range 1500 {
		w := randomWorld(rng)
		said := map[string]policy.Presence{}
		for _, h := range []string{"a.local", "b.local", "c.local", "quay.io"} {
			said[h] = []policy.Presence{policy.Present, policy.Absent, policy.Absent, policy.Denied, policy.Unreachable}[rng.IntN(5)]
		}
		users := consumers()
		users[0].Use, users[0].OwnPullSecret = []policy.Use{policy.Referenced, policy.History, policy.Running}[rng.IntN(3)], rng.IntN(4) == 0
		known := plan.Cluster{Images: policy.NewImages(policy.Image{Ref: dig, Consumers: users}), Rollout: &rollout.Cluster{Pools: []*mcfgv1.MachineConfigPool{worker}}}
		judge := func(c policy.Change) policy.Verdict {
			p := shallower(newPlan(c, known, settings.Settings{}))
			found := policy.Facts{}
			for _, l := range p.Locations() {
				found[l] = &policy.Fact{Presence: said[l.Host()], AsNodes: true}
			}
			return Decide(p, found)
		}
		mirrorsOnly := judge(w.change)
		w.change.After.Pinned = []mirrors.Object{pinSet("shop", "worker", 0, dig)}
		pinOnly := policy.Change{Before: w.change.After, After: w.change.After}
		pinOnly.Before.Pinned = nil
		alone, both := judge(pinOnly), judge(w.change)
		if alone.Allowed || !slices.ContainsFunc(alone.Findings, func(f policy.Finding) bool { return f.Rule == policy.PinnedImageMissing && f.Severity == policy.Deny }) {
			continue
		}
		refused++
		if mirrorsOnly.Allowed && mirrorsOnly.Counts.Rerouted > 0 {
			excused++
		}
		if both.Allowed {
			t.Fatalf("admitted with the mirrors: %s; alone: %s\n%s %v", summary(both), summary(alone), w, said)
		}
	}
	if refused < 150 || excused < 15 {
		t.Errorf("%d sets are refused, %d of them with mirrors that are not: too few", refused, excused)
	}
}
