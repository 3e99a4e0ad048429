package guard

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// Cart is an image in use, quay.io/shop/cart:v1, and who may change mirror objects: alice and bob, by their names, and the group on-call, and who of these may
// override a refusal: alice and the group.
const Cart = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: shop}
spec:
  replicas: 0
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}}
    spec: {containers: [{name: app, image: "quay.io/shop/cart:v1"}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: editor}
rules:
- {apiGroups: [config.openshift.io], resources: [imagetagmirrorsets, imagedigestmirrorsets], verbs: [get, list, create, update, patch, delete, deletecollection]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: editor}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: on-call}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: guard-override}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mirrorset-guard-override}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: on-call}
`

// Install creates the guard's account with its rights, after a pull secret and objects of the test, and waits until users have rights; the guard itself and
// its webhooks are left to the test.
func Install(t testing.TB, c *cluster.Cluster, objects string, rights map[string][]authorizationv1.ResourceAttributes) {
	t.Helper()
	for _, kind := range []string{"namespace.yaml", "", "serviceaccount.yaml", "role.yaml", "binding.yaml"} {
		text := ApplicableBase(t, kind)
		if kind == "" { // the namespaces of roles come before them
			text = PullSecret + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: openshift-config-managed}\n---\n" + objects
		}
		if out, err := c.Kubectl(t.Context(), text, "apply", "-f", "-"); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, text)
		}
	}
	for user, all := range rights {
		for _, right := range all {
			if err := cluster.AwaitRight(t.Context(), c.Config, user, right); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ApplicableBase returns the manifests whose file names end with kind.
func ApplicableBase(t testing.TB, kind string) string {
	t.Helper()
	entries, err := manifests.Base.ReadDir("base")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), kind) {
			continue
		}
		text, err := manifests.Base.ReadFile("base/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return strings.Join(texts, "\n---\n")
}

// Proxy leads to the guard, whose certificate is of a CA, as the API server's way does.
func (p *Process) Proxy(ca []byte) *httputil.ReverseProxy {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: p.Listen})
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 100}
	return proxy
}
