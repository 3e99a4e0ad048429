package policy

import (
	"math/rand/v2"
	"slices"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// TestPinPlacements: a set is judged for the platforms of all nodes that pull it, and for those of all that there
// are where it is not known which do.
func TestPinPlacements(t *testing.T) {
	labelled := map[string]string{"pins": "yes"}
	pool := func(name string, nodes *metav1.LabelSelector) *mcfgv1.MachineConfigPool {
		return &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mcfgv1.MachineConfigPoolSpec{
			MachineConfigSelector: &metav1.LabelSelector{MatchLabels: labelled}, NodeSelector: nodes,
		}}
	}
	some := pool("some", &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}})
	set := &mcfgv1.PinnedImageSet{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labelled}}
	for _, tt := range []struct {
		reason  string
		cluster *rollout.Cluster
		all     bool
	}{
		{"nodes with a label", &rollout.Cluster{Pools: []*mcfgv1.MachineConfigPool{some}}, false},
		{"a selector without conditions takes every node", &rollout.Cluster{Pools: []*mcfgv1.MachineConfigPool{some, pool("every", &metav1.LabelSelector{})}}, true},
		{"no pool takes it", &rollout.Cluster{}, true},
		{"pools that could not be read", &rollout.Cluster{Pools: []*mcfgv1.MachineConfigPool{some}, Unknown: []string{"machineconfigpools"}}, true},
		{"nothing of pools is known", nil, true},
	} {
		if got := newPinPlacements(tt.cluster).of(set); (got == nil) != tt.all {
			t.Errorf("%s: nodes %+v", tt.reason, got)
		}
	}
}

// TestPinsWeakenNothing: what is said of pins is said of nothing else that the same change brings.
func TestPinsWeakenNothing(t *testing.T) {
	c := Cluster{brought: map[string]bool{"quay.io/both@sha256:a": true}}.pinning([]string{"quay.io/both@sha256:a", "quay.io/pin@sha256:b"})
	if c.pins["quay.io/both@sha256:a"] || !c.pins["quay.io/pin@sha256:b"] {
		t.Errorf("for pins alone: %v", c.pins)
	}
	if !c.brought["quay.io/both@sha256:a"] || !c.brought["quay.io/pin@sha256:b"] {
		t.Errorf("brought: %v", c.brought)
	}
}

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
		said := map[string]Presence{}
		for _, h := range []string{"a.local", "b.local", "c.local", "quay.io"} {
			said[h] = []Presence{Present, Absent, Absent, Denied, Unreachable}[rng.IntN(5)]
		}
		users := consumers()
		users[0].Use, users[0].OwnPullSecret = []Use{Referenced, History, Running}[rng.IntN(3)], rng.IntN(4) == 0
		known := Cluster{Images: NewImages(Image{dig, users}), Rollout: &rollout.Cluster{Pools: []*mcfgv1.MachineConfigPool{worker}}}
		judge := func(c Change) Verdict {
			p := shallower(newPlan(c, known, Settings{}))
			found := Facts{}
			for _, l := range p.Locations() {
				found[l] = &Fact{Presence: said[l.Host()], AsNodes: true}
			}
			return p.Decide(found)
		}
		mirrorsOnly := judge(w.change)
		w.change.After.Pinned = []mirrors.Object{pinSet("shop", "worker", 0, dig)}
		pinOnly := Change{Before: w.change.After, After: w.change.After}
		pinOnly.Before.Pinned = nil
		alone, both := judge(pinOnly), judge(w.change)
		if alone.Allowed || !slices.ContainsFunc(alone.Findings, func(f Finding) bool { return f.Rule == PinnedImageMissing && f.Severity == Deny }) {
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
