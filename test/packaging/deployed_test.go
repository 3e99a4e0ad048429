package packaging

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/manifests"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
)

// TestOwnCertificate: with the certificate that the manual's commands make, the overlay gives a guard that the
// API server calls.
func TestOwnCertificate(t *testing.T) {
	s := newStage(t)
	s.kubectl(load.Workload+guard.PullSecret, "apply", "-f", "-")
	s.namespaces("openshift-config-managed")
	s.monitoring()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(filepath.Join(root, "manifests"))); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "manifests", "overlays", "own-certificate")
	make := exec.CommandContext(t.Context(), "sh", "-ec", documented(t, "docs/install.md", "openssl req"))
	make.Dir = dir
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.kubectl("", "apply", "-k", own)

	certificate := filepath.Join(t.TempDir(), "tls")
	for _, file := range []string{"tls.crt", "tls.key"} { // as the kubelet mounts them
		data, err := base64.StdEncoding.DecodeString(s.kubectl("", "get", "secret", "mirrorset-guard-tls", "-n", "mirrorset-guard", "-o", `jsonpath={.data.`+strings.Replace(file, ".", `\.`, 1)+`}`))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(certificate, file), string(data))
	}
	g := s.serve("mirrorset-guard", "--tls-dir", certificate)
	s.lead(g, "validatingwebhookconfiguration/mirrorset-guard", 2)
	s.reviews(g)
}

// TestAsOLMInstalls: with the rights, the webhooks and the Service that OLM makes of the bundle, the guard is
// ready, is called, and takes the webhooks for its own.
func TestAsOLMInstalls(t *testing.T) {
	s := newStage(t)
	s.kubectl(load.Workload+guard.PullSecret, "apply", "-f", "-")
	s.namespaces("mirrorset-guard")
	s.monitoring()
	m := makePackages(t)
	b, err := manifests.GetBundleFromDir(filepath.Join(m.dir, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range b.Objects {
		if o.GetKind() != "ClusterServiceVersion" {
			s.kubectl(asText(t, o.Object), "apply", "-n", "mirrorset-guard", "-f", "-")
		}
	}
	spec := b.CSV.Spec.InstallStrategy.StrategySpec
	rights := spec.ClusterPermissions[0]
	s.kubectl("", "create", "serviceaccount", rights.ServiceAccountName, "-n", "mirrorset-guard")
	s.apply(rbacv1.ClusterRole{TypeMeta: typeMeta(rbacv1.SchemeGroupVersion.String(), "ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: "generated"}, Rules: rights.Rules})
	s.kubectl("", "create", "clusterrolebinding", "generated", "--clusterrole=generated", "--serviceaccount=mirrorset-guard:"+rights.ServiceAccountName)

	certificate, monitoring := t.TempDir(), t.TempDir()
	ca, err := certificates.SelfSigned(certificate, []string{"mirrorset-guard-service.mirrorset-guard.svc"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certificates.SelfSigned(monitoring, []string{"mirrorset-guard.mirrorset-guard.svc"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	var configurations []string
	for _, definition := range b.CSV.Spec.WebhookDefinitions {
		name := definition.GenerateName + "-x7k2p"
		s.apply(admissionregistrationv1.ValidatingWebhookConfiguration{
			TypeMeta:   typeMeta(admissionregistrationv1.SchemeGroupVersion.String(), "ValidatingWebhookConfiguration"),
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{definition.GetValidatingWebhook("mirrorset-guard", &metav1.LabelSelector{}, ca)},
		})
		configurations = append(configurations, "validatingwebhookconfiguration/"+name)
	}
	g := s.serve("mirrorset-guard-service", "--tls-dir", certificate)
	g.Eventually(t, "no difference is told", func() bool { return g.Value("mirrorset_guard_registration_differences", "") == 0 })
	for _, configuration := range configurations {
		s.lead(g, configuration, 1)
	}
	s.reviews(g)
	s.oc(documented(t, "docs/install.md", "oc get validatingwebhookconfigurations"))
	if left := s.kubectl("", "get", "validatingwebhookconfigurations", "-o", "name"); left != "" {
		t.Errorf("it is not switched off: %s", left)
	}
}

func typeMeta(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

func (s stage) apply(object any) {
	s.t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		s.t.Fatal(err)
	}
	s.kubectl(string(text), "apply", "--server-side", "-f", "-")
}

// serve starts a guard with the rights of its account, and leads a Service to it.
func (s stage) serve(service string, flags ...string) *guard.Process {
	s.t.Helper()
	binary := filepath.Join(s.t.TempDir(), "mirrorset-guard")
	if err := cluster.BuildRelease(binary); err != nil {
		s.t.Fatal(err)
	}
	flags = append(flags, "--kubeconfig", guard.Kubeconfig(s.t, s.Cluster, s.t.TempDir()), "--leader-elect")
	g := guard.Start(s.t, binary, flags...)
	// There is no service network here.
	s.kubectl("", "delete", "service", service, "-n", "mirrorset-guard", "--ignore-not-found")
	s.kubectl("", "create", "service", "externalname", service, "--external-name", "localhost", "-n", "mirrorset-guard")
	return g
}

// lead changes the port of the webhooks in a configuration to that of the guard, once the guard has seen them
// as they were installed.
func (s stage) lead(g *guard.Process, configuration string, webhooks int) {
	s.t.Helper()
	_, port, _ := strings.Cut(g.Listen, ":")
	var patch []string
	for i := range webhooks {
		patch = append(patch, fmt.Sprintf(`{"op": "replace", "path": "/webhooks/%d/clientConfig/service/port", "value": %s}`, i, port))
	}
	s.kubectl("", "patch", configuration, "--type=json", "-p", "["+strings.Join(patch, ",")+"]")
}

// reviews waits until the guard is ready, by a certificate that the API server accepts, and has it admit a
// mirror set that reroutes nothing, and refuse one by whose mirror nothing can be pulled.
func (s stage) reviews(g *guard.Process) {
	s.t.Helper()
	g.AwaitReady(s.t)
	g.Eventually(s.t, "the API server accepts the certificate", func() bool { return g.Value("mirrorset_guard_certificate_verified", "") == 1 })
	set := func(source string) string {
		return "{apiVersion: config.openshift.io/v1, kind: ImageTagMirrorSet, metadata: {name: trial}, spec: {imageTagMirrors: [{source: " + source + ", mirrors: [mirror.invalid/x], mirrorSourcePolicy: NeverContactSource}]}}"
	}
	g.Eventually(s.t, "it admits what reroutes nothing", func() bool {
		out, err := s.Kubectl(s.t.Context(), set("unused.example.com/x"), "apply", "--dry-run=server", "-f", "-")
		return err == nil && strings.Contains(out, "reroutes")
	})
	for _, source := range sources(s) {
		var out string
		var err error
		g.Eventually(s.t, "there is a verdict", func() bool {
			out, err = s.Kubectl(s.t.Context(), set(source), "apply", "--dry-run=server", "-f", "-")
			return !strings.Contains(out, "failed calling webhook") && !strings.Contains(out, "there is no verdict")
		})
		if err == nil || !strings.Contains(out, `admission webhook "mirrorsets.mirrorset-guard.io" denied the request`) {
			s.t.Errorf("%s: %v\n%s", source, err, out)
		}
	}
}

// sources returns the repositories of the images that run.
func sources(s stage) []string {
	var all []string
	for _, image := range strings.Fields(s.kubectl("", "get", "deployment", "cart", "-o", "jsonpath={.spec.template.spec.containers[*].image}")) {
		if repository, _, tagged := strings.Cut(image, ":"); tagged {
			all = append(all, repository)
		}
	}
	return all
}

// documented returns the block of a document that has a line with a prefix.
func documented(t *testing.T, file, prefix string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 1 && strings.Contains(block, "\n"+prefix) {
			_, commands, _ := strings.Cut(block, "\n")
			return commands
		}
	}
	t.Fatalf("%s has no block with %q", file, prefix)
	return ""
}
