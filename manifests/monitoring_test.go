package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// readMonitoring reads a file of the folder monitoring. What it says beyond into is for
// test/alerts, which has the types of Prometheus' operator.
func readMonitoring(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("monitoring", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// A file that is not listed is never applied.
func TestMonitoringListsEveryFile(t *testing.T) {
	var k, base kustomization
	readMonitoring(t, kustomizationFile, &k)
	read(t, kustomizationFile, &base)
	if !slices.Contains(base.Resources, "../monitoring") {
		t.Error("it is no part of the base")
	}
	entries, err := os.ReadDir("monitoring")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	listed := append(k.Resources, kustomizationFile)
	slices.Sort(listed)
	if diff := gocmp.Diff(found, listed); diff != "" {
		t.Errorf("(-files +listed):\n%s", diff)
	}
}

// TestServiceMonitor: Prometheus finds the port that the pods serve metrics at, and trusts the
// certificate that they serve with.
func TestServiceMonitor(t *testing.T) {
	var m struct {
		Metadata struct{ Namespace string }
		Spec     struct {
			Selector  struct{ MatchLabels map[string]string }
			Endpoints []struct {
				Port, Scheme, BearerTokenFile string
				TLSConfig                     struct{ CaFile, ServerName string }
			}
		}
	}
	readMonitoring(t, "servicemonitor.yaml", &m)
	var service corev1.Service
	read(t, "service.yaml", &service)
	var d appsv1.Deployment
	read(t, "deployment.yaml", &d)
	if diff := gocmp.Diff(service.Labels, m.Spec.Selector.MatchLabels); diff != "" || m.Metadata.Namespace != service.Namespace {
		t.Errorf("it selects in %s (-service +selector):\n%s", m.Metadata.Namespace, diff)
	}
	if len(m.Spec.Endpoints) != 1 {
		t.Fatalf("%d endpoints, want 1", len(m.Spec.Endpoints))
	}
	e := m.Spec.Endpoints[0]
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == e.Port })
	if i < 0 || !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--metrics-bind-address=:8443") || ports(d)[service.Spec.Ports[i].TargetPort.StrVal] != 8443 {
		t.Errorf("port %q of the service does not lead to metrics", e.Port)
	}
	if want := webhook.ServiceName + "." + webhook.Namespace + ".svc"; e.Scheme != "https" || e.TLSConfig.ServerName != want || e.TLSConfig.CaFile == "" || e.BearerTokenFile == "" {
		t.Errorf("got %+v, want https to %s with a token", e, want)
	}
}

// TestPrometheusIsLetIn: the cluster's Prometheus looks into the namespace, may look for the
// pods and nothing else, and gets through the network policy.
func TestPrometheusIsLetIn(t *testing.T) {
	var namespace corev1.Namespace
	read(t, "namespace.yaml", &namespace)
	if namespace.Labels["openshift.io/cluster-monitoring"] != "true" {
		t.Error("the cluster's Prometheus does not look into the namespace")
	}
	var role rbacv1.Role
	readMonitoring(t, "prometheus-role.yaml", &role)
	want := map[grant]bool{}
	for _, verb := range []string{"get", "list", "watch"} {
		for _, resource := range []string{"services", "endpoints", "pods"} {
			want[grant{webhook.Namespace, verb, "", resource, ""}] = true
		}
		want[grant{webhook.Namespace, verb, "discovery.k8s.io", "endpointslices", ""}] = true
	}
	got := map[grant]bool{}
	for _, g := range grants(role.Namespace, role.Rules) {
		got[g] = true
	}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(grant{})); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	var binding rbacv1.RoleBinding
	readMonitoring(t, "prometheus-rolebinding.yaml", &binding)
	prometheus := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "prometheus-k8s", Namespace: "openshift-monitoring"}}
	if diff := gocmp.Diff(prometheus, binding.Subjects); diff != "" || binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != role.Name || binding.Namespace != role.Namespace {
		t.Errorf("it binds %v (-want +got):\n%s", binding.RoleRef, diff)
	}
	var policy networkingv1.NetworkPolicy
	read(t, "networkpolicy.yaml", &policy)
	if !slices.ContainsFunc(policy.Spec.Ingress, admitsMonitoring) {
		t.Error("the network policy keeps Prometheus from port 8443")
	}
}

func admitsMonitoring(rule networkingv1.NetworkPolicyIngressRule) bool {
	return slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntValue() == 8443 }) &&
		slices.ContainsFunc(rule.From, func(p networkingv1.NetworkPolicyPeer) bool {
			return p.NamespaceSelector.MatchLabels["network.openshift.io/policy-group"] == "monitoring"
		})
}

// TestKustomize builds the base and every overlay with kubectl itself, and none loses what the
// base has.
func TestKustomize(t *testing.T) {
	base := kustomize(t, "base")
	for _, want := range []string{"ServiceMonitor mirrorset-guard", "PrometheusRule mirrorset-guard", "ConfigMap openshift-config-managed/mirrorset-guard-dashboard", "Deployment mirrorset-guard"} {
		kind, name, _ := strings.Cut(want, " ")
		if !strings.Contains(name, "/") {
			name = webhook.Namespace + "/" + name
		}
		if !slices.Contains(objectsIn(t, base), kind+" "+name) {
			t.Errorf("the base has no %s %s: %q", kind, name, base)
		}
	}
	overlays, err := os.ReadDir("overlays")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range overlays {
		built := objectsIn(t, kustomize(t, filepath.Join("overlays", o.Name())))
		for _, object := range objectsIn(t, base) {
			if !slices.Contains(built, object) {
				t.Errorf("overlay %s is without %s", o.Name(), object)
			}
		}
	}
}

// kustomize builds a folder with kubectl itself, in a copy in which the overlay own-certificate has the
// files that it is to be given.
func kustomize(t *testing.T, folder string) string {
	t.Helper()
	skip.UnlessIntegration(t) // which has kubectl
	assets, err := repo.Assets()
	if err != nil {
		skip.Now(t, err)
	}
	dir := t.TempDir()
	for _, part := range []string{"base", "components", "monitoring", "overlays"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(part)); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(dir, "overlays", "own-certificate")
	ca, err := certificates.SelfSigned(own, []string{webhook.ServiceName + "." + webhook.Namespace + ".svc"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "ca.crt"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "kustomize", filepath.Join(dir, folder)).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", folder, err, out)
	}
	return string(out)
}

// TestCertificateOverlays: where the certificate is from elsewhere, the service CA is not asked for
// one, and both who call the guard trust the CA that comes with it.
func TestCertificateOverlays(t *testing.T) {
	for overlay, annotations := range map[string]string{
		"cert-manager":    "    cert-manager.io/inject-ca-from: mirrorset-guard/mirrorset-guard\n",
		"own-certificate": "",
	} {
		built := kustomize(t, filepath.Join("overlays", overlay))
		if strings.Contains(built, "service.beta.openshift.io") || strings.Contains(built, "service-ca.crt") {
			t.Errorf("%s still names the service CA", overlay)
		}
		if !strings.Contains(built, "        secret:\n          key: ca.crt\n          name: mirrorset-guard-tls\n") {
			t.Errorf("%s: Prometheus does not trust the CA in the Secret", overlay)
		}
		if !strings.Contains(built, annotations) {
			t.Errorf("%s: the webhook configuration is without %s", overlay, annotations)
		}
	}
}

// objectsIn returns kind, namespace and name of each document in text.
func objectsIn(t *testing.T, text string) []string {
	t.Helper()
	var objects []string
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o.Kind+" "+o.Metadata.Namespace+"/"+o.Metadata.Name)
	}
	return objects
}
