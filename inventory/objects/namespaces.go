package objects

import (
	corev1 "k8s.io/api/core/v1"
)

// TrimNamespace returns what is kept of a namespace: its labels.
func TrimNamespace(n *corev1.Namespace) *corev1.Namespace {
	t := &corev1.Namespace{ObjectMeta: names(n)}
	t.Labels = n.Labels
	return t
}

// TrimVolume returns what is kept of a PersistentVolume: the claim that it is bound to, and
// from which nodes it can be reached.
func TrimVolume(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	t := &corev1.PersistentVolume{ObjectMeta: names(v)}
	t.Spec.NodeAffinity = v.Spec.NodeAffinity
	t.Status.Phase = v.Status.Phase
	if claim := v.Spec.ClaimRef; claim != nil {
		t.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name}
	}
	return t
}
