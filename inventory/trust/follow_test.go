//go:build integration

package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// maxWait is how long a test waits for what must happen soon.
const maxWait = 90 * time.Second

// A world is a real API server with what a Follower reads.
type world struct {
	t    *testing.T
	cfg  *rest.Config
	kube kubernetes.Interface
	dyn  dynamic.Interface

	cluster *cluster.Cluster
}

// newWorld starts an API server that serves OpenShift's configuration.
func newWorld(t *testing.T) *world {
	t.Helper()
	c := cluster.New(t)
	w := &world{t: t, cluster: c, cfg: c.Config}
	var err error
	if w.kube, err = kubernetes.NewForConfig(c.Config); err != nil {
		t.Fatal(err)
	}
	if w.dyn, err = dynamic.NewForConfig(c.Config); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"openshift-config", "openshift-config-managed"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := w.kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// rules are all that a Follower may do in the tests: they are what the manifests have
// to grant.
var (
	clusterRules = []rbacv1.PolicyRule{{
		APIGroups: []string{"config.openshift.io"},
		Resources: []string{"images", "proxies", "criocredentialproviderconfigs"},
		Verbs:     []string{"list", "watch"},
		// Lists and watches that select this name are granted by it.
		ResourceNames: []string{"cluster"},
	}}
	configRules = []rbacv1.PolicyRule{{ // in openshift-config; administrators choose the names
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"},
	}}
	managedRules = []rbacv1.PolicyRule{{ // in openshift-config-managed
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"},
		ResourceNames: []string{"image-registry-ca"},
	}}
)

const guardUser = "guard"

// asGuard returns the way to the API server for a user with no more than the rules.
func (w *world) asGuard() *rest.Config {
	w.t.Helper()
	w.grant("", clusterRules)
	w.grant("openshift-config", configRules)
	w.grant("openshift-config-managed", managedRules)
	cfg := rest.CopyConfig(w.cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: guardUser}
	return cfg
}

func (w *world) grant(namespace string, rules []rbacv1.PolicyRule) {
	w.t.Helper()
	m := metav1.ObjectMeta{Namespace: namespace, Name: "guard"}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: guardUser}}
	rbac := w.kube.RbacV1()
	var errs []error
	note := func(_ any, err error) { errs = append(errs, err) }
	if namespace == "" {
		note(rbac.ClusterRoles().Create(w.t.Context(), &rbacv1.ClusterRole{ObjectMeta: m, Rules: rules}, metav1.CreateOptions{}))
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: m.Name}
		note(rbac.ClusterRoleBindings().Create(w.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: m, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{}))
	} else {
		note(rbac.Roles(namespace).Create(w.t.Context(), &rbacv1.Role{ObjectMeta: m, Rules: rules}, metav1.CreateOptions{}))
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: m.Name}
		note(rbac.RoleBindings(namespace).Create(w.t.Context(), &rbacv1.RoleBinding{ObjectMeta: m, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{}))
	}
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
	if err := cluster.AwaitRights(w.t.Context(), w.cfg, guardUser, namespace, rules); err != nil {
		w.t.Fatal(err)
	}
}

// takeAway is the inverse of grant for configRules.
func (w *world) takeAway(namespace string) {
	w.t.Helper()
	rbac := w.kube.RbacV1()
	err := errors.Join(rbac.RoleBindings(namespace).Delete(w.t.Context(), "guard", metav1.DeleteOptions{}),
		rbac.Roles(namespace).Delete(w.t.Context(), "guard", metav1.DeleteOptions{}),
		cluster.AwaitRefusal(w.t.Context(), w.cfg, guardUser, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Resource: "configmaps", Name: registryCAs}))
	if err != nil {
		w.t.Fatal(err)
	}
}

// putConfigMap creates or replaces a ConfigMap.
func (w *world) putConfigMap(namespace, name string, data map[string]string) {
	w.t.Helper()
	cm := configMap(namespace, name, data)
	_, err := w.kube.CoreV1().ConfigMaps(namespace).Update(w.t.Context(), cm, metav1.UpdateOptions{})
	if err != nil {
		_, err = w.kube.CoreV1().ConfigMaps(namespace).Create(w.t.Context(), cm, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// put creates or replaces the object "cluster" of config.openshift.io, its status too.
func (w *world) put(plural, kind string, object runtime.Object) {
	w.t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		w.t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion("config.openshift.io/v1")
	u.SetKind(kind)
	u.SetName("cluster")
	client := w.dyn.Resource(schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: plural})
	current, err := client.Get(w.t.Context(), "cluster", metav1.GetOptions{})
	if err == nil {
		u.SetResourceVersion(current.GetResourceVersion())
		current, err = client.Update(w.t.Context(), u, metav1.UpdateOptions{})
	} else {
		current, err = client.Create(w.t.Context(), u, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	u.SetResourceVersion(current.GetResourceVersion())
	if _, err := client.UpdateStatus(w.t.Context(), u, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// installProviders makes the API server serve CRIOCredentialProviderConfig.
func (w *world) installProviders() {
	w.t.Helper()
	w.cluster.InstallCRD(w.t, "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_criocredentialproviderconfigs-SelfManagedHA.crd.yaml")
}

// follow starts a Follower and returns what it tells.
func (w *world) follow(cfg *rest.Config, o Options) (*Follower, <-chan Trust) {
	w.t.Helper()
	told := make(chan Trust, 100)
	o.OnChange = func(t Trust) { told <- t }
	f, err := Follow(cfg, o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	return f, told
}

// eventually waits until ok is true. The Follower has no event for its notes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(maxWait); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not after %s: %s", maxWait, what)
		}
	}
}

// next waits for a Trust that is ok.
func next(t *testing.T, what string, told <-chan Trust, ok func(Trust) bool) Trust {
	t.Helper()
	deadline := time.After(maxWait)
	for {
		select {
		case trust := <-told:
			if ok(trust) {
				return trust
			}
		case <-deadline:
			t.Fatalf("still not after %s: %s", maxWait, what)
		}
	}
}

// TestFollow goes through the life of a cluster, with no more rights than the rules.
func TestFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	system, user, proxy := newAuthority(t, "system"), newAuthority(t, "user"), newAuthority(t, "proxy")
	a, b := newAuthority(t, "a"), newAuthority(t, "b")
	f, told := w.follow(w.asGuard(), Options{Roots: poolOf(system)})

	everywhere := func(as ...authority) func(Trust) bool {
		return func(t Trust) bool { return t.RootCAs.Equal(poolOf(append(as, system)...)) }
	}
	at := func(host string, as ...authority) func(Trust) bool {
		return func(t Trust) bool {
			pool := t.HostRootCAs[host]
			return len(as) == 0 && pool == nil || pool != nil && pool.Equal(poolOf(append(as, system)...))
		}
	}
	first := next(t, "a cluster without anything of its own", told, everywhere())
	if len(first.HostRootCAs) != 0 || first.Proxy != nil || len(first.Problems()) != 0 {
		t.Errorf("%v, problems %q", first, first.Problems())
	}
	if err := f.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}

	w.put("images", "Image", imageConfig("registry-cas"))
	missing := next(t, "a name without a ConfigMap", told, func(t Trust) bool { return len(t.Problems()) > 0 })
	want := []string{"ConfigMap openshift-config/registry-cas, named by spec.additionalTrustedCA of image.config, does not exist"}
	if diff := cmp.Diff(want, missing.Problems()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, f.Notes()); diff != "" {
		t.Error(diff)
	}

	w.putConfigMap("openshift-config", "registry-cas", map[string]string{"mirror.example.com..5000": a.pem})
	next(t, "the CA of a mirror", told, at("mirror.example.com:5000", a))
	w.putConfigMap("openshift-config", "registry-cas", map[string]string{"mirror.example.com..5000": b.pem})
	next(t, "a rotated CA", told, at("mirror.example.com:5000", b))
	w.putConfigMap("openshift-config-managed", "image-registry-ca", map[string]string{"internal.svc..5000": a.pem})
	next(t, "the CA of the internal registry", told, at("internal.svc:5000", a))
	w.putConfigMap("openshift-config", "other-cas", map[string]string{"mirror.example.com..5000": a.pem})
	w.put("images", "Image", imageConfig("other-cas"))
	next(t, "another name", told, at("mirror.example.com:5000", a))
	w.putConfigMap("openshift-config", "registry-cas", map[string]string{"late.example.com": b.pem})

	w.putConfigMap("openshift-config", "user-ca-bundle", map[string]string{"ca-bundle.crt": user.pem})
	after := next(t, "a CA that counts everywhere", told, everywhere(user))
	if !at("mirror.example.com:5000", a, user)(after) || !at("late.example.com")(after) {
		t.Error("what counts at hosts is not what is named now and what counts everywhere")
	}
	w.putConfigMap("openshift-config", "proxy-ca", map[string]string{"ca-bundle.crt": proxy.pem})
	w.put("proxies", "Proxy", proxyConfig("proxy-ca", configv1.ProxyStatus{
		HTTPSProxy: "http://user:canary@proxy.example.com:3128", NoProxy: "mirror.example.com",
	}))
	by := next(t, "a proxy and its CA", told, func(t Trust) bool { return everywhere(user, proxy)(t) && t.Proxy != nil && t.proxies.HTTPSProxy != "" })
	if got := askProxy(t, by, "https://quay.io/v2/"); got != "proxy.example.com:3128" {
		t.Errorf("proxy %q", got)
	}
	if got := askProxy(t, by, "https://mirror.example.com/v2/"); got != "" {
		t.Errorf("proxy %q", got)
	}

	w.installProviders() // as an upgrade would
	w.put("criocredentialproviderconfigs", "CRIOCredentialProviderConfig", provider("*.example.com"))
	next(t, "other credentials for pods", told, func(t Trust) bool {
		return t.Matches("mirror.example.com/app:1") && !t.Matches("example.com/app:1")
	})

	if err := w.kube.CoreV1().ConfigMaps("openshift-config").Delete(t.Context(), "user-ca-bundle", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next(t, "a CA that is no longer trusted", told, everywhere(proxy))
	if notes := f.Notes(); len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
}

// TestFollowWithoutRights: what may not be read is said, and stops nothing. What could be read before is forgotten.
func TestFollowWithoutRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("images", "Image", imageConfig("registry-cas"))
	w.putConfigMap(configNamespace, "registry-cas", map[string]string{"mirror.example.com": newAuthority(t, "registry").pem})
	wire, err := cluster.NewWire(w.asGuard())
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	f, told := w.follow(wire.Config, Options{ForbiddenAfter: time.Second})
	next(t, "the CA of the registry", told, func(trust Trust) bool { return len(trust.HostRootCAs) == 1 })
	w.takeAway(configNamespace)
	w.takeAway(managedNamespace)
	wire.Cut() // ends the watches, which were granted
	wire.Mend()
	next(t, "a trust without it", told, func(trust Trust) bool { return len(trust.HostRootCAs) == 0 })
	want := []string{
		"no permission to read ConfigMap openshift-config-managed/image-registry-ca: nodes may trust other CAs or use other proxies",
		"no permission to read ConfigMap openshift-config/user-ca-bundle: nodes may trust other CAs or use other proxies",
		"no permission to read ConfigMap openshift-config/registry-cas: nodes may trust other CAs or use other proxies",
	}
	eventually(t, "what may not be read is said", func() bool { return slices.Equal(want, f.Notes()) })
	if f.objects.proxy.Forgets {
		t.Error("registries would be asked without the proxy of nodes")
	}
}

// TestFollowWithoutRightsForAMoment: what is refused at the start is waited for, and
// what has been read stays when it is refused later.
func TestFollowWithoutRightsForAMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ca := newAuthority(t, "registry")
	w.put("images", "Image", imageConfig("registry-cas"))
	w.putConfigMap(configNamespace, "registry-cas", map[string]string{"mirror.example.com": ca.pem})
	w.grant("", clusterRules)
	w.grant(managedNamespace, managedRules)
	cfg := rest.CopyConfig(w.cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: guardUser}
	wire, err := cluster.NewWire(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	f, told := w.follow(wire.Config, Options{ForbiddenAfter: time.Hour})
	eventually(t, "only what is refused is waited for", func() bool {
		err := f.Ready()
		return err != nil && strings.Contains(err.Error(), "ConfigMap openshift-config/registry-cas not read: ") &&
			strings.Contains(err.Error(), "ConfigMap openshift-config/user-ca-bundle not read: ") && strings.Count(err.Error(), ";") == 1
	})
	select {
	case trust := <-told:
		t.Fatalf("told %v before the CAs could be read", trust)
	default:
	}
	w.grant(configNamespace, configRules)
	trusted := func(trust Trust) bool { return trust.HostRootCAs["mirror.example.com"] != nil }
	next(t, "the CA of the registry", told, trusted)

	w.takeAway(configNamespace)
	wire.Cut() // ends the watches, which were granted
	wire.Mend()
	eventually(t, "a note says since when", func() bool {
		return slices.ContainsFunc(f.Notes(), func(n string) bool {
			return strings.HasPrefix(n, "ConfigMap openshift-config/registry-cas out of reach for ") && strings.Contains(n, "forbidden")
		})
	})
	if !trusted(New(f.Settings())) {
		t.Error("the CA is forgotten because it may not be read for a moment")
	}
	w.grant(configNamespace, configRules)
	eventually(t, "all is well again", func() bool { return len(f.Notes()) == 0 })
}

// TestFollowNobody: without an API server nothing is known, and that is said.
func TestFollowNobody(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	f, err := Follow(&rest.Config{Host: s.URL}, Options{OnChange: func(Trust) { t.Error("a trust, out of nothing") }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	eventually(t, "the API server has been asked", func() bool { return f.objects.image.Status().Err != nil && f.objects.userCAs.Status().Err != nil })
	err = f.Ready()
	for _, name := range []string{"image.config/cluster not read", "ConfigMap openshift-config/user-ca-bundle not read"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error = %v, want it to have %q", err, name)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := f.WaitReady(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}

// TestRotatedCA: the next probe trusts the new CA of a registry, and no longer the
// old one.
func TestRotatedCA(t *testing.T) {
	t.Parallel()
	const host = "mirror.example.com:5000"
	w := newWorld(t)
	before, after := newAuthority(t, "before"), newAuthority(t, "after")
	w.put("images", "Image", imageConfig("registry-cas"))
	w.putConfigMap("openshift-config", "registry-cas", map[string]string{"mirror.example.com..5000": before.pem})
	var serving atomic.Pointer[tls.Certificate]
	use := func(a authority) {
		c := a.serving(t, "mirror.example.com")
		serving.Store(&c)
	}
	use(before)
	s := httptest.NewUnstartedServer(http.HandlerFunc(serveManifest))
	s.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return serving.Load(), nil }}
	s.StartTLS()
	defer s.Close()
	client := registry.NewClient(wire.Options{RootCAs: x509.NewCertPool(), Resolve: map[string]string{host: s.Listener.Addr().String()}}, nil)
	defer client.Close()
	_, told := w.follow(w.cfg, Options{Roots: x509.NewCertPool()})
	probe := func(trusted authority) policy.Fact {
		next(t, "the CA", told, func(t Trust) bool {
			client.SetTrust(t.RootCAs, t.HostRootCAs, t.Proxy)
			return t.HostRootCAs[host] != nil && t.HostRootCAs[host].Equal(poolOf(trusted))
		})
		return client.Probe(t.Context(), mirrors.Location{Ref: host + "/app:1"})
	}
	if got := probe(before); got.Presence != policy.Present {
		t.Fatalf("%v: %s", got.Presence, got.Detail)
	}
	w.putConfigMap("openshift-config", "registry-cas", map[string]string{"mirror.example.com..5000": after.pem})
	if got := probe(after); got.Presence != policy.Unreachable || !strings.Contains(got.Detail, "unknown authority") {
		t.Errorf("%v: %s, want the old certificate to be refused on a new connection", got.Presence, got.Detail)
	}
	use(after)
	w.putConfigMap("openshift-config", "registry-cas", map[string]string{"mirror.example.com..5000": before.pem})
	probe(before)
	w.putConfigMap("openshift-config", "registry-cas", map[string]string{"mirror.example.com..5000": after.pem})
	if got := probe(after); got.Presence != policy.Present {
		t.Errorf("%v: %s", got.Presence, got.Detail)
	}
}

func serveManifest(w http.ResponseWriter, r *http.Request) {
	const manifest = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`
	if r.URL.Path == "/v2/" {
		return
	}
	w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	fmt.Fprint(w, manifest)
}

// TestFollowerKnowsThatItIsCutOff: where a load balancer accepts connections and closes
// them before an answer, client-go returns a watch without an error. Everything that is
// followed is said to be out of date, and is known again afterwards.
func TestFollowerKnowsThatItIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ca, later := newAuthority(t, "registry"), newAuthority(t, "later")
	w.installProviders()
	w.put("images", "Image", imageConfig("registry-cas"))
	w.put("proxies", "Proxy", proxyConfig("proxy-ca", configv1.ProxyStatus{}))
	w.putConfigMap(configNamespace, "registry-cas", map[string]string{"mirror.example.com": ca.pem})
	w.putConfigMap(configNamespace, "proxy-ca", map[string]string{"ca-bundle.crt": ca.pem})
	w.putConfigMap(configNamespace, "user-ca-bundle", map[string]string{"ca-bundle.crt": ca.pem})
	wire, err := cluster.NewWire(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	f, told := w.follow(wire.Config, Options{})
	at := func(a authority) func(Trust) bool {
		return func(trust Trust) bool {
			return len(trust.Problems()) == 0 && trust.HostRootCAs["mirror.example.com"] != nil && trust.HostRootCAs["mirror.example.com"].Equal(with(trust.RootCAs, []*x509.Certificate{a.certificate}))
		}
	}
	next(t, "the CA of the registry", told, at(ca))
	eventually(t, "no note while all is well", func() bool { return len(f.Notes()) == 0 })

	wire.Cut()
	w.putConfigMap(configNamespace, "registry-cas", map[string]string{"mirror.example.com": later.pem})
	for _, name := range []string{
		"image.config/cluster", "proxy.config/cluster", "criocredentialproviderconfig.config/cluster",
		"ConfigMap openshift-config-managed/image-registry-ca", "ConfigMap openshift-config/user-ca-bundle",
		"ConfigMap openshift-config/registry-cas", "ConfigMap openshift-config/proxy-ca",
	} {
		eventually(t, "a note says that "+name+" is out of reach", func() bool {
			return slices.ContainsFunc(f.Notes(), func(n string) bool { return strings.HasPrefix(n, name+" out of reach for ") })
		})
	}
	wire.Mend()
	next(t, "what was missed", told, at(later))
	eventually(t, "no note any more", func() bool { return len(f.Notes()) == 0 })
}
