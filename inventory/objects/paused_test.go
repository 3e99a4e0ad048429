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

func TestRenderedOf(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	of := func(name string, owners ...metav1.OwnerReference) *rollout.RenderedConfig {
		return RenderedOf(&metav1.ObjectMeta{Name: name, CreationTimestamp: created, OwnerReferences: owners})
	}
	pool := metav1.OwnerReference{Kind: "MachineConfigPool", Name: "gpu"}
	if got := of("rendered-gpu-1", metav1.OwnerReference{Kind: "Other"}, pool); got == nil || *got != (rollout.RenderedConfig{Name: "rendered-gpu-1", Pool: "gpu", Created: created.UTC()}) {
		t.Errorf("got %+v", got)
	}
	for name, got := range map[string]*rollout.RenderedConfig{"another name": of("99-gpu", pool), "no owner": of("rendered-gpu-1"), "another owner": of("rendered-gpu-1", metav1.OwnerReference{Kind: "KubeletConfig", Name: "x"})} {
		if got != nil {
			t.Errorf("%s: got %+v", name, got)
		}
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
