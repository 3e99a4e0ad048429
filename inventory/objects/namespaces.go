package objects

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrimNamespace returns the part of a namespace that is kept: its labels, and whether it is being deleted
// and has a controller that would recreate it.
func TrimNamespace(n *corev1.Namespace) *corev1.Namespace {
	t := &corev1.Namespace{ObjectMeta: names(n)}
	t.Labels, t.DeletionTimestamp = n.Labels, n.DeletionTimestamp
	if owner := metav1.GetControllerOfNoCopy(n); owner != nil && n.DeletionTimestamp != nil {
		t.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return t
}

// EndingNamespaces returns those in which nothing new may be created, and that nothing is known to
// recreate.
func EndingNamespaces(all []*corev1.Namespace) map[string]bool {
	ending := map[string]bool{}
	for _, n := range all {
		if n.DeletionTimestamp != nil && len(n.OwnerReferences) == 0 {
			ending[n.Name] = true
		}
	}
	return ending
}

// TrimQuota returns a ResourceQuota with only its limits and how much of them is used.
func TrimQuota(q *corev1.ResourceQuota) *corev1.ResourceQuota {
	t := &corev1.ResourceQuota{ObjectMeta: names(q)}
	t.Spec.Hard, t.Status.Used = q.Spec.Hard, q.Status.Used
	return t
}

// TrimVolume returns a PersistentVolume with only its phase, the claim that it is bound to, the
// nodes that can reach it, and its access modes if it is attached to nodes: only these are held to them.
func TrimVolume(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	t := &corev1.PersistentVolume{ObjectMeta: names(v)}
	if t.Spec.NodeAffinity = v.Spec.NodeAffinity; t.Spec.NodeAffinity == nil || t.Spec.NodeAffinity.Required == nil {
		t.Spec.NodeAffinity = zoneOf(v)
	}
	if v.Spec.NFS == nil && v.Spec.HostPath == nil && v.Spec.Local == nil {
		t.Spec.AccessModes = v.Spec.AccessModes
	}
	t.Status.Phase = v.Status.Phase
	if claim := v.Spec.ClaimRef; claim != nil {
		t.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name}
	}
	return t
}

// zoneOf returns the nodes that can reach a volume by its labels, as the scheduler has it (VolumeZone.Filter in
// pkg/scheduler/framework/plugins/volumezone): those of its zone and region, and those that have no such labels.
func zoneOf(v *corev1.PersistentVolume) *corev1.VolumeNodeAffinity {
	var there, nowhere []corev1.NodeSelectorRequirement
	for _, keys := range [][2]string{{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone}, {corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion}} {
		if value := cmp.Or(v.Labels[keys[0]], v.Labels[keys[1]]); value != "" {
			there = append(there, corev1.NodeSelectorRequirement{Key: keys[0], Operator: corev1.NodeSelectorOpIn, Values: strings.Split(value, "__")})
		}
		for _, key := range keys {
			nowhere = append(nowhere, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist})
		}
	}
	if there == nil {
		return nil
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: there}, {MatchExpressions: nowhere}}}}
}
