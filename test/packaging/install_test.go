package packaging

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"              // keeps the module, whose CRDs are read
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil" // likewise
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
)

// A stage is an API server with OpenShift's kinds.
type stage struct {
	*cluster.Cluster
	t *testing.T
}

func newStage(t *testing.T) stage {
	t.Helper()
	return stage{cluster.New(t), t}
}

// kubectl must succeed.
func (s stage) kubectl(stdin string, args ...string) string {
	s.t.Helper()
	out, err := s.Kubectl(s.t.Context(), stdin, args...)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// oc runs a script of the manual, in which oc is kubectl.
func (s stage) oc(script string) {
	s.t.Helper()
	bin := s.t.TempDir()
	if err := os.Symlink(s.KubectlPath(), filepath.Join(bin, "oc")); err != nil {
		s.t.Fatal(err)
	}
	sh := exec.CommandContext(s.t.Context(), "sh", "-ec", script)
	sh.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+s.Kubeconfig)
	if out, err := sh.CombinedOutput(); err != nil {
		s.t.Fatalf("%s\n%v\n%s", script, err, out)
	}
}

// has reports whether there is an object.
func (s stage) has(args ...string) bool {
	_, err := s.Kubectl(s.t.Context(), "", append([]string{"get"}, args...)...)
	return err == nil
}

func (s stage) namespaces(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.kubectl("", "create", "namespace", name)
	}
}

// crds serves the kinds of files of a module.
func (s stage) crds(module string, files ...string) {
	s.t.Helper()
	list := exec.CommandContext(s.t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	dir, err := list.Output()
	if err != nil {
		s.t.Fatalf("%s: %v", module, err)
	}
	var args []string
	for _, file := range files {
		args = append(args, "-f", filepath.Join(strings.TrimSpace(string(dir)), filepath.FromSlash(file)))
	}
	s.kubectl("", append([]string{"apply", "--server-side"}, args...)...)
	s.kubectl("", append([]string{"wait", "--for=condition=Established", "--timeout=120s"}, args...)...)
	for line := range strings.Lines(s.kubectl("", append([]string{"get", "-o", `jsonpath={range .items[*]}{.spec.group}/{.spec.versions[?(@.storage==true)].name} {.spec.names.kind}{"\n"}{end}`}, args...)...)) {
		version, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.awaitServed(version, kind, true)
	}
}

// awaitServed waits until the API server lists a kind of "GROUP/VERSION", or does so no more: it serves kinds
// somewhat later than their CRDs are established, and than they are deleted.
func (s stage) awaitServed(version, kind string, served bool) {
	s.t.Helper()
	load.Await(s.t, fmt.Sprintf("%s %s is served: %t", version, kind, served), func(ctx context.Context) error {
		out, err := s.Kubectl(ctx, "", "get", "--raw", "/apis/"+version)
		if listed := err == nil && strings.Contains(out, `"kind":"`+kind+`"`); listed != served {
			return fmt.Errorf("%v %s", err, out) //nolint:errorlint // it may be nil
		}
		return nil
	})
}

func (s stage) monitoring() {
	s.crds("github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml")
}

func (s stage) certManager() {
	s.crds("github.com/cert-manager/cert-manager", "deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml")
}

func (s stage) console() {
	s.crds("github.com/openshift/api", "console/v1/zz_generated.crd-manifests/00_consolelinks.crd.yaml", "route/v1/zz_generated.crd-manifests/routes.crd.yaml")
}

// TestOverlays: an API server takes every overlay, with the real kinds of monitoring and cert-manager, and no
// field is one that it does not know.
func TestOverlays(t *testing.T) {
	s := newStage(t)
	s.namespaces("openshift-config", "openshift-config-managed")
	s.monitoring()
	s.certManager()
	s.console()
	manifests := manifestsCopy(t)
	s.kubectl("", "apply", "--server-side", "-k", filepath.Join(manifests, "base"))
	for _, overlay := range []string{"all-kinds", "cert-manager", "client-ca", "console-link", "grafana", "machineconfigs", "own-certificate", "single-node", "sync", "tight-egress"} {
		folder := filepath.Join(manifests, "overlays", overlay)
		s.kubectl("", "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", folder)
		out := s.kubectl("", "apply", "--server-side", "--validate=strict", "-k", folder)
		if strings.Contains(out, "arning") {
			t.Errorf("%s: %s", overlay, out)
		}
	}
	if got := s.kubectl("", "get", "certificate", "mirrorset-guard", "-n", "mirrorset-guard", "-o", "jsonpath={.spec.secretName}"); got != "mirrorset-guard-tls" {
		t.Errorf("cert-manager writes the certificate to %s", got)
	}
}

// TestConsoleLink: the commands of the manual leave a link that leads to the Route, and the Secret with
// which oauth-proxy encrypts tokens, which takes 16, 24 or 32 bytes, after base64 if the text is that.
func TestConsoleLink(t *testing.T) {
	s := newStage(t)
	s.namespaces("openshift-config", "openshift-config-managed", "mirrorset-guard")
	s.monitoring()
	s.console()
	manifests := manifestsCopy(t)
	mine := filepath.Join(manifests, "mine")
	write(t, filepath.Join(mine, "kustomization.yaml"), strings.NewReplacer(
		"github.com/mirrorset-guard/mirrorset-guard/manifests/", "../", "REGISTRY", "registry.example.com", `"sha256:..."`, strconv.Quote(digest),
	).Replace(documented(t, "docs/report.md", "resources: [github.com")))
	s.oc(documented(t, "docs/report.md", "oc -n mirrorset-guard create secret generic mirrorset-guard-report-cookie"))
	secret := s.kubectl("", "get", "secret", "mirrorset-guard-report-cookie", "-n", "mirrorset-guard", "-o", "go-template={{.data.secret | base64decode}}")
	if decoded, err := base64.URLEncoding.DecodeString(secret); len(secret) != 32 || err == nil && len(decoded) != 24 {
		t.Errorf("%q is no secret for cookies", secret)
	}
	s.kubectl("", "apply", "--server-side", "--validate=strict", "-k", mine)
	// Which the router's API does for a Route without one.
	s.kubectl("", "patch", "route", "mirrorset-guard-report", "-n", "mirrorset-guard", "--type=merge", "-p", `{"spec":{"host":"mirrorset-guard-report-mirrorset-guard.apps.example.com"}}`)
	s.oc(documented(t, "docs/report.md", "oc patch consolelink"))
	if got := s.kubectl("", "get", "consolelink", "mirrorset-guard-report", "-o", "jsonpath={.spec.href}"); got != "https://mirrorset-guard-report-mirrorset-guard.apps.example.com/report" {
		t.Errorf("the link leads to %s", got)
	}
	if got := s.kubectl("", "get", "deployment", "mirrorset-guard-report", "-n", "mirrorset-guard", "-o", "jsonpath={.spec.template.spec.containers[*].image}"); got != proxyImage {
		t.Errorf("the proxy is %s", got)
	}
	// A token of the proxy's own account opens nothing.
	for _, what := range []string{"get --raw=/report", "list pods -A", "get secrets -n mirrorset-guard"} {
		args := append([]string{"auth", "can-i", "--as=system:serviceaccount:mirrorset-guard:mirrorset-guard-report"}, strings.Fields(strings.ReplaceAll(what, "--raw=", ""))...)
		if out, err := s.Kubectl(t.Context(), "", args...); err == nil {
			t.Errorf("the proxy may %s: %s", what, out)
		}
	}
}

// settings are those of Helm for the cluster.
func (s stage) settings() *action.Configuration {
	s.t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	namespace, cache := "mirrorset-guard", s.t.TempDir()
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &s.Kubeconfig, &namespace, &cache
	configuration := &action.Configuration{}
	if err := configuration.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		s.t.Fatal(err)
	}
	return configuration
}

// install is `helm install --create-namespace`.
func (s stage) install(values map[string]any) error {
	s.t.Helper()
	chart, err := loader.Load(chartFolder)
	if err != nil {
		s.t.Fatal(err)
	}
	install := action.NewInstall(s.settings())
	install.ReleaseName, install.Namespace, install.CreateNamespace = "mirrorset-guard", "mirrorset-guard", true
	_, err = install.RunWithContext(s.t.Context(), chart, values)
	return err
}

func (s stage) upgrade(values map[string]any) error {
	s.t.Helper()
	chart, err := loader.Load(chartFolder)
	if err != nil {
		s.t.Fatal(err)
	}
	upgrade := action.NewUpgrade(s.settings())
	upgrade.Namespace = "mirrorset-guard"
	_, err = upgrade.RunWithContext(s.t.Context(), "mirrorset-guard", chart, values)
	return err
}

// notes returns what Helm prints of the release.
func (s stage) notes() string {
	s.t.Helper()
	release, err := action.NewGet(s.settings()).Run("mirrorset-guard")
	if err != nil {
		s.t.Fatal(err)
	}
	return release.Info.Notes
}

// TestChartIsInstalled: what a cluster lacks is told before anything is created; then the chart is installed,
// upgraded and uninstalled.
func TestChartIsInstalled(t *testing.T) {
	s := newStage(t)
	source := func(name string) map[string]any { return values(map[string]any{"tls": map[string]any{"source": name}}) }
	refused := func(values map[string]any, want string) {
		t.Helper()
		if err := s.install(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if s.has("clusterrole", "mirrorset-guard") || s.has("secret", "sh.helm.release.v1.mirrorset-guard.v1", "-n", "mirrorset-guard") {
			t.Fatalf("something was created although %s", want)
		}
	}
	mirrorSets := s.kubectl("", "get", "crd", "imagedigestmirrorsets.config.openshift.io", "-o", "yaml")
	s.kubectl("", "delete", "crd", "imagedigestmirrorsets.config.openshift.io")
	s.awaitServed("config.openshift.io/v1", "ImageDigestMirrorSet", false)
	refused(values(nil), "this cluster does not serve config.openshift.io/v1 ImageDigestMirrorSet: it is not OpenShift 4.13 or later")
	s.kubectl(withoutServerFields(t, mirrorSets), "create", "-f", "-")
	s.kubectl("", "wait", "--for=condition=Established", "--timeout=120s", "crd/imagedigestmirrorsets.config.openshift.io")
	s.awaitServed("config.openshift.io/v1", "ImageDigestMirrorSet", true)

	refused(values(nil), "this cluster has no namespace openshift-config")
	s.namespaces("openshift-config", "openshift-config-managed")
	refused(values(nil), "tls.source is service-ca, and this cluster has no service CA (there is no namespace openshift-service-ca): set tls.source=cert-manager, or tls.source=secret")
	refused(source("cert-manager"), "tls.source is cert-manager, and this cluster does not serve cert-manager.io/v1 Certificate: install cert-manager first, or set tls.source=service-ca")
	refused(source("secret"), "tls.source is secret, and Secret mirrorset-guard-tls in mirrorset-guard has no tls.crt: create it first")
	s.namespaces("openshift-service-ca")
	refused(values(nil), "monitoring.enabled is set, and this cluster does not serve monitoring.coreos.com/v1 ServiceMonitor: set monitoring.enabled=false")
	s.monitoring()
	clientCA, without := values(map[string]any{"clientCA": map[string]any{"enabled": true}}), "clientCA.enabled is set, and ConfigMap mirrorset-guard-client-ca in mirrorset-guard has no certificate in ca.crt"
	refused(clientCA, without)
	s.namespaces("mirrorset-guard")
	s.kubectl("", "create", "configmap", "mirrorset-guard-client-ca", "-n", "mirrorset-guard", "--from-literal=ca.crt=")
	refused(clientCA, without)

	if err := s.install(values(map[string]any{"allKinds": true, "machineConfigs": "Warn", "monitoring": map[string]any{"grafana": true}})); err != nil {
		t.Fatal(err)
	}
	webhooks := []string{"validatingwebhookconfiguration", "mirrorset-guard"}
	for _, object := range [][]string{webhooks, {"deployment", "mirrorset-guard", "-n", "mirrorset-guard"}, {"clusterrole", "mirrorset-guard-all-kinds"}, {"servicemonitor", "mirrorset-guard", "-n", "mirrorset-guard"}} {
		if !s.has(object...) {
			t.Errorf("there is no %s", strings.Join(object, " "))
		}
	}
	_, label, _ := strings.Cut(documented(t, "docs/install.md", "helm install"), "\n")
	s.oc(label)
	if notes := s.notes(); !strings.Contains(notes, strings.TrimSpace(label)) {
		t.Errorf("Helm's notes are without %s:\n%s", label, notes)
	}
	s.certManager()
	if err := s.upgrade(source("cert-manager")); err != nil {
		t.Fatal(err)
	}
	annotations := s.kubectl("", append([]string{"get", "-o", "jsonpath={.metadata.annotations}"}, webhooks...)...)
	if !strings.Contains(annotations, "inject-ca-from") || strings.Contains(annotations, "service.beta.openshift.io") || s.has("clusterrole", "mirrorset-guard-all-kinds") {
		t.Errorf("after the upgrade the webhook configuration has %s", annotations)
	}
	if _, err := action.NewUninstall(s.settings()).Run("mirrorset-guard"); err != nil {
		t.Fatal(err)
	}
	if s.has(webhooks...) || s.has("clusterrole", "mirrorset-guard") {
		t.Error("something is left")
	}
	own := filepath.Join(manifestsCopy(t), "overlays", "own-certificate")
	s.kubectl("", "create", "secret", "generic", "mirrorset-guard-tls", "-n", "mirrorset-guard",
		"--from-file="+filepath.Join(own, "tls.crt"), "--from-file="+filepath.Join(own, "tls.key"), "--from-file="+filepath.Join(own, "ca.crt"))
	if err := s.install(source("secret")); err != nil {
		t.Fatal(err)
	}
	bundle := s.kubectl("", append([]string{"get", "-o", "jsonpath={.webhooks[*].clientConfig.caBundle}"}, webhooks...)...)
	want := s.kubectl("", "get", "secret", "mirrorset-guard-tls", "-n", "mirrorset-guard", "-o", `jsonpath={.data.ca\.crt}`)
	if bundle != want+" "+want {
		t.Errorf("the API server trusts %s, want %s for each of the two webhooks", bundle, want)
	}
}

// withoutServerFields removes what an API server adds to an object.
func withoutServerFields(t *testing.T, text string) string {
	t.Helper()
	for _, o := range objects(t, text) {
		delete(o, "status")
		metadata := o["metadata"].(map[string]any)
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
			delete(metadata, field)
		}
		return asText(t, o)
	}
	return ""
}
