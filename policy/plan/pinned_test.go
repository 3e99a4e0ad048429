package plan

import (
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		if got := NewPinPlacements(tt.cluster).of(set); (got == nil) != tt.all {
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
