//go:build integration

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// looseCRD returns a cluster-scoped CRD that takes any fields, for kinds whose own
// CRD is not at hand. The last version is the one that is stored; all are served.
func looseCRD(group, kind, plural string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
		},
	}
	for i, v := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: v, Served: true, Storage: i == len(versions)-1,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: new(true),
			}},
		})
	}
	return crd
}

// installLoose adds a loose CRD to the API server until the test ends.
func installLoose(t *testing.T, cfg *rest.Config, group, kind, plural string, versions ...string) {
	t.Helper()
	options := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{looseCRD(group, kind, plural, versions...)}}
	if err := cluster.InstallCRDs(cfg, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.UninstallCRDs(cfg, options); err != nil {
			t.Error(err)
		}
	})
}

// impatient runs a Cluster that looks often for what is not served.
func impatient(t *testing.T, cfg *rest.Config, o Options) *Inventory {
	t.Helper()
	c, err := New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.sources {
		s.Retry = &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1, Steps: 1}
	}
	run(t, c)
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Before 4.19, PinnedImageSet had no other version than v1alpha1.
func TestInventoryReadsTheVersionThatIsServed(t *testing.T) {
	cfg := fromAPIServer(t)
	c := impatient(t, cfg, Options{})
	installLoose(t, cfg, "machineconfiguration.openshift.io", "PinnedImageSet", "pinnedimagesets", "v1alpha1")
	const image = "quay.io/pinned:1"
	create(t, dynamic.NewForConfigOrDie(cfg), "machineconfiguration.openshift.io/v1alpha1", "PinnedImageSet", "pinnedimagesets", "old",
		map[string]any{"pinnedImages": []any{map[string]any{"name": image}}})
	eventually(t, "an object of the older version is there", func() bool { return len(consumersOf(t, c, "", image)) == 1 })
}

// OLM's largest objects name thousands of images, and come near etcd's limit.
func TestInventoryReadsLargeObjects(t *testing.T) {
	cfg := fromAPIServer(t)
	const group, images = "operators.coreos.com", 5000
	installLoose(t, cfg, group, "ClusterServiceVersion", "clusterserviceversions", "v1alpha1")
	var related []any
	for i := range images {
		related = append(related, map[string]any{"image": fmt.Sprintf("quay.io/large/%d@sha256:%064d", i, i)})
	}
	csv := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1alpha1", "kind": "ClusterServiceVersion", "metadata": map[string]any{"name": "large"},
		"spec": map[string]any{"relatedImages": related, "icon": strings.Repeat("x", 400<<10)},
	}}
	resource := dynamic.NewForConfigOrDie(cfg).Resource(resourceOf(group, "v1alpha1", "clusterserviceversions"))
	if _, err := resource.Create(t.Context(), csv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if data, err := csv.MarshalJSON(); err != nil || len(data) < 900<<10 {
		t.Fatalf("the object has %d bytes (%v), want nearly a MiB", len(data), err)
	}
	c := impatient(t, cfg, Options{})
	all, err := c.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for img := range all.All() {
		if strings.HasPrefix(img.Ref, "quay.io/large/") {
			found++
		}
	}
	if found != images {
		t.Errorf("%d images, want %d", found, images)
	}
}

func TestInventoryKnowsItsConfiguration(t *testing.T) {
	cfg := fromAPIServer(t)
	c := impatient(t, cfg, Options{})
	if c.RolloutObjects().Machines != nil || c.Proxy() != nil || c.RolloutObjects().Version != nil {
		t.Error("there is a configuration where none is served")
	}
	const config = "config.openshift.io/v1"
	installLoose(t, cfg, "operator.openshift.io", "MachineConfiguration", "machineconfigurations", "v1")
	installLoose(t, cfg, "config.openshift.io", "Proxy", "proxies", "v1")
	installLoose(t, cfg, "config.openshift.io", "ClusterVersion", "clusterversions", "v1")
	dyn := dynamic.NewForConfigOrDie(cfg)
	create(t, dyn, "operator.openshift.io/v1", "MachineConfiguration", "machineconfigurations", "cluster", map[string]any{
		"logLevel": "Debug", "nodeDisruptionPolicy": map[string]any{"files": []any{map[string]any{
			"path": "/etc/containers/registries.conf", "actions": []any{map[string]any{"type": "None"}},
		}}},
	})
	create(t, dyn, config, "Proxy", "proxies", "cluster", map[string]any{"httpProxy": "http://me:secret@proxy.example.com:3128"})
	create(t, dyn, config, "Proxy", "proxies", "other", map[string]any{"httpProxy": "http://other.example.com"})
	create(t, dyn, config, "ClusterVersion", "clusterversions", "version", map[string]any{"desiredUpdate": map[string]any{"image": "quay.io/release:2"}})

	eventually(t, "what has appeared is known", func() bool {
		return c.RolloutObjects().Machines != nil && c.Proxy() != nil && c.RolloutObjects().Version != nil
	})
	m := c.RolloutObjects().Machines
	if f := m.Spec.NodeDisruptionPolicy.Files; len(f) != 1 || f[0].Path != "/etc/containers/registries.conf" || m.Spec.LogLevel != "" {
		t.Errorf("MachineConfiguration() = %+v, want the policy of one file and nothing else", m.Spec)
	}
	if got := c.Proxy().Spec.HTTPProxy; got != "http://proxy.example.com:3128" {
		t.Errorf("Proxy() = %q, want it without a password", got)
	}
	if users := consumersOf(t, c, "", "quay.io/release:2"); len(users) != 1 || users[0].Kind != "ClusterVersion" {
		t.Errorf("users %v of the release image, want the ClusterVersion, which is followed for both", users)
	}
	names := []string{}
	for _, s := range c.Sources() {
		names = append(names, s.Name)
	}
	if len(slices.Compact(names)) != len(c.sources) {
		t.Errorf("a resource is followed twice: %q", names)
	}

	if err := dyn.Resource(resourceOf("config.openshift.io", "v1", "clusterversions")).Delete(t.Context(), "version", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is deleted is gone for both", func() bool {
		return c.RolloutObjects().Version == nil && len(consumersOf(t, c, "", "quay.io/release:2")) == 0
	})
}

// What is kept for a rollback is history as long as the owner's template is read.
func TestInventoryKnowsWhoseTemplatesItReads(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	const ns, image = "rollback", "quay.io/rollback:1"
	namespace(t, kube, ns)
	owner := metav1.OwnerReference{APIVersion: "apps.openshift.io/v1", Kind: "DeploymentConfig", Name: "owner", Controller: new(true)}
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "old", OwnerReferences: []metav1.OwnerReference{owner}}, Spec: corev1.ReplicationControllerSpec{
		Replicas: new(int32(0)), Selector: map[string]string{"a": "b"},
		Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: containers(image)},
	}}
	rc.OwnerReferences[0].UID = "1"
	if _, err := kube.CoreV1().ReplicationControllers(ns).Create(t.Context(), rc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := impatient(t, cfg, Options{})
	use := func() policy.Use { return consumersOf(t, c, ns, image)[0].Use }
	if use() != policy.Referenced {
		t.Error("history, though nobody knows what the DeploymentConfig names")
	}
	installLoose(t, cfg, "apps.openshift.io", "DeploymentConfig", "deploymentconfigs", "v1")
	eventually(t, "it is history", func() bool { return use() == policy.History })
}

// Pull secrets of service accounts, and names of ImageStreams, for templates that no pod
// has been made from yet.
func TestInventoryKnowsWhatAdmissionWillAdd(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	const ns, image = "admission", "quay.io/admission:1"
	namespace(t, kube, ns)
	spec := containers(image, "cart:1")
	spec.ServiceAccountName = "cart"
	labels := map[string]string{"a": "b"}
	deployment := &appsv1.Deployment{ObjectMeta: named(ns, "cart"), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
	}}
	if _, err := kube.AppsV1().Deployments(ns).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var less []rbacv1.PolicyRule
	for _, r := range c.Rules() {
		if r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(name string) bool { return name == "serviceaccounts" }); len(r.Resources) > 0 {
			less = append(less, r)
		}
	}
	blind := impatient(t, as(t, kube, cfg, "no-accounts", less), Options{ForbiddenAfter: time.Millisecond})
	if u := consumersOf(t, blind, ns, image)[0]; !u.OwnPullSecret || !u.PullSecretUnknown {
		t.Errorf("%+v, though nobody could read the service account", u)
	}
	if notes := blind.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "no permission to read serviceaccounts") {
		t.Errorf("Notes() = %q, want one on service accounts", notes)
	}

	c = impatient(t, cfg, Options{})
	user := func() policy.Consumer { return consumersOf(t, c, ns, image)[0] }
	if u := user(); u.OwnPullSecret || u.PullSecretUnknown {
		t.Errorf("%+v, though there is no such account", u)
	}
	account := &corev1.ServiceAccount{ObjectMeta: named(ns, "cart"), ImagePullSecrets: []corev1.LocalObjectReference{{Name: "cart-dockercfg-x7k2p"}, {Name: "quay"}}}
	if _, err := kube.CoreV1().ServiceAccounts(ns).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the account has a pull secret", func() bool { u := user(); return u.OwnPullSecret && !u.PullSecretUnknown })
	account.ImagePullSecrets = account.ImagePullSecrets[:1]
	if _, err := kube.CoreV1().ServiceAccounts(ns).Update(t.Context(), account, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing says that the other is OpenShift's", func() bool { return user().PullSecretUnknown })
	account.Annotations = map[string]string{"openshift.io/internal-registry-pull-secret-ref": "cart-dockercfg-x7k2p"}
	if _, err := kube.CoreV1().ServiceAccounts(ns).Update(t.Context(), account, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "OpenShift's is none", func() bool { return !user().OwnPullSecret })

	if len(consumersOf(t, c, ns, "cart:1")) != 1 {
		t.Error("a short name stands for an ImageStream that is not there")
	}
	crd := looseCRD("image.openshift.io", "ImageStream", "imagestreams", "v1")
	crd.Spec.Scope = apiextensionsv1.NamespaceScoped
	options := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}}
	if err := cluster.InstallCRDs(cfg, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.UninstallCRDs(cfg, options); err != nil {
			t.Error(err)
		}
	})
	streams := dynamic.NewForConfigOrDie(cfg).Resource(resourceOf("image.openshift.io", "v1", "imagestreams")).Namespace(ns)
	stream := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "image.openshift.io/v1", "kind": "ImageStream", "metadata": map[string]any{"name": "cart"},
		"spec": map[string]any{"lookupPolicy": map[string]any{"local": true}},
		"status": map[string]any{"tags": []any{map[string]any{"tag": "1", "items": []any{map[string]any{
			"dockerImageReference": "quay.io/team/cart@" + digest, "image": digest, "created": "2026-01-01T00:00:00Z", "generation": int64(1),
		}}}}},
	}}
	if _, err := streams.Create(t.Context(), stream, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the short name stands for its image", func() bool {
		return len(consumersOf(t, c, ns, "cart:1")) == 0 && slices.ContainsFunc(consumersOf(t, c, ns, "quay.io/team/cart@"+digest), func(u policy.Consumer) bool { return u.Kind == "Deployment" })
	})
	if err := streams.Delete(t.Context(), "cart", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "without the stream it is what it was", func() bool { return len(consumersOf(t, c, ns, "cart:1")) == 1 })
}

// surveying runs a Cluster that surveys all the time.
func surveying(t *testing.T, cfg *rest.Config) *Inventory {
	t.Helper()
	c, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.survey.times = surveyTimes{discover: 50 * time.Millisecond, list: 50 * time.Millisecond, readyAfter: time.Minute}
	run(t, c)
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// installCRD adds a CRD; the caller may take it away before the test ends.
func installCRD(t *testing.T, cfg *rest.Config, crd *apiextensionsv1.CustomResourceDefinition) (remove func()) {
	t.Helper()
	options := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}}
	if err := cluster.InstallCRDs(cfg, options); err != nil {
		t.Fatal(err)
	}
	remove = func() {
		if err := cluster.UninstallCRDs(cfg, options); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(remove)
	return remove
}

// TestSurvey follows kinds that nothing in the program knows of, from before the start and
// from afterwards, until they are gone.
func TestSurvey(t *testing.T) {
	cfg := fromAPIServer(t)
	dyn := dynamic.NewForConfigOrDie(cfg)
	installLoose(t, cfg, "early.example.com", "Early", "earlies", "v1")
	spec := func(image string) map[string]any {
		return map[string]any{"containers": []any{map[string]any{"name": "app", "image": image}}}
	}
	create(t, dyn, "early.example.com/v1", "Early", "earlies", "a", spec("quay.io/survey/early:1"))
	for i := range 3 * follow.FirstPageSize {
		create(t, dyn, "early.example.com/v1", "Early", "earlies", fmt.Sprintf("many-%d", i), spec("quay.io/survey/many:1"))
	}
	c := surveying(t, cfg)

	if diff := cmp.Diff(guessUser("Early.early.example.com", "a", "spec.containers[app]"), consumersOf(t, c, "", "quay.io/survey/early:1")); diff != "" {
		t.Errorf("when ready (-want +got):\n%s", diff)
	}
	if got := len(consumersOf(t, c, "", "quay.io/survey/many:1")); got != 3*follow.FirstPageSize {
		t.Errorf("%d objects of several pages, want %d", got, 3*follow.FirstPageSize)
	}

	remove := installCRD(t, cfg, looseCRD("late.example.com", "Late", "lates", "v1"))
	create(t, dyn, "late.example.com/v1", "Late", "lates", "a", spec("quay.io/survey/late:1"))
	eventually(t, "a kind that was added is read", func() bool { return len(consumersOf(t, c, "", "quay.io/survey/late:1")) == 1 })
	gvr := schema.GroupVersionResource{Group: "early.example.com", Version: "v1", Resource: "earlies"}
	if err := dyn.Resource(gvr).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an object that was deleted is forgotten", func() bool { return consumersOf(t, c, "", "quay.io/survey/early:1") == nil })
	remove()
	eventually(t, "a kind that was removed is forgotten", func() bool { return consumersOf(t, c, "", "quay.io/survey/late:1") == nil })
	if notes := c.Notes(); len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
}

// TestSurveyConfigMaps chooses ConfigMaps by their names, and leaves alone the one that has
// a source of its own.
func TestSurveyConfigMaps(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	put := func(ns, name, image string) {
		t.Helper()
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"images.json": `{"a": "` + image + `"}`}}
		if _, err := kube.CoreV1().ConfigMaps(ns).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = kube.CoreV1().ConfigMaps(ns).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		})
	}
	for _, ns := range []string{"openshift-machine-api", "openshift-widgets", "survey-shop"} {
		namespace(t, kube, ns)
	}
	put("openshift-machine-api", "machine-api-operator-images", "quay.io/maps/known:1")
	put("openshift-widgets", "widget-images", "quay.io/maps/guessed:1")
	put("openshift-widgets", "widget-settings", "quay.io/maps/settings:1")
	put("survey-shop", "shop-images", "quay.io/maps/shop:1")
	c := surveying(t, cfg)

	user := func(ns, name string, guessed bool) []policy.Consumer {
		return []policy.Consumer{{Kind: "ConfigMap", Namespace: ns, Name: name, Container: "data[images.json]", Guessed: guessed}}
	}
	for _, tt := range []struct {
		reason, namespace, image string
		want                     []policy.Consumer
	}{
		{"the release's own", "openshift-machine-api", "quay.io/maps/known:1", user("openshift-machine-api", "machine-api-operator-images", false)},
		{"another operator's", "openshift-widgets", "quay.io/maps/guessed:1", user("openshift-widgets", "widget-images", true)},
		{"another name", "openshift-widgets", "quay.io/maps/settings:1", nil},
		{"a tenant's", "survey-shop", "quay.io/maps/shop:1", nil},
	} {
		if diff := cmp.Diff(tt.want, consumersOf(t, c, tt.namespace, tt.image)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
		}
	}
	if err := kube.CoreV1().ConfigMaps("openshift-widgets").Delete(t.Context(), "widget-images", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a ConfigMap that was deleted is forgotten", func() bool {
		return consumersOf(t, c, "openshift-widgets", "quay.io/maps/guessed:1") == nil
	})
	if consumersOf(t, c, "openshift-machine-api", "quay.io/maps/known:1") == nil {
		t.Error("and the known one with it")
	}
}

// withContainers gives a CRD the schema of something that has pods.
func withContainers(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	container := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": text, "image": text}}
	list := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: container}}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"containers": list}}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
	}
	return crd
}

// TestSurveyWithoutRights says what it may not read, and reads it once it may.
func TestSurveyWithoutRights(t *testing.T) {
	cfg := fromAPIServer(t)
	admin := kubernetes.NewForConfigOrDie(cfg)
	installCRD(t, cfg, withContainers(looseCRD("pods.example.com", "Barred", "barreds", "v1")))
	installLoose(t, cfg, "open.example.com", "Open", "opens", "v1") // a schema that tells nothing
	create(t, dynamic.NewForConfigOrDie(cfg), "pods.example.com/v1", "Barred", "barreds", "a",
		map[string]any{"containers": []any{map[string]any{"name": "app", "image": "quay.io/survey/barred:1"}}})

	bare, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := surveying(t, as(t, admin, cfg, "surveyor", bare.Rules()))
	isGap := func() bool {
		gaps := c.Unsearched()
		return len(gaps) == 1 && gaps[0].Source == "1 kind with pod templates (barreds.pods.example.com)" && gaps[0].Excused && slices.Equal(c.Notes(), []string{gaps[0].String()})
	}
	eventually(t, "what may not be read is said", isGap)
	if got := consumersOf(t, c, "", "quay.io/survey/barred:1"); got != nil {
		t.Errorf("it was read: %v", got)
	}

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "surveyor-more"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"pods.example.com"}, Resources: []string{"barreds"}, Verbs: []string{"list"}},
	}}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "surveyor-more"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "surveyor"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "surveyor-more"},
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is read once it may be", func() bool { return consumersOf(t, c, "", "quay.io/survey/barred:1") != nil })
	eventually(t, "and no note is left", func() bool { return len(c.Notes())+len(c.Unsearched()) == 0 })
	if err := admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), "surveyor-more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a right that is taken away is said once, and asked for", func() bool {
		c.survey.mu.Lock()
		refused := c.survey.kinds[schema.GroupVersionResource{Group: "pods.example.com", Version: "v1", Resource: "barreds"}].failed > 0
		c.survey.mu.Unlock()
		return refused && isGap()
	})
	if got := consumersOf(t, c, "", "quay.io/survey/barred:1"); got == nil {
		t.Error("what was known is forgotten with the right")
	}
}
