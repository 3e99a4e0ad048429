package rollout

import (
	"slices"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func poolThat(name string, paused bool, conditions ...mcfgv1.MachineConfigPoolCondition) *mcfgv1.MachineConfigPool {
	return &mcfgv1.MachineConfigPool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       mcfgv1.MachineConfigPoolSpec{Paused: paused},
		Status:     mcfgv1.MachineConfigPoolStatus{MachineCount: 6, UpdatedMachineCount: 2, Conditions: conditions},
	}
}

func isTrue(kind mcfgv1.MachineConfigPoolConditionType, message string) mcfgv1.MachineConfigPoolCondition {
	return mcfgv1.MachineConfigPoolCondition{Type: kind, Status: corev1.ConditionTrue, Message: message}
}

func TestBusy(t *testing.T) {
	operator := func(status configv1.ConditionStatus, message string) *configv1.ClusterOperator {
		return &configv1.ClusterOperator{
			ObjectMeta: metav1.ObjectMeta{Name: "machine-config"},
			Status: configv1.ClusterOperatorStatus{Conditions: []configv1.ClusterOperatorStatusCondition{
				{Type: configv1.OperatorDegraded, Status: configv1.ConditionFalse},
				{Type: configv1.OperatorAvailable, Status: status, Message: message},
			}},
		}
	}
	for _, tt := range []struct {
		name    string
		cluster Cluster
		want    []string
	}{
		{"nothing is known", Cluster{}, nil},
		{"all is well", Cluster{Operator: operator(configv1.ConditionTrue, "deployed"), Pools: []*mcfgv1.MachineConfigPool{poolThat("worker", false, isTrue(mcfgv1.MachineConfigPoolUpdated, ""))}}, nil},
		{"a pool without status", Cluster{Pools: []*mcfgv1.MachineConfigPool{{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}}}, nil},
		{"an update", Cluster{Pools: []*mcfgv1.MachineConfigPool{poolThat("worker", false, isTrue(mcfgv1.MachineConfigPoolUpdating, ""))}}, []string{"pool worker is being updated: 2 of 6 nodes are done"}},
		{"an update of a pool that was paused since", Cluster{Pools: []*mcfgv1.MachineConfigPool{poolThat("worker", true, isTrue(mcfgv1.MachineConfigPoolUpdating, ""))}}, nil},
		{
			"degraded, and without a reason",
			Cluster{Pools: []*mcfgv1.MachineConfigPool{
				poolThat("master", false, isTrue(mcfgv1.MachineConfigPoolDegraded, "Node m-1 is reporting: content mismatch")),
				poolThat("worker", true, isTrue(mcfgv1.MachineConfigPoolDegraded, "")),
			}},
			[]string{"pool master is degraded: Node m-1 is reporting: content mismatch", "pool worker is degraded: it does not say why"},
		},
		{"an operator that is not available", Cluster{Operator: operator(configv1.ConditionFalse, "no controller")}, []string{"ClusterOperator machine-config is not available: no controller"}},
		{"an operator of which nobody knows", Cluster{Operator: operator(configv1.ConditionUnknown, "")}, []string{"ClusterOperator machine-config may not be available: it does not say why"}},
	} {
		if got := tt.cluster.Busy(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestConditions(t *testing.T) {
	c := Cluster{Topology: configv1.SingleReplicaTopologyMode, OverrideDrain: true, Machines: &operatorv1.MachineConfiguration{}}
	if got := c.Conditions(); !got.SingleNode || !got.OverrideDrain || got.Machines != c.Machines {
		t.Errorf("got %+v", got)
	}
}

func TestPaused(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	set := func(manager, at, fields string) metav1.ManagedFieldsEntry {
		when, err := time.Parse(time.DateTime, at)
		if err != nil {
			t.Fatal(err)
		}
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &metav1.Time{Time: when}, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const paused = `{"f:spec":{"f:paused":{}}}`
	nobody := set("mco", "2026-11-20 00:00:00", `{"f:spec":{"f:configuration":{}}}`)
	status := set("x", "2026-11-20 00:00:00", paused)
	status.Subresource = "status"
	from, to := metav1.NewTime(now.AddDate(0, 0, -200)), metav1.NewTime(now.AddDate(0, 0, 165))
	certificates := []mcfgv1.ControllerCertificate{
		{Subject: "CN=other"},
		{Subject: "CN=openshift-kube-apiserver-operator_kube-apiserver-to-kubelet-signer@1", NotBefore: &from, NotAfter: &to},
	}
	const unknownDates = "its nodes get no new CA meanwhile: kube-apiserver-to-kubelet-signer is rotated 292 days after it was issued, and expires after 365"
	for _, tt := range []struct {
		name         string
		fields       []metav1.ManagedFieldsEntry
		waits        string
		certificates []mcfgv1.ControllerCertificate
		want         []string
	}{
		{"since when is not known", nil, "", nil, []string{"pool gpu is paused; since when is not recorded", unknownDates}},
		{"somebody else's fields, a status, garbage", []metav1.ManagedFieldsEntry{nobody, status, set("x", "2026-11-20 00:00:00", `"f:paused" {`), {}}, "", nil, []string{"pool gpu is paused; since when is not recorded", unknownDates}},
		{"today", []metav1.ManagedFieldsEntry{set("oc", "2026-11-22 08:00:00", paused)}, "", nil, []string{"pool gpu is paused since 2026-11-22, by oc", unknownDates}},
		{
			"the last of several, with what waits and dates",
			[]metav1.ManagedFieldsEntry{set("kubectl\x1b-edit", "2026-11-10 08:00:00", paused), set("oc", "2026-11-01 08:00:00", paused), nobody},
			"rendered-gpu-2", certificates,
			[]string{
				"pool gpu is paused since 2026-11-10 (12 days), by kubectl-edit", "rendered-gpu-2 waits for its nodes already",
				"its nodes get no new CA meanwhile: kube-apiserver-to-kubelet-signer is rotated about 2027-02-22, and the one that they have expires on 2027-05-06",
			},
		},
	} {
		pool := poolThat("gpu", true)
		pool.ManagedFields = tt.fields
		pool.Status.Configuration.Name, pool.Spec.Configuration.Name = "rendered-gpu-1", "rendered-gpu-1"
		if tt.waits != "" {
			pool.Spec.Configuration.Name = tt.waits
		}
		got := Cluster{Pools: []*mcfgv1.MachineConfigPool{pool}, Certificates: tt.certificates}.PausedLines("gpu", now)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
	if got := (Cluster{}).PausedLines("gone", now); got != nil {
		t.Errorf("a pool that is not there: %q", got)
	}
}
