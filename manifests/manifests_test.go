package manifests

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

const kustomizationFile = "kustomization.yaml"

// A kustomization is the part of kustomize's format that the base uses.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Images     []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	data, err := Base.ReadFile(path.Join("base", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func files(t *testing.T) []string {
	t.Helper()
	entries, err := fs.ReadDir(Base, "base")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A file that is not listed is never applied.
func TestKustomizationListsEveryFile(t *testing.T) {
	var k kustomization
	read(t, kustomizationFile, &k)
	listed := slices.DeleteFunc(append(slices.Clone(k.Resources), kustomizationFile), isFolder)
	slices.Sort(listed)
	if diff := gocmp.Diff(files(t), listed); diff != "" {
		t.Errorf("(-files +listed):\n%s", diff)
	}
}

// isFolder tells another kustomization from a file.
func isFolder(resource string) bool { return !strings.HasSuffix(resource, ".yaml") }

// Each file is one object of a type that its API knows, without fields that the type
// does not have: the API server would drop them.
func TestEveryFileIsAnObject(t *testing.T) {
	for _, name := range files(t) {
		if name == kustomizationFile {
			continue
		}
		var meta struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		data, err := Base.ReadFile(path.Join("base", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(data, &meta); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		object := newObject(t, schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
		if err := yaml.UnmarshalStrict(data, object); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want := strings.ToLower(meta.Kind) + ".yaml"; !strings.HasSuffix(name, want) {
			t.Errorf("%s holds a %s, so its name should end in %s", name, meta.Kind, want)
		}
	}
}

func newObject(t *testing.T, gvk schema.GroupVersionKind) runtime.Object {
	t.Helper()
	o, err := clientgoscheme.Scheme.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// resources are the plural names of the kinds that the webhooks match.
var resources = map[schema.GroupVersionKind]string{
	mirrors.TagMirrorSetGVK:    "imagetagmirrorsets",
	mirrors.DigestMirrorSetGVK: "imagedigestmirrorsets",
	mirrors.ContentPolicyGVK:   "imagecontentsourcepolicies",
	mirrors.ImageConfigGVK:     "images",
	mirrors.ClusterPolicyGVK:   "clusterimagepolicies",
	mirrors.NamespacePolicyGVK: "imagepolicies",
}

// pinnedRule is for the kind that is reviewed when it is put, and not when it is deleted, in both versions that
// clusters serve.
func pinnedRule() admissionregistrationv1.RuleWithOperations {
	scope := admissionregistrationv1.ClusterScope
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{mirrors.PinnedSetGVK.Group}, APIVersions: []string{mirrors.PinnedSetGVK.Version, mirrors.PinnedSetFormerGVK.Version},
			Resources: []string{"pinnedimagesets"}, Scope: &scope,
		},
	}
}

func rules(operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
	rule := func(scope admissionregistrationv1.ScopeType, gvks ...schema.GroupVersionKind) admissionregistrationv1.RuleWithOperations {
		r := admissionregistrationv1.Rule{
			APIGroups: []string{gvks[0].Group}, APIVersions: []string{gvks[0].Version}, Scope: &scope,
		}
		for _, gvk := range gvks {
			r.Resources = append(r.Resources, resources[gvk])
		}
		return admissionregistrationv1.RuleWithOperations{Operations: operations, Rule: r}
	}
	return []admissionregistrationv1.RuleWithOperations{
		rule(admissionregistrationv1.ClusterScope, mirrors.TagMirrorSetGVK, mirrors.DigestMirrorSetGVK, mirrors.ImageConfigGVK, mirrors.ClusterPolicyGVK),
		rule(admissionregistrationv1.ClusterScope, mirrors.ContentPolicyGVK),
		rule(admissionregistrationv1.NamespacedScope, mirrors.NamespacePolicyGVK),
	}
}

func TestWebhookConfigurationMatchesTheCode(t *testing.T) {
	got, err := WebhookConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	hook := func(name string, failure admissionregistrationv1.FailurePolicyType, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name:          name,
			FailurePolicy: &failure,
			Rules:         rules(operations...),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: webhook.Namespace,
				Name:      webhook.ServiceName,
				Port:      new(int32(webhook.ServicePort)),
				Path:      new(webhook.Path),
			}},
			AdmissionReviewVersions: []string{"v1"},
			MatchPolicy:             new(admissionregistrationv1.Equivalent),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
			TimeoutSeconds:          new(int32(webhook.TimeoutSeconds)),
		}
	}
	want := []admissionregistrationv1.ValidatingWebhook{
		hook(webhook.MirrorSetsWebhook, admissionregistrationv1.Fail, admissionregistrationv1.Create, admissionregistrationv1.Update),
		hook(webhook.DeletionsWebhook, admissionregistrationv1.Ignore, admissionregistrationv1.Delete),
	}
	want[0].Rules = append(want[0].Rules, pinnedRule())
	if diff := gocmp.Diff(want, got.Webhooks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Annotations["service.beta.openshift.io/inject-cabundle"] != "true" {
		t.Error("nobody fills in caBundle")
	}
}

// The service connects the API server to the port of the process.
func TestServiceReachesTheProcess(t *testing.T) {
	var service corev1.Service
	read(t, "service.yaml", &service)
	var deployment appsv1.Deployment
	read(t, "deployment.yaml", &deployment)
	if service.Namespace != webhook.Namespace || service.Name != webhook.ServiceName ||
		deployment.Namespace != webhook.Namespace || deployment.Name != webhook.ServiceName {
		t.Error("the API server and the messages look for another service or deployment")
	}
	for key, value := range service.Spec.Selector {
		if deployment.Spec.Template.Labels[key] != value {
			t.Errorf("the service selects %s=%s, which the pods do not have", key, value)
		}
	}
	port := service.Spec.Ports[0]
	if port.Port != webhook.ServicePort {
		t.Errorf("the service listens on %d, want %d", port.Port, webhook.ServicePort)
	}
	if got := ports(deployment)[port.TargetPort.StrVal]; got != webhook.Port {
		t.Errorf("the service leads to port %d, want %d", got, webhook.Port)
	}
	secret := service.Annotations["service.beta.openshift.io/serving-cert-secret-name"]
	if got := deployment.Spec.Template.Spec.Volumes[0].Secret.SecretName; got != secret || got == "" {
		t.Errorf("the pods mount secret %q, the certificate is in %q", got, secret)
	}
}

func ports(d appsv1.Deployment) map[string]int32 {
	out := map[string]int32{}
	for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
		out[p.Name] = p.ContainerPort
	}
	return out
}

func TestDeploymentArguments(t *testing.T) {
	var d appsv1.Deployment
	read(t, "deployment.yaml", &d)
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	want := []string{
		"serve", "--tls-dir=/etc/mirrorset-guard/tls", "--webhook-bind-address=:9443", "--health-probe-bind-address=:8081", "--metrics-bind-address=:8443", "--shutdown-delay=5s",
		"--leader-elect", "--config=/etc/mirrorset-guard/config/config.yaml",
	}
	if diff := gocmp.Diff(want, c.Args); diff != "" || c.Command != nil {
		t.Errorf("command %q, arguments (-want +got):\n%s", c.Command, diff)
	}
	if diff := gocmp.Diff(map[string]int32{"webhook": 9443, "health": 8081, "metrics": 8443}, ports(d)); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	if got := c.VolumeMounts[0].MountPath; got != "/etc/mirrorset-guard/tls" {
		t.Errorf("the certificate is at %s, which --tls-dir does not name", got)
	}
	if *d.Spec.Replicas > 1 && !slices.Contains(c.Args, "--leader-elect") {
		t.Error("each replica reports")
	}
	const drain = 5 // seconds, as above; 10 more while reviews come, and 5 more than a review takes
	if longest := int64(drain + 10 + webhook.TimeoutSeconds + 5); *pod.TerminationGracePeriodSeconds <= longest {
		t.Errorf("it is killed after %d s, in the middle of a review", *pod.TerminationGracePeriodSeconds)
	}
	if leaves := c.ReadinessProbe.PeriodSeconds * c.ReadinessProbe.FailureThreshold; leaves >= drain {
		t.Errorf("it leaves the Service after %d s, and stops answering after %d s", leaves, drain)
	}
	for name, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe.HTTPGet.Path != name || probe.HTTPGet.Port.StrVal != "health" {
			t.Errorf("got probe %v, want %s of port health", probe.HTTPGet, name)
		}
	}
}

// What the "restricted" Pod Security Standard requires, and a few things more that cost
// nothing.
func TestDeploymentIsRestricted(t *testing.T) {
	var namespace corev1.Namespace
	read(t, "namespace.yaml", &namespace)
	if namespace.Name != webhook.Namespace || namespace.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("got namespace %s with labels %v", namespace.Name, namespace.Labels)
	}
	var d appsv1.Deployment
	read(t, "deployment.yaml", &d)
	pod := d.Spec.Template.Spec
	if diff := gocmp.Diff(&corev1.PodSecurityContext{
		RunAsNonRoot:   new(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}, pod.SecurityContext); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(&corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}, pod.Containers[0].SecurityContext); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.Containers) != 1 {
		t.Error("it shares the host's namespaces, or has other containers")
	}
}

// One replica may be evicted at a time, be it the only one, and a broken one at any time.
func TestDisruption(t *testing.T) {
	var d appsv1.Deployment
	read(t, "deployment.yaml", &d)
	var pdb policyv1.PodDisruptionBudget
	read(t, "poddisruptionbudget.yaml", &pdb)
	if *d.Spec.Replicas != 2 || pdb.Spec.MinAvailable != nil || pdb.Spec.MaxUnavailable.IntValue() != 1 || *pdb.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
		t.Errorf("got %d replicas and %+v", *d.Spec.Replicas, pdb.Spec)
	}
	for name, selector := range map[string]map[string]string{
		"deployment": d.Spec.Selector.MatchLabels, "budget": pdb.Spec.Selector.MatchLabels,
	} {
		if diff := gocmp.Diff(d.Spec.Template.Labels, selector); diff != "" {
			t.Errorf("%s selects (-pods +selector):\n%s", name, diff)
		}
	}
}

// TestNetworkPolicy: whoever has a reason to connect can, on the port that it is for.
func TestNetworkPolicy(t *testing.T) {
	var d appsv1.Deployment
	read(t, "deployment.yaml", &d)
	var policy networkingv1.NetworkPolicy
	read(t, "networkpolicy.yaml", &policy)
	if diff := gocmp.Diff(d.Spec.Template.Labels, policy.Spec.PodSelector.MatchLabels); diff != "" {
		t.Errorf("it selects (-pods +selector):\n%s", diff)
	}
	open := map[string]bool{}
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			for name, number := range ports(d) {
				if port.Port.IntValue() == int(number) {
					open[name] = len(rule.From) == 0
				}
			}
		}
	}
	// Neither API servers nor kubelets come from a namespace.
	if diff := gocmp.Diff(map[string]bool{"webhook": true, "health": true, "metrics": false}, open); diff != "" {
		t.Errorf("ports, and whether they are open to all (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]networkingv1.NetworkPolicyEgressRule{{}}, policy.Spec.Egress); diff != "" {
		t.Errorf("registries may be anywhere (-want +got):\n%s", diff)
	}
}

// TestOverlayTightEgress: it narrows egress, and nothing else.
func TestOverlayTightEgress(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("overlays", "tight-egress", "networkpolicy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var base, patch networkingv1.NetworkPolicy
	read(t, "networkpolicy.yaml", &base)
	if err := yaml.UnmarshalStrict(data, &patch); err != nil {
		t.Fatal(err)
	}
	if patch.Name != base.Name || patch.Namespace != base.Namespace {
		t.Errorf("it patches %s/%s", patch.Namespace, patch.Name)
	}
	allowed := map[int]bool{}
	for _, rule := range patch.Spec.Egress {
		for _, port := range rule.Ports {
			allowed[port.Port.IntValue()] = true
		}
	}
	for _, port := range []int{5353, 6443, 443} {
		if !allowed[port] {
			t.Errorf("it does not reach port %d", port)
		}
	}
	patch.Spec.Egress = nil
	if diff := gocmp.Diff(networkingv1.NetworkPolicySpec{}, patch.Spec); diff != "" {
		t.Errorf("it changes more (-want +got):\n%s", diff)
	}
}

// TestOverlayConsoleLink: what faces browsers has no rights, reaches the guard's report and nothing else of
// it, and is reached by routers alone; its tokens are for the role of readers in the guard's namespace.
func TestOverlayConsoleLink(t *testing.T) {
	overlay := func(name string, into any) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("overlays", "console-link", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(data, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var proxy, guard appsv1.Deployment
	overlay("deployment.yaml", &proxy)
	read(t, "deployment.yaml", &guard)
	var reader rbacv1.ClusterRole
	read(t, "reader-clusterrole.yaml", &reader)
	pod := proxy.Spec.Template.Spec
	if pod.ServiceAccountName == guard.Spec.Template.Spec.ServiceAccountName {
		t.Error("it has the guard's rights")
	}
	for _, want := range []string{
		fmt.Sprintf("--upstream=https://%s.%s.svc:%d/report", webhook.ServiceName, webhook.Namespace, ports(guard)["metrics"]),
		fmt.Sprintf("--scope=user:info role:%s:%s", reader.Name, webhook.Namespace),
		"--openshift-service-account=" + pod.ServiceAccountName, "--pass-access-token=true", "--pass-basic-auth=false", "--http-address=",
	} {
		if !slices.Contains(pod.Containers[0].Args, want) {
			t.Errorf("the proxy has no %s: %q", want, pod.Containers[0].Args)
		}
	}
	if diff := gocmp.Diff(guard.Spec.Template.Spec.Containers[0].SecurityContext, pod.Containers[0].SecurityContext); diff != "" {
		t.Errorf("(-guard +proxy):\n%s", diff)
	}
	if got := grants(webhook.Namespace, reader.Rules); !slices.Equal(got, []grant{{webhook.Namespace, "get", "mirrorset-guard.io", "reports", ""}}) {
		t.Errorf("a token for this namespace permits %v", got)
	}

	var own, ofGuard networkingv1.NetworkPolicy
	overlay("networkpolicy.yaml", &own)
	overlay("guard-networkpolicy.yaml", &ofGuard)
	labels, guardLabels := proxy.Spec.Template.Labels, guard.Spec.Template.Labels
	if diff := gocmp.Diff([]map[string]string{labels, guardLabels, labels, guardLabels}, []map[string]string{
		own.Spec.PodSelector.MatchLabels, own.Spec.Egress[1].To[0].PodSelector.MatchLabels, ofGuard.Spec.Ingress[0].From[0].PodSelector.MatchLabels, ofGuard.Spec.PodSelector.MatchLabels,
	}); diff != "" {
		t.Errorf("the policies select (-pods +selectors):\n%s", diff)
	}
	if gocmp.Equal(labels, guardLabels) {
		t.Error("the guard's service and policy select the proxy")
	}
	for _, from := range own.Spec.Ingress[0].From {
		if len(own.Spec.Ingress) != 1 || from.NamespaceSelector == nil || len(from.NamespaceSelector.MatchLabels) == 0 {
			t.Errorf("others than routers reach it: %v", own.Spec.Ingress)
		}
	}
}

// A grant is one permitted action.
type grant struct{ namespace, verb, group, resource, name string }

func grants(namespace string, rules []rbacv1.PolicyRule) []grant {
	var out []grant
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					for _, name := range names {
						out = append(out, grant{namespace, verb, group, resource, name})
					}
				}
			}
		}
	}
	return out
}

// What package inventory asks for, and nothing else: a wider right has to be listed
// here as well.
func TestRightsAreNoWiderThanNeeded(t *testing.T) {
	var cluster rbacv1.ClusterRole
	read(t, "clusterrole.yaml", &cluster)
	got := grants("", cluster.Rules)
	for _, name := range roles(t) {
		var role rbacv1.Role
		read(t, name, &role)
		got = append(got, grants(role.Namespace, role.Rules)...)
	}

	c, err := live.New(&rest.Config{Host: "https://127.0.0.1:1"}, live.Options{}) // makes no connection before Run
	if err != nil {
		t.Fatal(err)
	}
	want := append(grants("", c.Rules()), grants("openshift-config", []rbacv1.PolicyRule{live.PullSecretRule()})...)
	want = append(want, grant{"", "create", "authentication.k8s.io", "tokenreviews", ""}, // who sees /metrics and /inventory
		grant{"", "create", "authorization.k8s.io", "subjectaccessreviews", ""})
	for _, verb := range []string{"list", "watch"} { // what package trust follows, besides what both do
		want = append(want, grant{"", verb, "config.openshift.io", "criocredentialproviderconfigs", "cluster"},
			grant{"", verb, "config.openshift.io", "images", "cluster"},
			grant{"openshift-config", verb, "", "configmaps", ""},
			grant{"openshift-config-managed", verb, "", "configmaps", "image-registry-ca"})
		want = append(want, grant{"", verb, "config.openshift.io", "apiservers", "cluster"}, // what package serving follows
			grant{"", verb, "admissionregistration.k8s.io", "validatingwebhookconfigurations", ""})
	}
	want = append(want, // what an update depends on: signatures by their label, and the others by their names
		grant{"openshift-config-managed", "list", "", "configmaps", ""},
		grant{"openshift-config-managed", "get", "", "configmaps", "release-verification"})
	want = append(want, grants("", []rbacv1.PolicyRule{live.DefinitionsRule()})...)
	want = append(want, grants(events.Namespace, []rbacv1.PolicyRule{events.Rule()})...)
	want = append(want, // the Lease that replicas share
		grant{webhook.Namespace, "get", "coordination.k8s.io", "leases", recent.LeaseName},
		grant{webhook.Namespace, "list", "coordination.k8s.io", "leases", recent.LeaseName},
		grant{webhook.Namespace, "watch", "coordination.k8s.io", "leases", recent.LeaseName},
		grant{webhook.Namespace, "update", "coordination.k8s.io", "leases", recent.LeaseName})
	want = append(want, // what leader election does to its Lease
		grant{webhook.Namespace, "create", "coordination.k8s.io", "leases", ""},
		grant{webhook.Namespace, "get", "coordination.k8s.io", "leases", "mirrorset-guard"},
		grant{webhook.Namespace, "update", "coordination.k8s.io", "leases", "mirrorset-guard"})
	order := cmpopts.SortSlices(func(a, b grant) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource), cmp.Compare(a.verb, b.verb), cmp.Compare(a.name, b.name))
	})
	if diff := gocmp.Diff(want, got, order, gocmp.AllowUnexported(grant{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOverrideRole: it permits to override a change of every kind that is reviewed, nothing else,
// and is bound to nobody.
func TestOverrideRole(t *testing.T) {
	var role rbacv1.ClusterRole
	read(t, "override-clusterrole.yaml", &role)
	want := map[string][]string{}
	for _, rule := range role.Rules {
		if diff := gocmp.Diff([]string{webhook.OverrideVerb}, rule.Verbs); diff != "" || len(rule.APIGroups) != 1 {
			t.Errorf("verbs for %v (-want +got):\n%s", rule.APIGroups, diff)
		}
		want[rule.APIGroups[0]] = rule.Resources
	}
	all := mirrors.Resources()
	if diff := gocmp.Diff(want, all); diff != "" {
		t.Errorf("(-role +reviewed):\n%s", diff)
	}
	reviewed := map[string]bool{}
	for _, names := range all {
		for _, name := range names {
			reviewed[name] = true
		}
	}
	for gvk, name := range resources {
		if !reviewed[name] {
			t.Errorf("%s: %s is not among the resources", gvk.Kind, name)
		}
	}
	for _, name := range files(t) {
		var binding rbacv1.ClusterRoleBinding
		if strings.HasSuffix(name, "binding.yaml") {
			if read(t, name, &binding); binding.RoleRef.Name == role.Name {
				t.Errorf("%s binds it", name)
			}
		}
	}
}

// roles are the files that hold a role.
func roles(t *testing.T) []string {
	return slices.DeleteFunc(files(t), func(name string) bool { return !strings.HasSuffix(name, "-role.yaml") })
}

func TestBindingsNameTheServiceAccount(t *testing.T) {
	var account corev1.ServiceAccount
	read(t, "serviceaccount.yaml", &account)
	var d appsv1.Deployment
	read(t, "deployment.yaml", &d)
	if account.Namespace != d.Namespace || account.Name != d.Spec.Template.Spec.ServiceAccountName {
		t.Errorf("the pods run as %s", d.Spec.Template.Spec.ServiceAccountName)
	}
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}

	var clusterRole rbacv1.ClusterRole
	read(t, "clusterrole.yaml", &clusterRole)
	var cluster rbacv1.ClusterRoleBinding
	read(t, "clusterrolebinding.yaml", &cluster)
	if diff := gocmp.Diff(want, cluster.Subjects); diff != "" || cluster.RoleRef.Kind != "ClusterRole" || cluster.RoleRef.Name != clusterRole.Name {
		t.Errorf("cluster role binding of %v (-want +got):\n%s", cluster.RoleRef, diff)
	}
	for _, name := range roles(t) {
		var role rbacv1.Role
		read(t, name, &role)
		var binding rbacv1.RoleBinding
		read(t, strings.Replace(name, "-role", "-rolebinding", 1), &binding)
		if diff := gocmp.Diff(want, binding.Subjects); diff != "" || binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != role.Name || binding.Namespace != role.Namespace {
			t.Errorf("%s: role binding of %v (-want +got):\n%s", name, binding.RoleRef, diff)
		}
	}
}

// The overlay adds only rights to read: those of "view", which exclude Secrets.
func TestOverlayAllKinds(t *testing.T) {
	overlay := func(name string, into any) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("overlays", "all-kinds", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(data, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var k kustomization
	overlay(kustomizationFile, &k)
	if diff := gocmp.Diff([]string{"../../base", "clusterrole.yaml", "clusterrolebinding.yaml"}, k.Resources); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var role rbacv1.ClusterRole
	overlay("clusterrole.yaml", &role)
	want := &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		{MatchLabels: map[string]string{"mirrorset-guard.io/aggregate-to-all-kinds": "true"}},
	}}
	if diff := gocmp.Diff(want, role.AggregationRule); diff != "" || len(role.Rules) != 0 {
		t.Errorf("rules %v, aggregated (-want +got):\n%s", role.Rules, diff)
	}
	var binding, base rbacv1.ClusterRoleBinding
	overlay("clusterrolebinding.yaml", &binding)
	read(t, "clusterrolebinding.yaml", &base)
	if diff := gocmp.Diff(base.Subjects, binding.Subjects); diff != "" || binding.RoleRef.Name != role.Name || binding.RoleRef.Kind != "ClusterRole" {
		t.Errorf("it binds %v (-base +overlay):\n%s", binding.RoleRef, diff)
	}
}
