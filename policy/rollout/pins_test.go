package rollout

import (
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const pinnedImage = "quay.io/shop/cart@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// pinnedCluster has a pool of one node, which holds the third generation of a set.
func pinnedCluster() Cluster {
	created := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	role := map[string]string{mcfgv1.MachineConfigRoleLabelKey: "worker"}
	return Cluster{
		Pools: []*mcfgv1.MachineConfigPool{{
			ObjectMeta: metav1.ObjectMeta{Name: "worker"},
			Spec: mcfgv1.MachineConfigPoolSpec{
				MachineConfigSelector: &metav1.LabelSelector{MatchLabels: role}, NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"worker": ""}},
				PinnedImageSets: []mcfgv1.PinnedImageSetRef{{Name: "shop"}},
			},
		}},
		Nodes: []*corev1.Node{{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"worker": ""}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}},
		PinnedSets: []*mcfgv1.PinnedImageSet{{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: role, Generation: 3, CreationTimestamp: metav1.NewTime(created)},
			Spec:       mcfgv1.PinnedImageSetSpec{PinnedImages: []mcfgv1.PinnedImageRef{{Name: pinnedImage}}},
		}},
		NodePins: []NodePins{{
			Node: "a", Pool: "worker", Works: true, Settled: created.Add(time.Minute),
			Sets: []mcfgv1.MachineConfigNodeStatusPinnedImageSet{{Name: "shop", CurrentGeneration: 3, DesiredGeneration: 3}},
		}},
	}
}

// TestPinnings: a node holds a set only if all that is known of it says so.
func TestPinnings(t *testing.T) {
	for _, tt := range []struct {
		reason string
		change func(*Cluster)
		want   string // Pinning.Missing begins so, "" for a set that is held
		failed bool
	}{
		{"all says so", func(*Cluster) {}, "", false},
		{"an older failure is over", func(c *Cluster) { c.NodePins[0].Sets[0].LastFailedGeneration = 2 }, "", false},
		{"a stale generation", func(c *Cluster) { c.PinnedSets[0].Generation = 4 }, "holds generation 3, not 4", false},
		{"an older one is wanted", func(c *Cluster) { c.NodePins[0].Sets[0].DesiredGeneration = 2 }, "holds generation 3", false},
		{"a set without a generation, as from a file", func(c *Cluster) { c.PinnedSets[0].Generation = 0 }, "tells of a generation", false},
		{"the pull failed", func(c *Cluster) {
			c.NodePins[0].Works, c.NodePins[0].Fails = false, true
			c.NodePins[0].Sets[0] = mcfgv1.MachineConfigNodeStatusPinnedImageSet{Name: "shop", CurrentGeneration: 2, DesiredGeneration: 3, LastFailedGeneration: 3, LastFailedGenerationError: "manifest unknown"}
		}, "could not pull or pin them: manifest unknown", true},
		{"still at it", func(c *Cluster) { c.NodePins[0].Settled = time.Time{} }, "is still pulling them", false},
		{"degraded all the same", func(c *Cluster) { c.NodePins[0].Works, c.NodePins[0].Fails = false, true }, "does not say that all is well", true},
		{"not known whether it is degraded", func(c *Cluster) { c.NodePins[0].Works = false }, "does not say that all is well", false},
		{"another set had the name", func(c *Cluster) { c.NodePins[0].Settled = c.PinnedSets[0].CreationTimestamp.Add(-time.Second) }, "has not looked", false},
		{"no MachineConfigNode", func(c *Cluster) { c.NodePins = nil }, "has no MachineConfigNode", false},
		{"one of another pool", func(c *Cluster) { c.NodePins[0].Pool = "infra" }, "tells of pool infra", false},
		{"one that does not know the set", func(c *Cluster) { c.NodePins[0].Sets = nil }, "does not tell of the set", false},
		{"MCO has not given it to the pool", func(c *Cluster) { c.Pools[0].Spec.PinnedImageSets = nil }, "has not been told", false},
		{"the set goes", func(c *Cluster) { c.PinnedSets[0].DeletionTimestamp = new(metav1.Now()) }, "is about to forget them", false},
		{"the node is silent", func(c *Cluster) { c.Nodes[0].Status.Conditions[0].Status = corev1.ConditionUnknown }, "is not ready", false},
		{"what nodes hold is not known as it is now", func(c *Cluster) { c.Unknown = []string{"machineconfignodes"} }, "may not hold them any more: machineconfignodes", false},
		{"nor are sets", func(c *Cluster) { c.Unknown = []string{"pinnedimagesets"} }, "may not hold them any more: pinnedimagesets", false},
		{"whether it is ready is not known", func(c *Cluster) { c.Nodes[0].Status.Conditions = nil }, "is not ready", false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			c := pinnedCluster()
			tt.change(&c)
			all := c.Pinnings()
			if len(all) != 1 {
				t.Fatalf("%+v", all)
			}
			if !strings.HasPrefix(all[0].Missing, tt.want) || tt.want == "" && all[0].Missing != "" || all[0].Failed != tt.failed {
				t.Errorf("%q, failed %t; want %q, %t", all[0].Missing, all[0].Failed, tt.want, tt.failed)
			}
			if held := c.Held()["a"]; (len(held) == 1 && held[0] == pinnedImage) != (tt.want == "") {
				t.Errorf("it holds %q", held)
			}
		})
	}
}

// TestTakesPinnedSet: labels choose the pool, and a selector that is empty chooses nothing.
func TestTakesPinnedSet(t *testing.T) {
	c := pinnedCluster()
	set := c.PinnedSets[0].DeepCopy()
	if !TakesPinnedSet(c.Pools[0], set) {
		t.Error("a pool does not take its own set")
	}
	set.Labels = map[string]string{mcfgv1.MachineConfigRoleLabelKey: "gpu"}
	if TakesPinnedSet(c.Pools[0], set) {
		t.Error("a pool takes another's")
	}
	for _, none := range []*metav1.LabelSelector{nil, {}} {
		c.Pools[0].Spec.MachineConfigSelector = none
		if TakesPinnedSet(c.Pools[0], set) {
			t.Errorf("selector %v takes a set", none)
		}
	}
}
