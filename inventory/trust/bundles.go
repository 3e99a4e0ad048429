package trust

import (
	"encoding/pem"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BundlesNamespace is the prefix of the names of the namespaces that hold the ConfigMaps
// from which New takes CAs.
const BundlesNamespace = configNamespace

// BundleNames returns the ConfigMaps from which New takes CAs where they exist, each once.
func BundleNames(s Settings) []types.NamespacedName {
	return slices.Compact(append([]types.NamespacedName{
		{Namespace: managedNamespace, Name: registryCAs},
		{Namespace: configNamespace, Name: userCABundle},
	}, NamedBundles(s)...))
}

// NamedBundles returns those ConfigMaps that Image and ClusterProxy name, so that they
// should exist.
func NamedBundles(s Settings) []types.NamespacedName {
	var names []types.NamespacedName
	for _, name := range []string{proxyCAName(s.ClusterProxy), registryCAName(s.Image)} {
		full := types.NamespacedName{Namespace: configNamespace, Name: name}
		if name != "" && !slices.Contains(names, full) {
			names = append(names, full)
		}
	}
	return names
}

// MayBeBundle reports whether New may take CAs from a ConfigMap, whatever the Settings.
func MayBeBundle(cm *corev1.ConfigMap) bool {
	return cm.Namespace == configNamespace || cm.Namespace == managedNamespace && cm.Name == registryCAs
}

// TrimBundle returns what nodes use of a ConfigMap of CAs: its certificates. Anything else
// in it, such as a private key, is left out.
func TrimBundle(cm *corev1.ConfigMap) *corev1.ConfigMap {
	t := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}, Data: map[string]string{}}
	for _, key := range keysOf(cm) {
		value, _ := valueOf(cm, key)
		certificates, _ := parseBundle(value)
		var bundle []byte
		for _, c := range certificates {
			bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
		t.Data[key] = string(bundle)
	}
	return t
}
