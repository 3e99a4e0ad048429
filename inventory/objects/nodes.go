package objects

import (
	"encoding/json"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// mcoPrefix is that of the annotations by which the Machine Config Operator and
// its daemons talk to each other
// (openshift/machine-config-operator, pkg/daemon/constants/constants.go).
const mcoPrefix = "machineconfiguration.openshift.io/"

// TrimNode returns a node with only its labels, its age, what the Machine Config Operator says of it,
// whether it takes pods and has room for them, its images, its kind of machine, and who cordoned it.
func TrimNode(n *corev1.Node) *corev1.Node {
	t := &corev1.Node{ObjectMeta: names(n)}
	t.Labels, t.CreationTimestamp = n.Labels, n.CreationTimestamp
	for key, value := range n.Annotations {
		if strings.HasPrefix(key, mcoPrefix) {
			metav1.SetMetaDataAnnotation(&t.ObjectMeta, key, value)
		}
	}
	t.Spec.Unschedulable, t.Spec.Taints = n.Spec.Unschedulable, n.Spec.Taints
	t.Status.NodeInfo.Architecture = n.Status.NodeInfo.Architecture
	t.Status.NodeInfo.OperatingSystem = n.Status.NodeInfo.OperatingSystem
	t.Status.Allocatable = n.Status.Allocatable
	t.Status.Images = trimImages(n.Status.Images)
	for _, c := range n.Status.Conditions {
		switch c.Type { // those by which MCO calls a node unavailable
		case corev1.NodeReady, corev1.NodeDiskPressure, corev1.NodeNetworkUnavailable:
			t.Status.Conditions = append(t.Status.Conditions, trimCondition(c))
		}
	}
	t.ManagedFields = managed(n.ManagedFields, "f:unschedulable")
	return t
}

// trimCondition leaves its words to a condition that may keep a node from its update, and
// since when that is so.
func trimCondition(c corev1.NodeCondition) corev1.NodeCondition {
	t := corev1.NodeCondition{Type: c.Type, Status: c.Status, Reason: c.Reason}
	if (c.Type == corev1.NodeReady) != (c.Status == corev1.ConditionTrue) {
		t.Message, t.LastTransitionTime = c.Message, c.LastTransitionTime
	}
	return t
}

// managed returns who set a field of the spec, and when: of the managed fields of an object
// those entries that have it, without other fields.
func managed(fields []metav1.ManagedFieldsEntry, field string) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for _, m := range fields {
		if m.FieldsV1 == nil || m.Subresource != "" {
			continue
		}
		var of struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if err := json.Unmarshal(m.FieldsV1.GetRawBytes(), &of); err != nil || of.Spec[field] == nil {
			continue
		}
		kept = append(kept, metav1.ManagedFieldsEntry{
			Manager: m.Manager, Operation: m.Operation, APIVersion: m.APIVersion, Time: m.Time, FieldsType: m.FieldsType,
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"` + field + `":{}}}`),
		})
	}
	return kept
}

// TrimPool returns a MachineConfigPool with only its labels, the nodes and configurations that it
// selects, how it rolls out, the MachineConfigs that it was last rendered from, how far it has come,
// since when it is paused, and whether it is being deleted and what keeps it.
func TrimPool(p *mcfgv1.MachineConfigPool) *mcfgv1.MachineConfigPool {
	t := &mcfgv1.MachineConfigPool{ObjectMeta: names(p), Spec: p.Spec, Status: p.Status}
	t.Labels, t.DeletionTimestamp = p.Labels, p.DeletionTimestamp
	if p.DeletionTimestamp != nil {
		t.Finalizers = p.Finalizers
	}
	t.Spec.Configuration.Source = convert.Each(p.Spec.Configuration.Source, func(r corev1.ObjectReference) corev1.ObjectReference { return corev1.ObjectReference{Name: r.Name} })
	t.Status.Configuration.Source = nil
	if since, by, ok := rollout.PausedSince(p); ok && p.Spec.Paused {
		t.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: by, Time: new(metav1.NewTime(since)), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:paused":{}}}`)}}
	}
	return t
}

// TrimControllerConfig returns a ControllerConfig with only the certificates by which nodes know the
// API server.
func TrimControllerConfig(c *mcfgv1.ControllerConfig) *mcfgv1.ControllerConfig {
	t := &mcfgv1.ControllerConfig{ObjectMeta: names(c)}
	for _, certificate := range c.Status.ControllerCertificates {
		if strings.Contains(certificate.Subject, rollout.KubeletSigner) {
			t.Status.ControllerCertificates = append(t.Status.ControllerCertificates, certificate)
		}
	}
	return t
}

// TrimDisruptionBudget returns a PodDisruptionBudget with only the pods that it selects, its owner, how
// much room it leaves, and whether that is up to date or why it cannot be: the eviction API refuses while
// the status is about an older generation.
func TrimDisruptionBudget(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	t := &policyv1.PodDisruptionBudget{ObjectMeta: names(b), Spec: b.Spec, Status: b.Status}
	t.Generation, t.OwnerReferences = b.Generation, b.OwnerReferences
	t.Status.DisruptedPods, t.Status.Conditions = nil, nil
	for _, c := range b.Status.Conditions {
		if c.Reason == policyv1.SyncFailedReason {
			t.Status.Conditions = []metav1.Condition{{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: text.OneLine(c.Message, maxReason)}}
		}
	}
	return t
}

// maxReason is how much is kept of why a budget cannot be worked out, in characters.
const maxReason = 400

func names(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}
}
