package trust

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	"golang.org/x/net/http/httpproxy"
	corev1 "k8s.io/api/core/v1"
)

// Namespaces and names of the ConfigMaps that are known by name.
const (
	configNamespace  = "openshift-config"
	managedNamespace = "openshift-config-managed"
	registryCAs      = "image-registry-ca"
	userCABundle     = "user-ca-bundle"
	bundleKey        = "ca-bundle.crt"
)

// Settings are the objects that a Trust is made from. They are not changed.
type Settings struct {
	// Roots are trusted everywhere, whatever the cluster says; nil means the system's.
	// They stand for what the operating system of the nodes trusts by itself.
	Roots *x509.CertPool
	// Image is image.config.openshift.io/cluster, nil if there is none.
	Image *configv1.Image
	// ClusterProxy is proxy.config.openshift.io/cluster, nil if there is none.
	ClusterProxy *configv1.Proxy
	// CredentialProviders are the CRIOCredentialProviderConfigs, of whatever version.
	CredentialProviders []*configv1.CRIOCredentialProviderConfig
	// ConfigMaps include those that the objects above name, and those that always count.
	// Others do no harm.
	ConfigMaps []*corev1.ConfigMap
	// Unread are ConfigMaps that may exist but could not be read ("namespace/name").
	Unread []string
}

// configMap returns the ConfigMap of that name, nil if it is not among those of s.
func (s Settings) configMap(namespace, name string) *corev1.ConfigMap {
	i := slices.IndexFunc(s.ConfigMaps, func(cm *corev1.ConfigMap) bool { return cm.Namespace == namespace && cm.Name == name })
	if i < 0 {
		return nil
	}
	return s.ConfigMaps[i]
}

// A Trust holds the CAs that nodes trust and the proxies that they use. The zero value
// trusts the system's CAs and says nothing about proxies. It is immutable.
type Trust struct {
	// RootCAs are trusted everywhere: Settings.Roots, ConfigMap user-ca-bundle and the
	// trusted CA of the proxy. Nil only in the zero value.
	RootCAs *x509.CertPool
	// HostRootCAs are trusted at one registry, "host" or "host:port" as references name
	// it. They hold RootCAs as well, as nodes do.
	HostRootCAs map[string]*x509.CertPool
	// Proxy returns the proxy for a request, nil for none. It is nil itself where the
	// cluster has no proxy configuration at all: it is not OpenShift then, and what its
	// nodes do is not known.
	Proxy func(*http.Request) (*url.URL, error)

	proxies  httpproxy.Config // what Proxy goes by; it may hold passwords
	patterns []pattern
	problems []string
}

// New returns the Trust that follows from s.
func New(s Settings) Trust {
	m := maker{settings: s, hosts: map[string][]*x509.Certificate{}}
	m.addEverywhere(configNamespace, userCABundle, "")
	if name := proxyCAName(s.ClusterProxy); name != userCABundle {
		m.addEverywhere(configNamespace, name, "named by spec.trustedCA of proxy.config")
	}
	// In this order: for the same host, the second replaces the first.
	m.addHosts(managedNamespace, registryCAs, "")
	m.addHosts(configNamespace, registryCAName(s.Image), "named by spec.additionalTrustedCA of image.config")
	t := Trust{RootCAs: m.pool()}
	t.HostRootCAs = m.hostPools(t.RootCAs)
	t.patterns = patternsOf(s.CredentialProviders)
	if s.ClusterProxy != nil {
		t.proxies = proxiesOf(s.ClusterProxy)
		t.Proxy = proxyFunc(t.proxies)
		m.problems = append(m.problems, proxyProblems(t.proxies)...)
	}
	t.problems = m.problems
	return t
}

func registryCAName(image *configv1.Image) string {
	if image == nil {
		return ""
	}
	return image.Spec.AdditionalTrustedCA.Name
}

func proxyCAName(proxy *configv1.Proxy) string {
	if proxy == nil {
		return ""
	}
	return proxy.Spec.TrustedCA.Name
}

// Problems lists what cannot be used, each in one short line: its place and its fault. It never quotes
// contents.
func (t Trust) Problems() []string { return slices.Clone(t.problems) }

// String keeps the passwords of proxies out of logs and failed tests.
func (t Trust) String() string {
	return fmt.Sprintf("trust with CAs for %d hosts and %d problems", len(t.HostRootCAs), len(t.problems))
}

// GoString implements fmt.GoStringer.
func (t Trust) GoString() string { return t.String() }

// equal reports whether both are the same.
func (t Trust) equal(other Trust) bool {
	return t.RootCAs.Equal(other.RootCAs) &&
		maps.EqualFunc(t.HostRootCAs, other.HostRootCAs, (*x509.CertPool).Equal) &&
		(t.Proxy == nil) == (other.Proxy == nil) && t.proxies == other.proxies &&
		slices.Equal(t.patterns, other.patterns) &&
		slices.Equal(t.problems, other.problems)
}

// A maker collects certificates for a Trust.
type maker struct {
	settings   Settings
	everywhere []*x509.Certificate
	hosts      map[string][]*x509.Certificate
	problems   []string
}

// addEverywhere adds the bundle in a ConfigMap, none if name is "".
func (m *maker) addEverywhere(namespace, name, origin string) {
	cm := m.configMap(namespace, name, origin)
	if cm == nil {
		return
	}
	value, ok := valueOf(cm, bundleKey)
	if !ok {
		m.problems = append(m.problems, fmt.Sprintf("%s has no key %s", nameOf(cm), bundleKey))
		return
	}
	m.everywhere = append(m.everywhere, m.parse(cm, bundleKey, value)...)
}

// addHosts adds the bundles in a ConfigMap, each for the host that its key names. It
// replaces a bundle that the host had: nodes have one file for each host.
func (m *maker) addHosts(namespace, name, origin string) {
	cm := m.configMap(namespace, name, origin)
	if cm == nil {
		return
	}
	for _, key := range keysOf(cm) {
		value, _ := valueOf(cm, key)
		m.hosts[hostOf(key)] = m.parse(cm, key, value)
	}
}

// configMap returns a ConfigMap, nil if there is none or none is named. One that an object
// names has to exist.
func (m *maker) configMap(namespace, name, origin string) *corev1.ConfigMap {
	if name == "" {
		return nil
	}
	cm := m.settings.configMap(namespace, name)
	if cm == nil && origin != "" && !slices.Contains(m.settings.Unread, namespace+"/"+name) {
		m.problems = append(m.problems, fmt.Sprintf("ConfigMap %s/%s, %s, does not exist", namespace, name, origin))
	}
	return cm
}

func (m *maker) parse(cm *corev1.ConfigMap, key string, value []byte) []*x509.Certificate {
	certificates, problems := parseBundle(value)
	for _, p := range problems {
		m.problems = append(m.problems, fmt.Sprintf("%s, key %s: %s", nameOf(cm), key, p))
	}
	return certificates
}

func nameOf(cm *corev1.ConfigMap) string {
	return fmt.Sprintf("ConfigMap %s/%s", cm.Namespace, cm.Name)
}

func (m *maker) pool() *x509.CertPool {
	system := m.settings.Roots
	if system == nil {
		// An error means a machine without system CAs, as in some container images.
		system, _ = x509.SystemCertPool()
	}
	return with(cmp.Or(system, x509.NewCertPool()), m.everywhere)
}

// hostPools returns the pools of CAs for single hosts.
func (m *maker) hostPools(everywhere *x509.CertPool) map[string]*x509.CertPool {
	pools := make(map[string]*x509.CertPool, len(m.hosts))
	for host, certificates := range m.hosts {
		if len(certificates) > 0 {
			pools[host] = with(everywhere, certificates)
		}
	}
	return pools
}

// with returns a copy of pool with certificates added.
func with(pool *x509.CertPool, certificates []*x509.Certificate) *x509.CertPool {
	pool = pool.Clone()
	for _, c := range certificates {
		pool.AddCert(c)
	}
	return pool
}
