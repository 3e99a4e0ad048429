package emergency

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// serviceHost is the name by which the API server verifies the guard's certificate.
const serviceHost = webhook.ServiceName + "." + webhook.Namespace + ".svc"

// A stage is a cluster, and what a guard on it needs.
type stage struct {
	*cluster.Cluster
	page    *page
	api     dynamic.Interface
	kube    kubernetes.Interface
	dir     string // where commands are carried out
	files   string // of the guard
	binary  string
	address string // of the guard, which the Service leads to
	front   *registries.Front
	secret  *certificates.Mounted
	ca      []byte // of the certificate in secret
	other   *certificates.Mounted
}

// before is what is there before the guard is installed.
var before = load.Workload + guard.PullSecret + `
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-config-managed}
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-service-ca}
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-gitops}
---
apiVersion: v1
kind: Namespace
metadata: {name: flux-system}
---
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster}
spec: {}
` + crds([]kind{
	{"monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors", true},
	{"monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules", true},
	{"operators.coreos.com", "v1alpha1", "Subscription", "subscriptions", true},
	{"operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "clusterserviceversions", true},
	{"olm.operatorframework.io", "v1", "ClusterExtension", "clusterextensions", false},
	{"argoproj.io", "v1alpha1", "Application", "applications", true},
	{"kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations", true},
})

// A kind is one whose objects a test makes, with any content.
type kind struct {
	group, version, name, plural string
	namespaced                   bool
}

func crds(kinds []kind) string {
	var b strings.Builder
	for _, k := range kinds {
		scope := map[bool]string{true: "Namespaced", false: "Cluster"}[k.namespaced]
		fmt.Fprintf(&b, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]s.%[1]s}
spec:
  group: %[1]s
  scope: %[5]s
  names: {kind: %[3]s, plural: %[4]s, singular: %[6]s}
  versions: [{name: %[2]s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, k.group, k.version, k.name, k.plural, scope, strings.ToLower(k.name))
	}
	return b.String()
}

func newStage(t *testing.T) *stage {
	t.Helper()
	registries.Need(t)
	s := &stage{Cluster: cluster.New(t), page: readPage(t), dir: t.TempDir(), files: t.TempDir(), address: guard.FreeAddress(t), front: load.Registry(t)}
	s.Dir = s.dir
	s.write(t, s.files, "registry.pem", s.front.CA)
	s.binary = filepath.Join(s.files, "mirrorset-guard")
	must(t, cluster.BuildRelease(s.binary))
	var err error
	s.kube, err = kubernetes.NewForConfig(s.Config)
	must(t, err)
	s.api = load.Client(t, s.Config)
	s.secret, s.ca = s.issue(t)
	s.other, _ = s.issue(t)
	s.programs(t)
	s.kubectl(t, before, "apply", "-f", "-")
	s.kubectl(t, "", "wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=60s")
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stage) write(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
}

// issue makes a secret with a certificate for the Service, by a CA of its own.
func (s *stage) issue(t *testing.T) (*certificates.Mounted, []byte) {
	t.Helper()
	m, err := certificates.Mount(t.TempDir())
	must(t, err)
	return m, s.renew(t, m)
}

func (s *stage) renew(t *testing.T, m *certificates.Mounted) (ca []byte) {
	t.Helper()
	pair, ca, err := m.Add([]string{serviceHost}, time.Hour)
	must(t, err)
	must(t, m.Use(pair))
	return ca
}

// programs puts kubectl under the name that the page uses, and the helm that HELM names, into a folder of
// their own.
func (s *stage) programs(t *testing.T) {
	t.Helper()
	bin := filepath.Join(s.files, "bin")
	must(t, os.Mkdir(bin, 0o700))
	must(t, os.Symlink(s.KubectlPath(), filepath.Join(bin, "oc")))
	if helm := os.Getenv("HELM"); helm != "" {
		must(t, os.Symlink(helm, filepath.Join(bin, "helm")))
	}
}

func (s *stage) kubectl(t *testing.T, stdin string, args ...string) {
	t.Helper()
	if out, err := s.Kubectl(context.WithoutCancel(t.Context()), stdin, args...); err != nil { // also at the end of a test
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// shell carries out a block of the page as it stands, and returns what it prints.
func (s *stage) shell(ctx context.Context, block string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", block)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "HOME="+s.files, "PATH="+filepath.Join(s.files, "bin")+":/usr/bin:/bin")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// do carries out a block of the page.
func (s *stage) do(t *testing.T, heading string, n int) string {
	t.Helper()
	block := strings.ReplaceAll(s.page.block(t, heading, n), " CHART", " ./chart")
	out, err := s.shell(t.Context(), block)
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", heading, err, block, out)
	}
	return out
}

// start starts a guard that is asked through the Service.
func (s *stage) start(t *testing.T, secret *certificates.Mounted) *guard.Process {
	t.Helper()
	return guard.Start(t, s.binary, "--kubeconfig", s.Kubeconfig, "--tls-dir", secret.Dir, "--webhook-bind-address", s.address,
		"--registry-ca", filepath.Join(s.files, "registry.pem"), "--verify-every", "0", "--config", s.configuration(t),
		"--resolve", load.MirrorHost+"="+s.front.Addr(load.MirrorHost), "--resolve", load.SourceHost+"="+s.front.Addr(load.SourceHost))
}

// configuration writes what the ConfigMap holds to the file that guards read, as a kubelet does. Where there
// is none, the file stays as it is. It returns the file.
func (s *stage) configuration(t *testing.T) string {
	t.Helper()
	file := filepath.Join(s.files, "config.yaml")
	m, err := s.kube.CoreV1().ConfigMaps(webhook.Namespace).Get(t.Context(), "mirrorset-guard-config", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return file
	}
	must(t, err)
	s.write(t, s.files, "config.next", []byte(m.Data["config.yaml"]))
	must(t, os.Rename(filepath.Join(s.files, "config.next"), file))
	return file
}

// port is that of the guard.
func (s *stage) port() string {
	_, port, _ := net.SplitHostPort(s.address) // it was made of both
	return port
}

// serviceCA plays OpenShift's service CA: it writes the certificate of the Service, unless it is
// there, and the caBundle of the webhook configuration that asks for it.
func (s *stage) serviceCA(t *testing.T) {
	t.Helper()
	secrets := s.kube.CoreV1().Secrets(webhook.Namespace)
	if _, err := secrets.Get(t.Context(), "mirrorset-guard-tls", metav1.GetOptions{}); err != nil {
		_, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mirrorset-guard-tls"}}, metav1.CreateOptions{})
		must(t, err)
	}
	patch := fmt.Sprintf(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":%q},{"op":"add","path":"/webhooks/1/clientConfig/caBundle","value":%[1]q}]`, base64.StdEncoding.EncodeToString(s.ca))
	s.kubectl(t, "", "patch", "validatingwebhookconfiguration", webhook.ServiceName, "--type=json", "-p", patch)
}

// rolledOut plays the controller of Deployments, whose pods are ready.
func (s *stage) rolledOut(t *testing.T) {
	t.Helper()
	s.kubectl(t, "", "-n", webhook.Namespace, "patch", "deployment", webhook.ServiceName, "--subresource=status", "--type=merge", "-p",
		`{"status":{"observedGeneration":1000,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}}`)
}
