package objects

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

func TestTrimNodeOfNothing(t *testing.T) {
	want := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}}
	if diff := cmp.Diff(want, TrimNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0", UID: "1"}})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTrimImages: nodes that have the same image share its names, and no node has more than
// a kubelet lists.
func TestTrimImages(t *testing.T) {
	node := func(images, names int) *corev1.Node {
		n := new(corev1.Node)
		for i := range images {
			image := corev1.ContainerImage{SizeBytes: 1}
			for j := range names {
				image.Names = append(image.Names, fmt.Sprint("quay.io/a", i, ":", j))
			}
			n.Status.Images = append(n.Status.Images, image)
		}
		return TrimNode(n)
	}
	a, b := node(2, 2).Status.Images, node(2, 2).Status.Images
	want := []corev1.ContainerImage{{Names: []string{"quay.io/a0:0", "quay.io/a0:1"}}, {Names: []string{"quay.io/a1:0", "quay.io/a1:1"}}}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if &a[0].Names[0] != &b[0].Names[0] {
		t.Error("the names are not shared")
	}
	if fewer := node(2, 1).Status.Images; len(fewer[0].Names) != 1 || cap(fewer[0].Names) != 1 {
		t.Errorf("images %v, want those with one name", fewer)
	}
	if many := node(60, 9).Status.Images; len(many) != maxImages || len(many[0].Names) != maxImageNames {
		t.Errorf("%d images of %d names, want %d of %d", len(many), len(many[0].Names), maxImages, maxImageNames)
	}
	if none := node(3, 0).Status.Images; none != nil {
		t.Errorf("images %v without names, want none", none)
	}
}

func TestUpdateOf(t *testing.T) {
	then := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("CET", 3600)))
	condition := func(of mcfgv1.StateProgress, status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: string(of), Status: status, Reason: "x", Message: message, LastTransitionTime: then}
	}
	const (
		prepared, updated = mcfgv1.MachineConfigNodeUpdatePrepared, mcfgv1.MachineConfigNodeUpdated
		drains            = "Action during update to rendered-2: Update Compatible. Post Cfg Actions: [] Drain Required: true"
		reloads           = "Action during update to rendered-2: Update Compatible. Post Cfg Actions: [] Drain Required: false"
	)
	untimed := condition(updated, metav1.ConditionTrue, "")
	untimed.LastTransitionTime = metav1.Time{}
	for _, tt := range []struct {
		reason     string
		conditions []metav1.Condition
		want       *rollout.NodeUpdate
	}{
		{"a node that was never updated", nil, nil},
		{"drained, and done", []metav1.Condition{condition(prepared, metav1.ConditionFalse, drains), condition(updated, metav1.ConditionTrue, "Node Updated")}, &rollout.NodeUpdate{Drained: true, Ended: then.UTC()}},
		{"not drained, and done", []metav1.Condition{condition(prepared, metav1.ConditionFalse, reloads), condition(updated, metav1.ConditionTrue, "Node Updated")}, &rollout.NodeUpdate{Ended: then.UTC()}},
		{"under way", []metav1.Condition{condition(updated, metav1.ConditionFalse, "Node needs an update"), condition(prepared, metav1.ConditionTrue, drains)}, &rollout.NodeUpdate{Drained: true, Began: then.UTC()}},
		{"it cannot be told", []metav1.Condition{condition(updated, metav1.ConditionUnknown, ""), condition(prepared, metav1.ConditionTrue, drains)}, nil},
		{"it does not say when", []metav1.Condition{untimed, condition(prepared, metav1.ConditionTrue, drains)}, nil},
		{"it does not say whether it was drained", []metav1.Condition{condition(updated, metav1.ConditionTrue, "")}, nil},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			n := &mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}, Status: mcfgv1.MachineConfigNodeStatus{Conditions: tt.conditions}}
			n.Spec.Node.Name, n.Spec.Pool.Name, n.Spec.ConfigVersion.Desired = "worker-0", "worker", "rendered-2"
			whole, ok := UpdateOf(n)
			trimmed, stillOK := UpdateOf(TrimMachineConfigNode(n))
			if whole != trimmed || ok != stillOK {
				t.Errorf("trimmed it says %+v, as it is %+v", trimmed, whole)
			}
			want := rollout.NodeUpdate{}
			if tt.want != nil {
				want = *tt.want
				want.Node, want.Pool, want.Config = "worker-0", "worker", "rendered-2"
			}
			if diff := cmp.Diff(want, whole); diff != "" || ok != (tt.want != nil) {
				t.Errorf("%t, -want +got:\n%s", ok, diff)
			}
		})
	}
}
