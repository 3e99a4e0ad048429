package rights

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/internal/access"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// TestRights runs the guard with the rights of the manifests and nothing else. It does
// so twice, because an API server that cannot stream lists gets different requests.
func TestRights(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	streaming := s.serve(t)
	s.testReaders(t, streaming)
	s.testConfigurationEvents(t)
	s.testRunbooks(t)
	streaming.stop()
	s.serve(t, "KUBE_FEATURE_WatchListClient=false")

	rights := granted(t)
	var unused, forbidden []cluster.Right
	for deadline := time.Now().Add(process.Patience); ; time.Sleep(50 * time.Millisecond) { // the log has no event for "complete"
		var err error
		if unused, forbidden, err = cluster.Use(s.audit, rights, false); err != nil {
			t.Fatal(err)
		}
		if len(unused) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, r := range unused {
		t.Errorf("never used: %+v", r)
	}
	for _, r := range forbidden {
		t.Errorf("forbidden: %+v", r)
	}
	if len(rights) < 50 {
		t.Errorf("%d rights: these are not the ones", len(rights))
	}
}

// A stage is a cluster that serves everything the guard may read.
type stage struct {
	cluster            *cluster.Cluster
	dir, audit, binary string
	ca                 []byte
	registry           string // the address of mirror.example.com and quay.io
}

func newStage(t *testing.T) *stage {
	dir := t.TempDir()
	s := &stage{dir: dir, audit: filepath.Join(dir, "audit.log"), binary: filepath.Join(dir, "mirrorset-guard")}
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(cluster.AuditOf(process.User)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cluster = cluster.New(t, cluster.WithAudit(policy, s.audit))
	if err := cluster.InstallCRDs(s.cluster.Config, envtest.CRDInstallOptions{CRDs: looseCRDs()}); err != nil {
		t.Fatal(err)
	}
	manifest(t, "*namespace.yaml", func(o map[string]any) { s.applyObject(t, o) })
	s.apply(t, objects)
	for _, pattern := range []string{"*serviceaccount.yaml", "*role.yaml", "*binding.yaml"} {
		manifest(t, pattern, func(o map[string]any) { s.applyObject(t, o) })
	}
	for _, g := range granted(t) {
		right := authorizationv1.ResourceAttributes{Namespace: g.Namespace, Verb: g.Verb, Group: g.Group, Resource: g.Resource, Name: g.Name}
		if err := cluster.AwaitRight(t.Context(), s.cluster.Config, process.User, right); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.BuildRelease(s.binary); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "tls"), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.ca, err = certificates.SelfSigned(filepath.Join(dir, "tls"), []string{"127.0.0.1", "mirror.example.com", "quay.io"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	s.registry = s.emptyRegistry(t)
	s.installed(t)
	return s
}

// emptyRegistry returns the address of a registry that holds nothing, so that the
// images of the configuration in force are reported as lost, by an Event.
func (s *stage) emptyRegistry(t *testing.T) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(s.dir, "tls", certs.CertFile), filepath.Join(s.dir, "tls", certs.KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	registry := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			http.NotFound(w, r)
		}
	}))
	registry.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	registry.StartTLS()
	t.Cleanup(registry.Close)
	return registry.Listener.Addr().String()
}

// looseCRDs are the resources in the manifests for which test/cluster has no CRD.
func looseCRDs() []*apiextensionsv1.CustomResourceDefinition {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, r := range []struct{ plural, group, version, kind string }{
		{"deploymentconfigs", "apps.openshift.io", "v1", "DeploymentConfig"},
		{"buildconfigs", "build.openshift.io", "v1", "BuildConfig"},
		{"builds", "build.openshift.io", "v1", "Build"},
		{"imagestreams", "image.openshift.io", "v1", "ImageStream"},
		{"controllerconfigs", "machineconfiguration.openshift.io", "v1", "ControllerConfig"},
		{"machineosbuilds", "machineconfiguration.openshift.io", "v1", "MachineOSBuild"},
		{"machineosconfigs", "machineconfiguration.openshift.io", "v1", "MachineOSConfig"},
		{"machineconfigurations", "operator.openshift.io", "v1", "MachineConfiguration"},
		{"machineconfignodes", "machineconfiguration.openshift.io", "v1", "MachineConfigNode"},
		{"infrastructures", "config.openshift.io", "v1", "Infrastructure"},
		{"clusteroperators", "config.openshift.io", "v1", "ClusterOperator"},
		{"ingresses", "config.openshift.io", "v1", "Ingress"},
		{"ingresscontrollers", "operator.openshift.io", "v1", "IngressController"},
		{"routes", "route.openshift.io", "v1", "Route"},
		{"apiservers", "config.openshift.io", "v1", "APIServer"},
		{"criocredentialproviderconfigs", "config.openshift.io", "v1", "CRIOCredentialProviderConfig"},
		{"clusterserviceversions", "operators.coreos.com", "v1alpha1", "ClusterServiceVersion"},
		{"installplans", "operators.coreos.com", "v1alpha1", "InstallPlan"},
		{"rollouts", "argoproj.io", "v1alpha1", "Rollout"},
		{"virtualmachines", "kubevirt.io", "v1", "VirtualMachine"},
		{"catalogsources", "operators.coreos.com", "v1alpha1", "CatalogSource"},
		{"clustercatalogs", "olm.operatorframework.io", "v1", "ClusterCatalog"},
		{"hostedclusters", "hypershift.openshift.io", "v1beta1", "HostedCluster"},
		{"nodepools", "hypershift.openshift.io", "v1beta1", "NodePool"},
	} {
		crds = append(crds, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: r.plural + "." + r.group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: r.group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: r.kind, Plural: r.plural},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: r.version, Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: new(true),
					}},
				}},
			},
		})
	}
	return crds
}

// objects are what the guard needs to have something to read, and the accounts that
// read from the guard.
//
//go:embed testdata/objects.yaml
var objects string

func (s *stage) apply(t *testing.T, text string) {
	t.Helper()
	if out, err := s.cluster.Kubectl(t.Context(), text, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func (s *stage) applyObject(t *testing.T, o map[string]any) {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, string(data))
}

func (s *stage) token(t *testing.T, namespace, account string) string {
	t.Helper()
	token, err := s.cluster.Kubectl(t.Context(), "", "create", "token", account, "--namespace", namespace)
	if err != nil {
		t.Fatalf("%v\n%s", err, token)
	}
	return strings.TrimSpace(token)
}

// A guard is a running process.
type guard struct {
	observe string
	client  *http.Client
	stop    func()
}

// serve starts the guard as its account, waits until it is ready, and has it review
// something.
func (s *stage) serve(t *testing.T, env ...string) *guard {
	t.Helper()
	p := process.StartIn(t, env, s.binary, "--kubeconfig", process.Kubeconfig(t, s.cluster, s.dir), "--tls-dir", filepath.Join(s.dir, "tls"), "--metrics-plain=false",
		"--registry-ca", filepath.Join(s.dir, "tls", certificates.CAFile), "--resolve", "mirror.example.com="+s.registry, "--resolve", "quay.io="+s.registry,
		"--leader-elect", "--verify-every", "1s", "--config", s.configFile())
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.ca)
	client := &http.Client{Timeout: process.Patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	p.AwaitReady(t)
	if _, notes := p.Readyz(); strings.Contains(notes, "permission") {
		t.Errorf("ready, with a note on permissions: %s", notes)
	}
	for _, o := range reviewed {
		review(t, client, "https://"+p.Listen+webhook.Path, o)
	}
	return &guard{observe: "https://" + p.Metrics, client: client, stop: func() { p.Stop(t) }}
}

// reviewed are of every kind that the guard reviews, and have no effect, so that no registry is asked. None covers what
// another names: they are judged together as long as the first is pending.
var reviewed = []mirrors.Object{
	&configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
	&configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
	&operatorv1alpha1.ImageContentSourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
	&configv1.ClusterImagePolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: configv1.ClusterImagePolicySpec{Scopes: nowhere, Policy: byKey}},
	&configv1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, Spec: configv1.ImagePolicySpec{Scopes: nowhere, Policy: byKey}},
	&mcfgv1.PinnedImageSet{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: mcfgv1.PinnedImageSetSpec{
		PinnedImages: []mcfgv1.PinnedImageRef{{Name: mcfgv1.ImageDigestFormat("pinned.example.com/a@sha256:" + strings.Repeat("a", 64))}},
	}},
}

var (
	nowhere = []configv1.ImageScope{"unused.example.com"}
	byKey   = configv1.ImageSigstoreVerificationPolicy{RootOfTrust: configv1.PolicyRootOfTrust{
		PolicyType: configv1.PublicKeyRootOfTrust, PublicKey: &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: signer.Key("release").PEM()},
	}}
)

// review makes the guard read the mirror configuration, and then what came of the change.
func review(t *testing.T, client *http.Client, url string, o mirrors.Object) {
	t.Helper()
	object, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	group, version := configv1.GroupVersion.Group, configv1.GroupVersion.Version
	switch o.(type) {
	case *operatorv1alpha1.ImageContentSourcePolicy:
		group, version = operatorv1alpha1.GroupVersion.Group, operatorv1alpha1.GroupVersion.Version
	case *mcfgv1.PinnedImageSet:
		group, version = mcfgv1.GroupVersion.Group, mcfgv1.GroupVersion.Version
	}
	request := fmt.Sprintf(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE",
		"kind": {"group": %q, "version": %q, "kind": %q}, "name": "a", "namespace": %q, "object": {"apiVersion": %q, "kind": %q, %s}}`,
		group, version, mirrors.KindOf(o), o.GetNamespace(), group+"/"+version, mirrors.KindOf(o), object[1:])
	resp, err := client.Post(url+"?timeout=30s", "application/json", strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); !bytes.Contains(body, []byte(`"allowed":true`)) {
		t.Errorf("the review was answered by %s %s", resp.Status, body)
	}
}

// testReaders asks for what the guard knows with the right to, without it, and
// anonymously, as a client does and as a proxy that passes its user's token on.
func (s *stage) testReaders(t *testing.T, g *guard) {
	reader, stranger, browser := s.token(t, "default", "reader"), s.token(t, "default", "stranger"), s.token(t, "default", "browser")
	const image = `"image": "quay.io/shop/cart:v1"`
	for _, tt := range []struct {
		reason, path, token string
		status              int
		contains            string
	}{
		{"the role of the manifests", "/inventory", reader, http.StatusOK, image},
		{"the parameters are the flags", "/inventory?namespace=default&registry=quay.io&unused=false", reader, http.StatusOK, image},
		{"nothing is below it", "/inventory?registry=docker.io", reader, http.StatusOK, `"images": []`},
		{"a parameter that is none", "/inventory?image=x", reader, http.StatusBadRequest, `"image": there is no such parameter; choose among namespace, registry, unused and rescue`},
		{"a value that is none", "/inventory?unused=maybe", reader, http.StatusBadRequest, `unused="maybe": want true or false`},
		{"metrics are behind it as well", "/metrics", reader, http.StatusOK, "\nmirrorset_guard_inventory_images 2\n"},
		{"the report", "/report", reader, http.StatusOK, ": The mirror configuration in force</title>"},
		{"no such decision", "/report?change=x", reader, http.StatusNotFound, "no such decision"},
		{"no role", "/report", stranger, http.StatusForbidden, ""},
		{"the role in the guard's namespace", "/report", browser, http.StatusOK, ": The mirror configuration in force</title>"},
		{"it opens the report alone", "/inventory", browser, http.StatusForbidden, ""},
		{"it opens the report alone", "/metrics", browser, http.StatusForbidden, ""},
		{"no token", "/report?change=x", "", http.StatusUnauthorized, ""},
		{"no role", "/inventory", stranger, http.StatusForbidden, ""},
		{"no role", "/metrics", stranger, http.StatusForbidden, ""},
		{"no token", "/inventory", "", http.StatusUnauthorized, ""},
		{"no token", "/metrics", "", http.StatusUnauthorized, ""},
		{"a token of nobody", "/inventory", "x" + reader, http.StatusUnauthorized, ""},
		{"a token of nobody", "/metrics", "x" + reader, http.StatusUnauthorized, ""},
		{"no token at all", "/metrics", "garbage", http.StatusUnauthorized, ""},
		{"another path is not in the role", "/", reader, http.StatusForbidden, ""},
	} {
		for name, value := range map[string]string{"Authorization": "Bearer " + tt.token, access.ForwardedToken: tt.token} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.observe+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.token != "" {
				req.Header.Set(name, value)
			}
			resp, err := g.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != tt.status || !strings.Contains(string(body), tt.contains) {
				t.Errorf("%s (%s): GET %s: %s, want %d with %q:\n%s", tt.reason, name, tt.path, resp.Status, tt.status, tt.contains, body)
			}
			if tt.status != http.StatusOK && strings.Contains(string(body), "quay.io") {
				t.Errorf("%s (%s): GET %s tells all the same: %s", tt.reason, name, tt.path, body)
			}
		}
	}
}
