//go:build integration

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

func TestInventoryFollowsPods(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	const ns = "follow"
	namespace(t, kube, ns)
	pods := kube.CoreV1().Pods(ns)
	create := func(p *corev1.Pod) *corev1.Pod {
		t.Helper()
		created, err := pods.Create(t.Context(), p, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	create(&corev1.Pod{ObjectMeta: named(ns, "early"), Spec: containers("quay.io/early:1")})

	c := running(t, cfg, Options{})
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	running := []policy.Consumer{{Kind: "Pod", Namespace: ns, Name: "early", Container: "a", Use: policy.Running, NeverRan: true, Placement: &policy.Placement{}}}
	if diff := cmp.Diff(running, consumersOf(t, c, ns, "quay.io/early:1")); diff != "" {
		t.Errorf("a pod from before: -want +got:\n%s", diff)
	}

	late := create(&corev1.Pod{ObjectMeta: named(ns, "late"), Spec: containers("quay.io/late:1")})
	eventually(t, "a new pod's image is there", func() bool { return len(consumersOf(t, c, ns, "quay.io/late:1")) == 1 })

	late.Status.Phase = corev1.PodRunning
	late.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", ImageID: "quay.io/late@" + digest}}
	late, err := pods.UpdateStatus(t.Context(), late, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the digest that runs is known", func() bool {
		users := consumersOf(t, c, ns, "quay.io/late:1")
		return len(users) == 1 && users[0].Digest == digest
	})

	late.Spec.Containers[0].Image = "quay.io/late:2"
	if _, err := pods.Update(t.Context(), late, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a changed image takes the place of the old one", func() bool {
		return len(consumersOf(t, c, ns, "quay.io/late:1")) == 0 && len(consumersOf(t, c, ns, "quay.io/late:2")) == 1
	})

	if err := pods.Delete(t.Context(), "late", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted pod's image is gone", func() bool { return len(consumersOf(t, c, ns, "quay.io/late:2")) == 0 })
}

func TestInventoryFollowsEveryWorkload(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	const ns, image = "workloads", "quay.io/workload:1"
	namespace(t, kube, ns)
	c := running(t, cfg, Options{})

	labels := map[string]string{"app": "x"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{Spec: containers(image)}
	template.Labels = labels
	job := *template.DeepCopy()
	job.Labels, job.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
	ctx, create := t.Context(), metav1.CreateOptions{}
	_, err1 := kube.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{ObjectMeta: named(ns, "x"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}, create)
	_, err2 := kube.AppsV1().ReplicaSets(ns).Create(ctx, &appsv1.ReplicaSet{ObjectMeta: named(ns, "x"), Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}, create)
	_, err3 := kube.AppsV1().StatefulSets(ns).Create(ctx, &appsv1.StatefulSet{ObjectMeta: named(ns, "x"), Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}, create)
	_, err4 := kube.AppsV1().DaemonSets(ns).Create(ctx, &appsv1.DaemonSet{ObjectMeta: named(ns, "x"), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, create)
	_, err5 := kube.BatchV1().Jobs(ns).Create(ctx, &batchv1.Job{ObjectMeta: named(ns, "x"), Spec: batchv1.JobSpec{Template: job}}, create)
	_, err6 := kube.BatchV1().CronJobs(ns).Create(ctx, &batchv1.CronJob{ObjectMeta: named(ns, "x"), Spec: batchv1.CronJobSpec{
		Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: job}},
	}}, create)
	_, err7 := kube.CoreV1().ReplicationControllers(ns).Create(ctx, &corev1.ReplicationController{ObjectMeta: named(ns, "x"), Spec: corev1.ReplicationControllerSpec{Selector: labels, Template: &template}}, create)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}

	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	want := []string{"CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"}
	eventually(t, fmt.Sprint("the image is used by ", want), func() bool {
		var kinds []string
		for _, u := range consumersOf(t, c, ns, image) {
			kinds = append(kinds, u.Kind)
		}
		return slices.Equal(kinds, want)
	})
}

// A told is one call of OnPullSecret.
type told struct {
	data string
	err  error
}

func TestInventoryFollowsThePullSecret(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	calls := make(chan told, 10)
	c := running(t, cfg, Options{OnPullSecret: func(data []byte, err error) { calls <- told{string(data), err} }})

	wantError := func(reason, text string) {
		t.Helper()
		if call := next(t, "a call of OnPullSecret", calls); call.err == nil || call.err.Error() != text || call.data != "" {
			t.Errorf("%s: told %q, %v, want the error %q", reason, call.data, call.err, text)
		}
	}
	wantData := func(reason, data string) {
		t.Helper()
		if call := next(t, "a call of OnPullSecret", calls); call != (told{data: data}) {
			t.Errorf("%s: told %q, %v, want %q", reason, call.data, call.err, data)
		}
	}

	const missing = "reading secret openshift-config/pull-secret: there is no such secret"
	wantError("at start", missing)
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatalf("a missing pull secret is no obstacle: %v", err)
	}

	namespace(t, kube, "openshift-config")
	secrets := kube.CoreV1().Secrets("openshift-config")
	secret := &corev1.Secret{
		ObjectMeta: named("openshift-config", "pull-secret"),
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"a":{}}}`)},
	}
	put := func(reason string, change func()) {
		t.Helper()
		change()
		if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
	}
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: named("openshift-config", "other")}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantData("it appears, and the other secret is never told", `{"auths":{"a":{}}}`)

	put("a label is no news", func() { secret.Labels = map[string]string{"x": "y"} })
	put("a new password is", func() { secret.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{"b":{}}}`) })
	wantData("it is rotated", `{"auths":{"b":{}}}`)

	if err := secrets.Delete(t.Context(), "pull-secret", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantError("it is deleted", missing)

	secret = &corev1.Secret{ObjectMeta: named("openshift-config", "pull-secret"), Data: map[string][]byte{"password": []byte("x")}}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantError("one of another type", "secret openshift-config/pull-secret has no .dockerconfigjson")
}

func TestInventoryReadsMirrorsLive(t *testing.T) {
	cfg := fromAPIServer(t)
	c, err := New(cfg, Options{}) // not running: there is no cache to fill
	if err != nil {
		t.Fatal(err)
	}
	set, err := c.Mirrors(t.Context())
	if err != nil {
		t.Fatalf("a cluster without the CRDs has no mirrors: %v", err)
	}
	if diff := cmp.Diff(mirrors.Set{Objects: []mirrors.Object{}}, set); diff != "" {
		t.Errorf("without CRDs: -want +got:\n%s", diff)
	}

	install(t, cfg, mirrorCRDs...)
	dyn := dynamic.NewForConfigOrDie(cfg)
	const count = follow.DefaultPageSize + 1 // a second page
	for i := range count {
		create(t, dyn, "config.openshift.io/v1", "ImageTagMirrorSet", "imagetagmirrorsets", fmt.Sprintf("set-%04d", i), map[string]any{
			"imageTagMirrors": []any{map[string]any{"source": fmt.Sprintf("quay.io/n%d", i), "mirrors": []any{"mirror.example.com/n"}}},
		})
	}
	create(t, dyn, "config.openshift.io/v1", "ImageDigestMirrorSet", "imagedigestmirrorsets", "digests", map[string]any{
		"imageDigestMirrors": []any{map[string]any{"source": "quay.io", "mirrors": []any{"mirror.example.com"}, "mirrorSourcePolicy": "NeverContactSource"}},
	})
	create(t, dyn, "operator.openshift.io/v1alpha1", "ImageContentSourcePolicy", "imagecontentsourcepolicies", "legacy", map[string]any{
		"repositoryDigestMirrors": []any{map[string]any{"source": "quay.io/old", "mirrors": []any{"mirror.example.com/old"}}},
	})
	create(t, dyn, "config.openshift.io/v1", "Image", "images", "cluster", map[string]any{
		"registrySources": map[string]any{"insecureRegistries": []any{"mirror.example.com"}},
	})

	set, err = c.Mirrors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	entries := set.Entries()
	if len(entries) != count+2 {
		t.Fatalf("%d entries, want %d", len(entries), count+2)
	}
	last := entries[count:]
	if got := mirrors.NameOf(last[0].Object); got != "ImageDigestMirrorSet digests" || last[0].Policy != configv1.NeverContactSource {
		t.Errorf("got %s with policy %q, want ImageDigestMirrorSet digests with NeverContactSource", got, last[0].Policy)
	}
	if got := mirrors.NameOf(last[1].Object); got != "ImageContentSourcePolicy legacy" {
		t.Errorf("got %s, want ImageContentSourcePolicy legacy", got)
	}
	if diff := cmp.Diff([]string{"mirror.example.com"}, set.Registries.InsecureRegistries); diff != "" {
		t.Errorf("insecure registries: -want +got:\n%s", diff)
	}

	create(t, dyn, "config.openshift.io/v1", "ImageTagMirrorSet", "imagetagmirrorsets", "new", map[string]any{})
	again, err := c.Mirrors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(again.Objects), len(set.Objects)+1; got != want {
		t.Errorf("%d objects right after one more was made, want %d", got, want)
	}
	t.Run("one by one", func(t *testing.T) { testStored(t, cfg, again) })
	t.Run("what nodes have", func(t *testing.T) { testApplied(t, cfg, dyn) })
}

// testStored: what was stored of some objects is as it is in the whole, be it read without the right to
// read them one by one, or be there many of them.
func testStored(t *testing.T, cfg *rest.Config, whole mirrors.Set) {
	named := func(names ...string) (edits []mirrors.Edit, set mirrors.Set) {
		for _, o := range whole.Objects {
			if slices.Contains(names, mirrors.NameOf(o)) {
				edits, set = append(edits, mirrors.Put(o)), mirrors.Put(o).Apply(set)
			}
		}
		return edits, set
	}
	some, want := named("ImageTagMirrorSet set-0007", "ImageTagMirrorSet new", "ImageDigestMirrorSet digests", "ImageContentSourcePolicy legacy")
	gone := &configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
	some = append(some, mirrors.Delete(gone), some[0], mirrors.Put(&configv1.Image{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}))
	want.Registries = whole.Registries
	var many []mirrors.Edit
	for _, o := range whole.Objects {
		many = append(many, mirrors.Put(o))
	}
	c, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	lists, err := New(as(t, kubernetes.NewForConfigOrDie(cfg), cfg, "lists", []rbacv1.PolicyRule{
		{APIGroups: []string{"config.openshift.io", "operator.openshift.io", "machineconfiguration.openshift.io"}, Resources: []string{"*"}, Verbs: []string{"list"}},
		{APIGroups: []string{"config.openshift.io"}, Resources: []string{"images", "featuregates"}, Verbs: []string{"get"}},
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		reason string
		c      *Inventory
		edits  []mirrors.Edit
		want   mirrors.Set
	}{
		{"one by one", c, some, want},
		{"only lists are permitted", lists, some, whole},
		{"many", c, many, whole},
	} {
		got, err := tt.c.Stored(t.Context(), tt.edits)
		if err != nil || !got.Equal(tt.want) {
			t.Errorf("%s: %v, %d objects, want %d", tt.reason, err, len(got.Objects), len(tt.want.Objects))
		}
		if got.Holds(mirrors.Put(gone)) || !got.Holds(mirrors.Delete(gone)) {
			t.Errorf("%s: what is gone is there", tt.reason)
		}
	}
}

// What nodes have is read where MCO rejects the objects in force, and nowhere else.
func testApplied(t *testing.T, cfg *rest.Config, dyn dynamic.Interface) {
	install(t, cfg, "machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfigs.crd.yaml")
	set := func(kind, resource, field, policy string) {
		create(t, dyn, "config.openshift.io/v1", kind, resource, "shop", map[string]any{
			field: []any{map[string]any{"source": "quay.io/shop", "mirrors": []any{"mirror.example.com/shop"}, "mirrorSourcePolicy": policy}},
		})
	}
	c, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := New(as(t, kubernetes.NewForConfigOrDie(cfg), cfg, "mirrors-alone", []rbacv1.PolicyRule{
		{APIGroups: []string{"config.openshift.io", "operator.openshift.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := func(why string, c *Inventory, conf string, notes ...string) {
		t.Helper()
		set, err := c.Mirrors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if set.Applied != nil {
			got = string(set.Applied.Files[mirrors.RegistriesConfPath])
		}
		if got != conf {
			t.Errorf("%s: nodes have %q, want %q", why, got, conf)
		}
		var of []string
		for _, n := range c.Notes() {
			if strings.Contains(n, "what nodes have") {
				of = append(of, n)
			}
		}
		if diff := cmp.Diff(notes, of); diff != "" {
			t.Errorf("%s: notes -want +got:\n%s", why, diff)
		}
	}
	const conf = "# what MCO wrote"
	data, err := json.Marshal(objects.EncodeApplied(mirrors.Applied{Files: map[string][]byte{mirrors.RegistriesConfPath: []byte(conf)}}))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}

	set("ImageTagMirrorSet", "imagetagmirrorsets", "imageTagMirrors", "NeverContactSource")
	create(t, dyn, "machineconfiguration.openshift.io/v1", "MachineConfig", "machineconfigs", mirrors.GeneratedRegistries, config["spec"].(map[string]any))
	want("valid objects say what nodes have", c, "")
	want("so that nothing more has to be readable", reader, "")

	set("ImageDigestMirrorSet", "imagedigestmirrorsets", "imageDigestMirrors", "AllowContactingSource")
	want("MCO rejects a conflict", c, conf)
	want("the same again", c, conf)
	want("it may not be read", reader, "", "what nodes have is not known: reading MachineConfig 99-worker-generated-registries: "+
		`machineconfigs.machineconfiguration.openshift.io "99-worker-generated-registries" is forbidden: User "mirrors-alone" cannot get resource "machineconfigs" in API group "machineconfiguration.openshift.io" at the cluster scope`)

	if err := dyn.Resource(resourceOf("machineconfiguration.openshift.io", "v1", "machineconfigs")).Delete(t.Context(), mirrors.GeneratedRegistries, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("MCO never wrote it", c, "")

	if err := dyn.Resource(resourceOf("config.openshift.io", "v1", "imagedigestmirrorsets")).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("the conflict is mended, and the note goes", reader, "")

	laid := mirrors.File{MachineConfig: "50-lab", Role: "worker", Path: "/etc/containers/registries.conf.d/50-lab.conf", Contents: []byte("# lab")}
	data, err = json.Marshal(objects.EncodeFiles([]mirrors.File{laid}))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetAPIVersion("machineconfiguration.openshift.io/v1")
	object.SetKind("MachineConfig")
	if _, err := dyn.Resource(resourceOf("machineconfiguration.openshift.io", "v1", "machineconfigs")).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * filesPage { // more than a page without any
		create(t, dyn, "machineconfiguration.openshift.io/v1", "MachineConfig", "machineconfigs", fmt.Sprintf("60-%02d", i), config["spec"].(map[string]any))
	}
	wantFiles := func(why string, c *Inventory, want ...mirrors.File) {
		t.Helper()
		set, err := c.Mirrors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(set.Files, func(f mirrors.File) bool { return f.MachineConfig != "50-lab" })
		if diff := cmp.Diff(want, slices.Clip(got), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: files -want +got:\n%s", why, diff)
		}
	}
	wantFiles("nothing is followed", c, laid)
	follower := running(t, cfg, Options{})
	if err := follower.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	wantFiles("what is followed", follower, laid)
	wantFiles("they may not be read", reader)
	if notes := strings.Join(reader.Notes(), "\n"); !strings.Contains(notes, "registries.conf files of MachineConfigs are not known: reading MachineConfigs: ") {
		t.Errorf("notes %s", notes)
	}
}

var mirrorCRDs = []string{
	"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagetagmirrorsets.crd.yaml",
	"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagedigestmirrorsets.crd.yaml",
	"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_images.crd.yaml",
	"operator/v1alpha1/zz_generated.crd-manifests/0000_10_config-operator_01_imagecontentsourcepolicies.crd.yaml",
}

// create makes a cluster-scoped custom resource.
func create(t *testing.T, dyn dynamic.Interface, apiVersion, kind, resource, name string, spec map[string]any) {
	t.Helper()
	createWith(t, dyn, apiVersion, kind, resource, name, map[string]any{"spec": spec})
}

// createWith creates a cluster-scoped object with fields.
func createWith(t *testing.T, dyn dynamic.Interface, apiVersion, kind, resource, name string, fields map[string]any) {
	t.Helper()
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name},
	}}
	maps.Copy(o.Object, fields)
	if _, err := dyn.Resource(gv.WithResource(resource)).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A user that may not list one resource gets no inventory that lacks it.
func TestInventoryNamesWhatItMayNotRead(t *testing.T) {
	cfg := fromAPIServer(t)
	admin := kubernetes.NewForConfigOrDie(cfg)
	reads := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "replicationcontrollers"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"apps"}, Resources: []string{"*"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"batch"}, Resources: []string{"cronjobs"}, Verbs: []string{"list", "watch"}},
	}
	secret := make(chan error, 10)
	c := running(t, as(t, admin, cfg, "no-jobs", reads), Options{ForbiddenAfter: time.Millisecond, OnPullSecret: func(_ []byte, err error) { secret <- err }})

	const forbidden = `jobs.batch not read: jobs.batch is forbidden: User "no-jobs" cannot list resource "jobs"`
	eventually(t, "all but the jobs are read, and why they are not is known", func() bool {
		err := c.Ready()
		return err != nil && strings.HasPrefix(err.Error(), "the inventory is not complete: "+forbidden) && !strings.Contains(err.Error(), ";")
	})
	if _, err := c.Images(t.Context()); err == nil {
		t.Error("Images() returned half an inventory")
	}
	if notes := c.Notes(); len(notes) == 0 || !strings.HasPrefix(notes[0], "jobs.batch could not be read: ") {
		t.Errorf("Notes() = %q, want one on jobs.batch", notes)
	}
	if err := <-secret; err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("OnPullSecret was told %v, want that it is forbidden", err)
	}
	if _, err := c.Mirrors(t.Context()); !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), "reading /apis/") {
		t.Errorf("Mirrors() = %v, want that it is forbidden", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.WaitReady(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), forbidden) {
		t.Errorf("WaitReady() = %v, want both that it was cancelled and why it waited", err)
	}
}

// The rules that Rules returns are enough. That none is idle follows from their
// being made from the sources.
func TestInventoryNeedsNoMoreThanItsRules(t *testing.T) {
	cfg := fromAPIServer(t)
	admin := kubernetes.NewForConfigOrDie(cfg)
	c, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c = running(t, as(t, admin, cfg, "guard", c.Rules()), Options{})
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Mirrors(t.Context()); err != nil {
		t.Error(err)
	}
	for _, s := range c.Sources() {
		if apierrors.IsForbidden(s.Lacking) {
			t.Errorf("%s: %v", s.Name, s.Lacking)
		}
	}
	if notes := c.Notes(); len(notes) != 0 {
		t.Errorf("Notes() = %q, want none", notes)
	}
}

// What a cluster may do without is not waited for, but its absence is said.
func TestInventorySaysWhatItMayNotRead(t *testing.T) {
	cfg := fromAPIServer(t)
	reads := []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps", "batch"}, Resources: []string{"*"}, Verbs: []string{"list", "watch"}},
	}
	c := running(t, as(t, kubernetes.NewForConfigOrDie(cfg), cfg, "no-custom", reads), Options{ForbiddenAfter: time.Second})
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	want := []string{"no permission to read poddisruptionbudgets.policy; what is there is unknown"} // the others are not served
	if diff := cmp.Diff(want, c.Notes()); diff != "" {
		t.Errorf("Notes() -want +got:\n%s", diff)
	}
}

// A turnLog holds the log lines on CatalogSources.
type turnLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *turnLog) add(_, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text, _, ok := strings.Cut(line, ` "source"="catalogsources.operators.coreos.com"`); ok {
		l.lines = append(l.lines, text)
	}
}

func (l *turnLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

func TestInventoryPicksUpWhatAppears(t *testing.T) {
	cfg := fromAPIServer(t)
	var turns turnLog
	c := impatient(t, cfg, Options{Logger: funcr.New(turns.add, funcr.Options{})})
	status := func() follow.Status {
		i := slices.IndexFunc(c.Sources(), func(s follow.Status) bool { return s.Name == "catalogsources.operators.coreos.com" })
		return c.Sources()[i]
	}
	if s := status(); !apierrors.IsNotFound(s.Lacking) || !s.Synced {
		t.Errorf("before: %+v, want synced and lacking", s)
	}

	crds := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{
		looseCRD("operators.coreos.com", "CatalogSource", "catalogsources", "v1alpha1"),
	}}
	if err := cluster.InstallCRDs(cfg, crds); err != nil {
		t.Fatal(err)
	}
	removed := false
	remove := func() {
		if !removed {
			removed = true
			if err := cluster.UninstallCRDs(cfg, crds); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(remove)
	create(t, dynamic.NewForConfigOrDie(cfg), "operators.coreos.com/v1alpha1", "CatalogSource", "catalogsources", "community",
		map[string]any{"image": "quay.io/catalog:v4"})
	const image = "quay.io/catalog:v4"
	eventually(t, "the image of a kind that has appeared is there, without a complaint", func() bool {
		s := status()
		return len(consumersOf(t, c, "", image)) == 1 && s.Lacking == nil && s.Err == nil
	})

	remove()
	eventually(t, "the image of a kind that has vanished is gone", func() bool { return len(consumersOf(t, c, "", image)) == 0 })
	eventually(t, "and the kind is lacking", func() bool { return apierrors.IsNotFound(status().Lacking) })
	want := []string{`"level"=0 "msg"="Source is served now"`, `"level"=0 "msg"="Source is gone, with the images that it named"`}
	eventually(t, "both turns are logged", func() bool { return len(turns.all()) >= len(want) })
	if diff := cmp.Diff(want, turns.all()); diff != "" {
		t.Errorf("logged -want +got:\n%s", diff)
	}
}

func TestInventoryKnowsNodesPoolsAndBudgets(t *testing.T) {
	cfg := fromAPIServer(t)
	install(t, cfg, "machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfigpools-SelfManagedHA.crd.yaml")
	kube := kubernetes.NewForConfigOrDie(cfg)
	const ns = "budgets"
	namespace(t, kube, ns)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        "worker-0",
		Labels:      map[string]string{"node-role.kubernetes.io/worker": ""},
		Annotations: map[string]string{"machineconfiguration.openshift.io/state": "Done", "other": "x"},
	}}
	node, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	node.Status.NodeInfo.Architecture = "arm64"
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"quay.io/x:1"}, SizeBytes: 1}}
	if _, err := kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: named(ns, "router"), Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1))}}
	if _, err := kube.PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, dynamic.NewForConfigOrDie(cfg), "machineconfiguration.openshift.io/v1", "MachineConfigPool", "machineconfigpools", "worker",
		map[string]any{"paused": true, "maxUnavailable": "25%"})

	c := running(t, cfg, Options{})
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	nodes := c.Nodes()
	if len(nodes) != 1 || nodes[0].Annotations["machineconfiguration.openshift.io/state"] != "Done" || len(nodes[0].Annotations) != 1 ||
		len(nodes[0].Status.Images) != 1 || nodes[0].Status.Images[0].SizeBytes != 0 || nodes[0].ManagedFields != nil || nodes[0].CreationTimestamp.IsZero() {
		t.Errorf("Nodes() = %v, want worker-0, trimmed", nodes)
	}
	if diff := cmp.Diff([]string{"linux/arm64"}, policy.PlatformsOf(c.Nodes())); diff != "" {
		t.Errorf("NodePlatforms() -want +got:\n%s", diff)
	}
	if pools := c.RolloutObjects().Pools; len(pools) != 1 || !pools[0].Spec.Paused || pools[0].Spec.MaxUnavailable.String() != "25%" {
		t.Errorf("Pools() = %v, want worker, paused, at 25%%", pools)
	}
	if budgets := c.RolloutObjects().Budgets; len(budgets) != 1 || budgets[0].Name != "router" || budgets[0].Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("DisruptionBudgets() = %v, want router with 1", budgets)
	}
}

// as returns cfg for a user who may do what rules say and nothing else.
func as(t *testing.T, admin kubernetes.Interface, cfg *rest.Config, name string, rules []rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.AwaitRights(t.Context(), cfg, name, "", rules); err != nil {
		t.Fatal(err)
	}
	user := rest.CopyConfig(cfg)
	user.Impersonate = rest.ImpersonationConfig{UserName: name}
	return user
}

// setRules replaces what a user of as may do, and waits until the API server knows
// whether that includes listing a resource.
func setRules(t *testing.T, cfg *rest.Config, user string, rules []rbacv1.PolicyRule, group, resource string, granted bool) {
	t.Helper()
	admin := kubernetes.NewForConfigOrDie(cfg)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	if _, err := admin.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await := cluster.AwaitRefusal
	if granted {
		await = cluster.AwaitRight
	}
	right := authorizationv1.ResourceAttributes{Verb: "list", Group: group, Resource: resource}
	if err := await(t.Context(), cfg, user, right); err != nil {
		t.Fatal(err)
	}
}

// A role is taken away from a guard that runs, and given back. An administrator who
// applies manifests anew does so, and so does an API server that is starting.
func TestInventoryKeepsWhatItMayNotReadForAMoment(t *testing.T) {
	cfg := fromAPIServer(t)
	const group, image, user = "olm.operatorframework.io", "quay.io/catalog:forbidden", "for-a-moment"
	installLoose(t, cfg, group, "ClusterCatalog", "clustercatalogs", "v1")
	dyn := dynamic.NewForConfigOrDie(cfg)
	create(t, dyn, group+"/v1", "ClusterCatalog", "clustercatalogs", user, map[string]any{"source": map[string]any{"image": map[string]any{"ref": image}}})
	kube := kubernetes.NewForConfigOrDie(cfg)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: user}}
	if _, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), user, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})

	all, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rules := all.Rules()
	w := wired(t, as(t, kube, cfg, user, rules))
	c := running(t, w.Config, Options{ForbiddenAfter: time.Millisecond})
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	known := func() bool {
		return len(consumersOf(t, c, "", image)) == 1 && slices.ContainsFunc(c.Nodes(), func(n *corev1.Node) bool { return n.Name == user })
	}
	if !known() {
		t.Fatal("the image and the node are not known")
	}

	var less []rbacv1.PolicyRule
	for _, r := range rules {
		if !slices.Contains(r.Resources, "clustercatalogs") && !slices.Contains(r.Resources, "nodes") {
			less = append(less, r)
		}
	}
	setRules(t, cfg, user, less, group, "clustercatalogs", false)
	w.Cut() // ends the watches, which were granted
	w.Mend()
	eventually(t, "there is a gap that says for how long", func() bool {
		return slices.ContainsFunc(c.Gaps(), func(g policy.Gap) bool {
			return g.Kind == "ClusterCatalog" && strings.HasPrefix(g.Detail, "out of reach for ") && strings.Contains(g.Detail, "forbidden")
		})
	})
	eventually(t, "a note names the nodes", func() bool {
		return slices.ContainsFunc(c.Notes(), func(n string) bool { return strings.Contains(n, "nodes") || strings.Contains(n, "more") })
	})
	if !known() {
		t.Error("what was known is forgotten because it may not be read")
	}

	setRules(t, cfg, user, rules, group, "clustercatalogs", true)
	eventually(t, "all is well again", func() bool { return len(c.Gaps()) == 0 && len(c.Notes()) == 0 })
	if !known() {
		t.Error("what was known is gone after the right has come back")
	}
}

// The right comes while the guard starts: it waits instead of starting without.
func TestInventoryWaitsForARightThatComes(t *testing.T) {
	cfg := fromAPIServer(t)
	const group, image, user = "hypershift.openshift.io", "quay.io/release:late", "late-right"
	installLoose(t, cfg, group, "NodePool", "nodepools", "v1beta1")
	create(t, dynamic.NewForConfigOrDie(cfg), group+"/v1beta1", "NodePool", "nodepools", user, map[string]any{"release": map[string]any{"image": image}})
	all, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rules := all.Rules()
	less := slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return r.APIGroups[0] == group })
	c := running(t, as(t, kubernetes.NewForConfigOrDie(cfg), cfg, user, less), Options{ForbiddenAfter: time.Hour})
	eventually(t, "only what is refused is waited for", func() bool {
		err := c.Ready()
		return err != nil && strings.HasPrefix(err.Error(), "the inventory is not complete: nodepools.hypershift.openshift.io not read: ") &&
			!strings.Contains(err.Error(), "; ")
	})
	setRules(t, cfg, user, rules, group, "nodepools", true)
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if users := consumersOf(t, c, "", image); len(users) != 1 {
		t.Errorf("users %v, want the NodePool", users)
	}
}
