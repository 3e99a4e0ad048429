package trust

import (
	"context"
	"crypto/x509"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// CAs reads the ConfigMap of that name in openshift-config from the API server, and returns
// what nodes would take from it if additionalTrustedCA of Image cluster named it: PEM
// bundles by the host, or host and port, of a registry. They are nil if there is no such
// ConfigMap.
func (f *Follower) CAs(ctx context.Context, name string) (map[string]string, error) {
	// The role permits listing, which is what a Follower does.
	maps, err := f.kube.CoreV1().ConfigMaps(configNamespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
	})
	if err != nil {
		return nil, err
	}
	for i := range maps.Items {
		if maps.Items[i].Name == name {
			return CAsIn(&maps.Items[i]), nil
		}
	}
	return nil, nil
}

// CAs is Follower.CAs for the ConfigMaps of s: nil if the one of that name is not among
// them.
func (s Settings) CAs(name string) map[string]string {
	if cm := s.configMap(configNamespace, name); cm != nil {
		return CAsIn(cm)
	}
	return nil
}

// CAsIn returns the PEM bundles in a ConfigMap for registries, by the host, or host and
// port, of each. It is never nil.
func CAsIn(cm *corev1.ConfigMap) map[string]string {
	cas := map[string]string{}
	for _, key := range keysOf(cm) {
		value, _ := valueOf(cm, key)
		cas[hostOf(key)] = string(value)
	}
	return cas
}

// HostRootCAs is Trust.HostRootCAs as it would be if additionalTrustedCA of Image cluster
// said cas.
func (f *Follower) HostRootCAs(cas map[string]string) map[string]*x509.CertPool {
	return f.Settings().HostRootCAs(cas)
}

// HostRootCAs is Trust.HostRootCAs of s as it would be if additionalTrustedCA of Image
// cluster said cas.
func (s Settings) HostRootCAs(cas map[string]string) map[string]*x509.CertPool {
	m := maker{settings: s, hosts: map[string][]*x509.Certificate{}}
	m.addHosts(managedNamespace, registryCAs, "")
	for host, bundle := range cas { // in the same order as in New
		m.hosts[host], _ = parseBundle([]byte(bundle))
	}
	return m.hostPools(New(s).RootCAs)
}
