package trust

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

func imageConfig(additionalTrustedCA string) *configv1.Image {
	return &configv1.Image{Spec: configv1.ImageSpec{AdditionalTrustedCA: configv1.ConfigMapNameReference{Name: additionalTrustedCA}}}
}

func proxyConfig(trustedCA string, status configv1.ProxyStatus) *configv1.Proxy {
	return &configv1.Proxy{Spec: configv1.ProxySpec{TrustedCA: configv1.ConfigMapNameReference{Name: trustedCA}}, Status: status}
}

func TestNew(t *testing.T) {
	system, user, proxy := newAuthority(t, "system"), newAuthority(t, "user"), newAuthority(t, "proxy")
	a, b := newAuthority(t, "a"), newAuthority(t, "b")
	everywhere := func(as ...authority) []authority { return append([]authority{system}, as...) }
	for _, tc := range []struct {
		reason   string
		settings Settings
		want     []authority            // everywhere
		hosts    map[string][]authority // besides, at hosts
		problems []string
	}{
		{reason: "a cluster without anything of its own", want: everywhere()},
		{
			reason: "user-ca-bundle counts everywhere, whoever names it",
			settings: Settings{
				ClusterProxy: proxyConfig("user-ca-bundle", configv1.ProxyStatus{}),
				ConfigMaps:   []*corev1.ConfigMap{configMap("openshift-config", "user-ca-bundle", map[string]string{"ca-bundle.crt": user.pem})},
			},
			want: everywhere(user),
		},
		{
			reason: "so does the proxy's trusted CA",
			settings: Settings{
				ClusterProxy: proxyConfig("proxy-ca", configv1.ProxyStatus{}),
				ConfigMaps: []*corev1.ConfigMap{
					configMap("openshift-config", "user-ca-bundle", map[string]string{"ca-bundle.crt": user.pem}),
					configMap("openshift-config", "proxy-ca", map[string]string{"ca-bundle.crt": proxy.pem}),
				},
			},
			want: everywhere(user, proxy),
		},
		{
			reason: "a host is its key, with .. for the colon, and has everything else as well",
			settings: Settings{
				Image: imageConfig("registry-cas"),
				ConfigMaps: []*corev1.ConfigMap{
					configMap("openshift-config", "registry-cas", map[string]string{
						"mirror.example.com..5000": a.pem, "quay.example.com": b.pem, "empty.example.com": "",
					}),
					configMap("openshift-config", "user-ca-bundle", map[string]string{"ca-bundle.crt": user.pem}),
				},
			},
			want: everywhere(user), hosts: map[string][]authority{"mirror.example.com:5000": {a}, "quay.example.com": {b}},
		},
		{
			reason: "nodes have one file for each host: the administrator's replaces the operator's",
			settings: Settings{
				Image: imageConfig("registry-cas"),
				ConfigMaps: []*corev1.ConfigMap{
					configMap("openshift-config", "registry-cas", map[string]string{"mirror.example.com": a.pem}),
					configMap("openshift-config-managed", "image-registry-ca", map[string]string{
						"mirror.example.com": b.pem, "image-registry.openshift-image-registry.svc..5000": b.pem,
					}),
				},
			},
			want: everywhere(),
			hosts: map[string][]authority{
				"mirror.example.com": {a}, "image-registry.openshift-image-registry.svc:5000": {b},
			},
		},
		{
			reason: "values may be in base64, or binary",
			settings: Settings{
				Image: imageConfig("registry-cas"),
				ConfigMaps: []*corev1.ConfigMap{{
					ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "registry-cas"},
					Data:       map[string]string{"a.example.com": base64.StdEncoding.EncodeToString([]byte(a.pem))},
					BinaryData: map[string][]byte{"b.example.com": []byte(b.pem)},
				}},
			},
			want: everywhere(), hosts: map[string][]authority{"a.example.com": {a}, "b.example.com": {b}},
		},
		{
			reason: "a bad certificate is named by where it is, and the good ones are used",
			settings: Settings{
				Image: imageConfig("registry-cas"),
				ConfigMaps: []*corev1.ConfigMap{
					configMap("openshift-config", "registry-cas", map[string]string{"mirror.example.com..5000": a.pem + b.pem[:99]}),
					configMap("openshift-config", "user-ca-bundle", map[string]string{"ca-bundle.crt": "canary"}),
				},
			},
			want: everywhere(), hosts: map[string][]authority{"mirror.example.com:5000": {a}},
			problems: []string{
				"ConfigMap openshift-config/user-ca-bundle, key ca-bundle.crt: no PEM certificate in it",
				"ConfigMap openshift-config/registry-cas, key mirror.example.com..5000: block 2 of 2 is not a complete PEM block on lines of its own",
			},
		},
		{
			reason: "ConfigMaps of that name elsewhere are others",
			settings: Settings{
				ConfigMaps: []*corev1.ConfigMap{
					configMap("team", "user-ca-bundle", map[string]string{"ca-bundle.crt": user.pem}),
					configMap("openshift-config", "image-registry-ca", map[string]string{"a.example.com": a.pem}),
				},
			},
			want: everywhere(),
		},
		{
			reason:   "what is named has to be there",
			settings: Settings{Image: imageConfig("registry-cas"), ClusterProxy: proxyConfig("proxy-ca", configv1.ProxyStatus{})},
			want:     everywhere(),
			problems: []string{
				"ConfigMap openshift-config/proxy-ca, named by spec.trustedCA of proxy.config, does not exist",
				"ConfigMap openshift-config/registry-cas, named by spec.additionalTrustedCA of image.config, does not exist",
			},
		},
		{
			reason: "unless nobody could look",
			settings: Settings{
				Image: imageConfig("registry-cas"), Unread: []string{"openshift-config/registry-cas"},
			},
			want: everywhere(),
		},
		{
			reason: "a bundle has its key",
			settings: Settings{
				ConfigMaps: []*corev1.ConfigMap{configMap("openshift-config", "user-ca-bundle", map[string]string{"ca.crt": user.pem})},
			},
			want: everywhere(), problems: []string{"ConfigMap openshift-config/user-ca-bundle has no key ca-bundle.crt"},
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			tc.settings.Roots = poolOf(system)
			got := New(tc.settings)
			if !got.RootCAs.Equal(poolOf(tc.want...)) {
				t.Error("other CAs are trusted everywhere")
			}
			if len(got.HostRootCAs) != len(tc.hosts) {
				t.Errorf("CAs for %d hosts, want %d", len(got.HostRootCAs), len(tc.hosts))
			}
			for host, want := range tc.hosts {
				if pool := got.HostRootCAs[host]; pool == nil || !pool.Equal(poolOf(slices.Concat(tc.want, want)...)) {
					t.Errorf("other CAs are trusted at %s", host)
				}
			}
			if diff := cmp.Diff(tc.problems, got.Problems()); diff != "" {
				t.Error(diff)
			}
			if !got.equal(New(tc.settings)) {
				t.Error("the same settings make another trust")
			}
		})
	}
}

func TestSystemRoots(t *testing.T) {
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	if got := New(Settings{}); !got.RootCAs.Equal(system) {
		t.Error("the system's CAs are not trusted")
	}
}

// TestProxy: a registry is reached by the proxy that CRI-O uses.
func TestProxy(t *testing.T) {
	const noProxy = ".cluster.local,.svc,10.0.0.0/16,mirror.example.com,.corp.example.com:5000"
	status := configv1.ProxyStatus{HTTPProxy: "http://plain.example.com:3128", HTTPSProxy: "http://user:canary@tls.example.com:3128", NoProxy: noProxy}
	for _, tc := range []struct {
		reason, url string
		want        string // the proxy, "" for none
	}{
		{"by TLS", "https://quay.io/v2/", "tls.example.com:3128"},
		{"in clear text", "http://quay.io/v2/", "plain.example.com:3128"},
		{"a host of noProxy", "https://mirror.example.com/v2/", ""},
		{"on any port", "https://mirror.example.com:5000/v2/", ""},
		{"and below it", "https://a.mirror.example.com/v2/", ""},
		{"beside it", "https://othermirror.example.com/v2/", "tls.example.com:3128"},
		{"the internal registry", "https://image-registry.openshift-image-registry.svc:5000/v2/", ""},
		{"a network", "https://10.0.3.4/v2/", ""},
		{"another network", "https://10.1.3.4/v2/", "tls.example.com:3128"},
		{"a port of noProxy", "https://a.corp.example.com:5000/v2/", ""},
		{"another port", "https://a.corp.example.com/v2/", "tls.example.com:3128"},
		{"loopback", "https://127.0.0.1:5000/v2/", ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got := askProxy(t, New(Settings{ClusterProxy: proxyConfig("", status)}), tc.url)
			if got != tc.want {
				t.Errorf("proxy %q, want %q", got, tc.want)
			}
		})
	}
	t.Run("the spec has not been through the operator yet", func(t *testing.T) {
		proxy := &configv1.Proxy{Spec: configv1.ProxySpec{HTTPSProxy: "http://new.example.com"}}
		if got := askProxy(t, New(Settings{ClusterProxy: proxy}), "https://quay.io/"); got != "" {
			t.Errorf("proxy %q, want none", got)
		}
	})
	t.Run("no proxy configuration at all", func(t *testing.T) {
		if New(Settings{}).Proxy != nil {
			t.Error("the cluster is said to have no proxy")
		}
	})
}

// askProxy returns the host of the proxy for rawURL.
func askProxy(t *testing.T, trust Trust, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := trust.Proxy(&http.Request{URL: u})
	if err != nil {
		t.Fatal(err)
	}
	if proxy == nil {
		return ""
	}
	return proxy.Host
}

func TestProxyProblems(t *testing.T) {
	for _, tc := range []struct{ value, want string }{
		{"", ""},
		{"http://proxy.example.com:3128", ""},
		{"http://user:canary@proxy.example.com:3128", ""},
		{"proxy.example.com:3128", ""},
		{"user:canary@proxy.example.com:3128", ""},
		{"socks5://proxy.example.com", ""},
		{"http://user:canary@proxy example.com", "status.httpsProxy of proxy.config is not a URL that nodes can use"},
		{"http://", "status.httpsProxy of proxy.config is not a URL that nodes can use"},
		{"ftp://user:canary@proxy.example.com", "status.httpsProxy of proxy.config has a scheme that nodes cannot use; it has to be http or https"},
	} {
		trust := New(Settings{ClusterProxy: proxyConfig("", configv1.ProxyStatus{HTTPSProxy: tc.value})})
		if got := strings.Join(trust.Problems(), "; "); got != tc.want {
			t.Errorf("%q: problems %q, want %q", tc.value, got, tc.want)
		}
		askProxy(t, trust, "https://quay.io/") // must not fail, let alone crash
	}
}

func TestTrustDoesNotPrint(t *testing.T) {
	trust := New(Settings{ClusterProxy: proxyConfig("", configv1.ProxyStatus{HTTPSProxy: "http://user:canary@proxy.example.com"})})
	if text := fmt.Sprintf("%v %+v %#v %s", trust, trust, trust, trust); strings.Contains(text, "canary") {
		t.Errorf("printed %q", text)
	}
}

// TestMatches holds the choice to that of the kubelet.
func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		reason, pattern, ref string
		want                 bool
	}{
		{"a host", "registry.io", "registry.io/a/b:1", true},
		{"another host", "registry.io", "registry.com/a", false},
		{"below a host", "registry.io", "a.registry.io/a", false},
		{"a wildcard is one label", "*.registry.io", "a.registry.io/a", true},
		{"not two", "*.registry.io", "a.b.registry.io/a", false},
		{"nor none", "*.registry.io", "registry.io/a", false},
		{"two wildcards", "*.*.registry.io", "a.b.registry.io/a", true},
		{"at the end", "registry.*", "registry.io/a", true},
		{"in the middle", "a.*.io", "a.registry.io/a", true},
		{"a port has to be the same", "registry.io:8080", "registry.io:8080/a", true},
		{"and there", "registry.io:8080", "registry.io/a", false},
		{"in both", "registry.io", "registry.io:8080/a", false},
		{"a path", "registry.io:8080/path", "registry.io:8080/path/a@" + "sha256:" + strings.Repeat("a", 64), true},
		{"another path", "registry.io/path", "registry.io/other/a", false},
		{"a path is a beginning of letters", "registry.io/path", "registry.io/pathology/a", true},
		{"a short name is the Docker Hub's", "docker.io/library", "nginx", true},
		{"what no node could parse", "registry.io", "registry.io/UPPER", false},
		{"no pattern", "", "registry.io/a", false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			trust := New(Settings{CredentialProviders: []*configv1.CRIOCredentialProviderConfig{{}, provider(tc.pattern), provider(tc.pattern)}})
			if got := trust.Matches(tc.ref); got != tc.want {
				t.Errorf("%q matches %q: %v, want %v", tc.pattern, tc.ref, got, tc.want)
			}
		})
	}
	if (Trust{}).Matches("registry.io/a") {
		t.Error("the zero value matches")
	}
}

func provider(patterns ...string) *configv1.CRIOCredentialProviderConfig {
	spec := &configv1.CRIOCredentialProviderConfigSpec{}
	for _, p := range patterns {
		if p != "" {
			spec.MatchImages = append(spec.MatchImages, configv1.MatchImage(p))
		}
	}
	return &configv1.CRIOCredentialProviderConfig{Spec: spec}
}
