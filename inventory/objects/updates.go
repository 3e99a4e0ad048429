package objects

import (
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The ConfigMaps that an update depends on, and their namespace.
const (
	ManagedNamespace = "openshift-config-managed"
	// SignatureLabel is that of ConfigMaps with signatures of release images (library-go, pkg/verify/store/configmap).
	SignatureLabel = "release.openshift.io/verification-signatures"
	// VerificationName is the ConfigMap with the keys that CVO verifies them by, as the release in force
	// brings it (cluster-update-keys).
	VerificationName = "release-verification"
)

// An UpdateConfig holds the ConfigMaps that an update depends on, and the FeatureGate. They must not be changed.
type UpdateConfig struct {
	// Signatures are the ConfigMaps with signatures of release images.
	Signatures []*corev1.ConfigMap
	// SignaturesUnread says why there may be more of them; "" if these are all.
	SignaturesUnread string
	// Verification is nil if there is none.
	Verification *corev1.ConfigMap
	// FeatureGate has the feature set of the cluster, by which CVO chooses manifests. It is nil if that is not known, and empty if the
	// cluster has none.
	FeatureGate *configv1.FeatureGate
	// Unread says why some of them could not be read, or may be missing; "" if all are known.
	Unread string
}

// TrimFeatureGate returns a FeatureGate with only its feature set.
func TrimFeatureGate(g *configv1.FeatureGate) *configv1.FeatureGate {
	t := &configv1.FeatureGate{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
	t.Spec.FeatureSet = g.Spec.FeatureSet
	return t
}

// IsOfUpdates reports whether a ConfigMap is part of an UpdateConfig.
func IsOfUpdates(cm *corev1.ConfigMap) bool {
	return cm.Namespace == ManagedNamespace && (isSignature(cm) || cm.Name == VerificationName)
}

func isSignature(cm *corev1.ConfigMap) bool {
	_, labelled := cm.Labels[SignatureLabel]
	return labelled
}

// Add adds a ConfigMap for which IsOfUpdates holds.
func (u *UpdateConfig) Add(cm *corev1.ConfigMap) {
	if cm.Name == VerificationName {
		u.Verification = cm
	} else {
		u.Signatures = append(u.Signatures, cm)
	}
}

// TrimUpdateConfig returns a ConfigMap for which IsOfUpdates holds with only its data and its label.
func TrimUpdateConfig(cm *corev1.ConfigMap) *corev1.ConfigMap {
	t := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}, Data: cm.Data}
	if isSignature(cm) {
		t.Labels = map[string]string{SignatureLabel: cm.Labels[SignatureLabel]}
		t.Data = nil
		t.BinaryData = map[string][]byte{}
		for key, value := range cm.BinaryData {
			if strings.HasPrefix(key, "sha256-") {
				t.BinaryData[key] = value
			}
		}
	}
	return t
}
