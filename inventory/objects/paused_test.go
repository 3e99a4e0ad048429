package objects

import (
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// TestTrimPoolKeepsPause: of the managed fields, which are the largest part of an object,
// only that remains which says since when a pool is paused.
func TestTrimPoolKeepsPause(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	p := &mcfgv1.MachineConfigPool{Spec: mcfgv1.MachineConfigPoolSpec{Paused: true}}
	p.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "oc", Time: &since, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:paused":{},"f:maxUnavailable":{}}}`)},
		{Manager: "mco", Time: &since, FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`), Subresource: "status"},
	}
	trimmed := TrimPool(p)
	if got, by, ok := rollout.PausedSince(trimmed); !ok || by != "oc" || !got.Equal(since.Time) || len(trimmed.ManagedFields) != 1 {
		t.Errorf("got %v, %v, %v of %d entries", got, by, ok, len(trimmed.ManagedFields))
	}
	p.Spec.Paused = false
	if trimmed := TrimPool(p); trimmed.ManagedFields != nil {
		t.Error("it is not paused, and yet since when is kept")
	}
}

// TestTrimPoolKeepsFinalizers: they matter while a pool is being deleted.
func TestTrimPoolKeepsFinalizers(t *testing.T) {
	p := &mcfgv1.MachineConfigPool{}
	p.Finalizers = []string{"example.com/keep"}
	if got := TrimPool(p).Finalizers; got != nil {
		t.Errorf("not deleted: got %q", got)
	}
	p.DeletionTimestamp = new(metav1.Now())
	if got := TrimPool(p).Finalizers; len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func TestTrimControllerConfig(t *testing.T) {
	c := &mcfgv1.ControllerConfig{}
	c.Spec.AdditionalTrustBundle = []byte("large")
	c.Status.ControllerCertificates = []mcfgv1.ControllerCertificate{{Subject: "CN=other"}, {Subject: "CN=openshift-kube-apiserver-operator_kube-apiserver-to-kubelet-signer@1"}}
	got := TrimControllerConfig(c)
	if len(got.Status.ControllerCertificates) != 1 || got.Spec.AdditionalTrustBundle != nil {
		t.Errorf("got %+v", got)
	}
}
