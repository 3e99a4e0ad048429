//go:build integration

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// podNamed returns the pod of a name in what a rollout goes through, nil if there is none.
func podNamed(c *Inventory, namespace, name string) *rollout.Pod {
	pods := c.Rollout().Pods
	i := slices.IndexFunc(pods, func(p rollout.Pod) bool { return p.Namespace == namespace && p.Name == name })
	if i < 0 {
		return nil
	}
	return &pods[i]
}

// A pod goes through its life: it is made, bound, becomes ready, cannot pull, ends, is
// deleted.
func TestRolloutFollowsPods(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	const ns, name = "rollout", "web-0"
	namespace(t, kube, ns)
	c := running(t, cfg, Options{})
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	pods := kube.CoreV1().Pods(ns)
	pod := &corev1.Pod{ObjectMeta: named(ns, name), Spec: containers("quay.io/web:latest")}
	pod.Labels = map[string]string{"app": "web"}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "1", Controller: new(true)}}
	pod, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new pod is known", func() bool { return podNamed(c, ns, name) != nil })
	got := podNamed(c, ns, name)
	want := &rollout.Pod{
		Namespace: ns, Name: name, Owner: rollout.Owner{Kind: "StatefulSet", Name: "web"}, Created: pod.CreationTimestamp.UTC(), Spec: got.Spec,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if s := got.Spec; s.Containers[0].Pull != corev1.PullAlways || s.Labels["app"] != "web" || s.GracePeriod != 30*time.Second || !s.Preempts || s.Scheduler != "" {
		t.Errorf("spec %+v", s)
	}

	binding := &corev1.Binding{ObjectMeta: named(ns, name), Target: corev1.ObjectReference{Kind: "Node", Name: "worker-7"}}
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is bound", func() bool { return podNamed(c, ns, name).Node == "worker-7" })

	status := func(what string, s corev1.PodStatus, is func(*rollout.Pod) bool) {
		t.Helper()
		pod.Status = s
		pod.ResourceVersion = ""
		if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, what, func() bool { return is(podNamed(c, ns, name)) })
	}
	pod, err = pods.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status("it cannot pull", corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "a", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
	}}}, func(p *rollout.Pod) bool { return p.Failing == "ImagePullBackOff" && !p.Started })
	status("it is ready", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		func(p *rollout.Pod) bool { return p.Ready && p.Started && p.Failing == "" })
	before := c.Rollout().Pods
	status("it has ended", corev1.PodStatus{Phase: corev1.PodFailed}, func(p *rollout.Pod) bool { return p == nil })
	if !slices.ContainsFunc(before, func(p rollout.Pod) bool { return p.Namespace == ns && p.Name == name && p.Ready }) {
		t.Error("what was handed out has changed")
	}
	if users := consumersOf(t, c, ns, "quay.io/web:latest"); len(users) != 1 || users[0].Use != policy.History {
		t.Errorf("its image is used by %v, want the pod, as history", users)
	}

	other := &corev1.Pod{ObjectMeta: named(ns, "other"), Spec: containers("quay.io/web:1")}
	other.Finalizers = []string{"example.com/wait"}
	if _, err := pods.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "other", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another is being deleted", func() bool { p := podNamed(c, ns, "other"); return p != nil && p.Deleted })
	if _, err := pods.Patch(t.Context(), "other", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "and is gone", func() bool { return podNamed(c, ns, "other") == nil })
}

const storageGather = "quay.io/storage/gather:v4"

// fillRollout makes objects of all kinds that a rollout depends on.
func fillRollout(t *testing.T, cfg *rest.Config, ns string) {
	t.Helper()
	kube, dyn := kubernetes.NewForConfigOrDie(cfg), dynamic.NewForConfigOrDie(cfg)
	installLoose(t, cfg, "machineconfiguration.openshift.io", "MachineConfigPool", "machineconfigpools", "v1")
	installLoose(t, cfg, "machineconfiguration.openshift.io", "MachineConfigNode", "machineconfignodes", "v1alpha1") // as before 4.19
	installLoose(t, cfg, "machineconfiguration.openshift.io", "MachineConfig", "machineconfigs", "v1")
	installLoose(t, cfg, "machineconfiguration.openshift.io", "ControllerConfig", "controllerconfigs", "v1")
	installLoose(t, cfg, "config.openshift.io", "Infrastructure", "infrastructures", "v1")
	installLoose(t, cfg, "config.openshift.io", "ClusterOperator", "clusteroperators", "v1")
	installLoose(t, cfg, "config.openshift.io", "ClusterVersion", "clusterversions", "v1")
	installLoose(t, cfg, "operator.openshift.io", "MachineConfiguration", "machineconfigurations", "v1")
	create(t, dyn, "machineconfiguration.openshift.io/v1", "MachineConfigPool", "machineconfigpools", "worker", map[string]any{"maxUnavailable": "10%", "paused": true})
	create(t, dyn, "operator.openshift.io/v1", "MachineConfiguration", "machineconfigurations", "cluster", map[string]any{})
	status := func(apiVersion, kind, resource, name string, spec, status map[string]any) {
		t.Helper()
		createWith(t, dyn, apiVersion, kind, resource, name, map[string]any{"spec": spec, "status": status})
	}
	const config, then = "config.openshift.io/v1", "2026-03-01T12:00:00Z"
	status(config, "Infrastructure", "infrastructures", "cluster", nil, map[string]any{"controlPlaneTopology": "HighlyAvailable"})
	status(config, "Infrastructure", "infrastructures", "other", nil, map[string]any{"controlPlaneTopology": "SingleReplica"})
	status(config, "ClusterOperator", "clusteroperators", "machine-config", nil, map[string]any{"conditions": []any{
		map[string]any{"type": "Degraded", "status": "True", "reason": "RequiredPoolsFailed", "message": "a long story", "lastTransitionTime": then},
	}})
	createWith(t, dyn, config, "ClusterOperator", "clusteroperators", "", map[string]any{"metadata": map[string]any{
		"name": "storage", "annotations": map[string]any{policy.MustGatherAnnotation: storageGather},
	}})
	status(config, "ClusterVersion", "clusterversions", "version", nil, map[string]any{"desired": map[string]any{"version": "4.18.1"}})
	status("machineconfiguration.openshift.io/v1", "ControllerConfig", "controllerconfigs", "machine-config-controller", nil, map[string]any{"controllerCertificates": []any{
		map[string]any{"subject": "CN=other", "notAfter": then},
		map[string]any{"subject": "CN=openshift-kube-apiserver-operator_kube-apiserver-to-kubelet-signer@1", "notBefore": then, "notAfter": then},
	}})
	status("machineconfiguration.openshift.io/v1alpha1", "MachineConfigNode", "machineconfignodes", "rollout-0",
		map[string]any{"node": map[string]any{"name": "rollout-0"}, "pool": map[string]any{"name": "worker"}, "configVersion": map[string]any{"desired": "rendered-2"}},
		map[string]any{"conditions": []any{
			map[string]any{"type": "UpdatePrepared", "status": "False", "reason": "UpdatePrepared", "message": "Drain Required: true", "lastTransitionTime": then},
			map[string]any{"type": "Updated", "status": "True", "reason": "Updated", "message": "", "lastTransitionTime": then},
		}})

	ctx, options := t.Context(), metav1.CreateOptions{}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "x"}}}
	_, err := kube.CoreV1().Namespaces().Create(ctx, space, options)
	check(err)
	mco := workloads.DrainOverride.Namespace
	_, err = kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mco}}, options)
	check(err)
	_, err = kube.CoreV1().ConfigMaps(mco).Create(ctx, &corev1.ConfigMap{ObjectMeta: named(mco, workloads.DrainOverride.Name)}, options)
	check(err)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rollout-0"}}
	node, err = kube.CoreV1().Nodes().Create(ctx, node, options)
	check(err)
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3500m")}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"quay.io/a:1"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}}
	_, err = kube.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	check(err)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: ns + "-data"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
		ClaimRef:               &corev1.ObjectReference{Namespace: ns, Name: "data"},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"rollout-0"}}},
		}}}},
	}}
	_, err = kube.CoreV1().PersistentVolumes().Create(ctx, volume, options)
	check(err)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: named(ns, "web"), Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
	_, err = kube.PolicyV1().PodDisruptionBudgets(ns).Create(ctx, budget, options)
	check(err)
	quota := &corev1.ResourceQuota{ObjectMeta: named(ns, "small"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("7")}}}
	quota, err = kube.CoreV1().ResourceQuotas(ns).Create(ctx, quota, options)
	check(err)
	quota.Status.Used, quota.Status.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}, quota.Spec.Hard
	_, err = kube.CoreV1().ResourceQuotas(ns).UpdateStatus(ctx, quota, metav1.UpdateOptions{})
	check(err)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: containers("quay.io/web:1")}
	replicas := &appsv1.ReplicaSet{ObjectMeta: named(ns, "web"), Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
	}}
	replicas, err = kube.AppsV1().ReplicaSets(ns).Create(ctx, replicas, options)
	check(err)
	replicas.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota"}}
	_, err = kube.AppsV1().ReplicaSets(ns).UpdateStatus(ctx, replicas, metav1.UpdateOptions{})
	check(err)
	set := &appsv1.StatefulSet{ObjectMeta: named(ns, "db"), Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(0)), PodManagementPolicy: appsv1.ParallelPodManagement, Ordinals: &appsv1.StatefulSetOrdinals{Start: 5},
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}}, Spec: containers("quay.io/db:1")},
	}}
	set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Store", Name: "db", UID: "1"}}
	_, err = kube.AppsV1().StatefulSets(ns).Create(ctx, set, options)
	check(err)
	for _, name := range []string{"web-0", "web-1"} {
		pod := &corev1.Pod{ObjectMeta: named(ns, name), Spec: containers("quay.io/web:1", "quay.io/proxy")}
		pod.Labels = map[string]string{"app": "web"}
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.25"), corev1.ResourceMemory: resource.MustParse("2048Mi")}
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "TOKEN", Value: "canary"}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		_, err = kube.CoreV1().Pods(ns).Create(ctx, pod, options)
		check(err)
	}
	operator := &corev1.Pod{ObjectMeta: named(mco, "machine-config-operator-1"), Spec: containers("quay.io/mco:1")}
	operator.Labels, operator.Spec.NodeName = map[string]string{"k8s-app": "machine-config-operator"}, "rollout-0"
	_, err = kube.CoreV1().Pods(mco).Create(ctx, operator, options)
	check(err)

	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		check(kube.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}))
		check(kube.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{}))
		check(kube.CoreV1().ConfigMaps(mco).Delete(ctx, workloads.DrainOverride.Name, metav1.DeleteOptions{}))
		check(kube.CoreV1().Pods(mco).Delete(ctx, operator.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	})
}

// dumped returns what "oc get -o json" would write of the resources of a rollout.
func dumped(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	dyn := dynamic.NewForConfigOrDie(cfg)
	var items []any
	for _, r := range []schema.GroupVersionResource{
		resourceOf("", "v1", "pods"), resourceOf("", "v1", "nodes"), resourceOf("", "v1", "namespaces"), resourceOf("", "v1", "persistentvolumes"), resourceOf("", "v1", "configmaps"),
		resourceOf("policy", "v1", "poddisruptionbudgets"), resourceOf("apps", "v1", "statefulsets"), resourceOf("apps", "v1", "replicasets"), resourceOf("", "v1", "resourcequotas"), poolResource,
		resourceOf("machineconfiguration.openshift.io", "v1alpha1", "machineconfignodes"),
		resourceOf("machineconfiguration.openshift.io", "v1", "machineconfigs"), resourceOf("machineconfiguration.openshift.io", "v1", "controllerconfigs"), resourceOf("config.openshift.io", "v1", "infrastructures"), resourceOf("config.openshift.io", "v1", "clusteroperators"), resourceOf("config.openshift.io", "v1", "clusterversions"),
		resourceOf("operator.openshift.io", "v1", "machineconfigurations"),
	} {
		list, err := dyn.Resource(r).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			items = append(items, list.Items[i].Object)
		}
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func inOrder(c rollout.Cluster) rollout.Cluster {
	c.Pods = slices.SortedFunc(slices.Values(c.Pods), func(a, b rollout.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return c
}

// A running cluster, its dump, and a snapshot of either say the same.
func TestRolloutEqualsItsDump(t *testing.T) {
	cfg := fromAPIServer(t)
	const ns = "rollout-dump"
	fillRollout(t, cfg, ns)
	c := impatient(t, cfg, Options{})
	live := inOrder(c.Rollout())
	if live.Topology != configv1.HighlyAvailableTopologyMode || !live.OverrideDrain || live.OperatorNode != "rollout-0" || live.Machines == nil ||
		live.Operator == nil || live.Operator.Name != "machine-config" || live.Operator.Status.Conditions[0].Message != "a long story" || len(live.Certificates) != 1 ||
		live.Namespaces[ns]["team"] != "a" || live.Volumes[ns+"/data"].Nodes == nil || len(live.Pools) != 1 || !hasController(live, rollout.Controller{Namespace: ns, Owner: rollout.Owner{Kind: "StatefulSet", Name: "db"}, Parallel: true, First: 5, Maker: "Store db", Template: []rollout.Container{{Name: "a", Image: "quay.io/db:1", Pull: corev1.PullIfNotPresent}}}) ||
		!hasController(live, rollout.Controller{Namespace: ns, Owner: rollout.Owner{Kind: "ReplicaSet", Name: "web"}, Failure: "exceeded quota"}) || len(live.Quotas) != 1 || len(live.Unknown) != 0 {
		t.Errorf("got %+v", live)
	}
	dump, err := snapshot.ReadFrom(strings.NewReader(dumped(t, cfg)), "dump")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(live, inOrder(dump.Rollout())); diff != "" {
		t.Errorf("-live +dump:\n%s", diff)
	}
	wantGather(t, c)
	wantGather(t, dump)
	for name, source := range map[string]snapshot.Source{"the cluster": c, "its dump": dump} {
		var out bytes.Buffer
		if err := snapshot.Write(t.Context(), &out, source, trust.Settings{}); err != nil {
			t.Fatal(err)
		}
		written, err := snapshot.ReadFrom(&out, "snapshot")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(live, inOrder(written.Rollout())); diff != "" {
			t.Errorf("of %s: -live +snapshot:\n%s", name, diff)
		}
		wantGather(t, written)
	}
	web0, web1 := podNamed(c, ns, "web-0"), podNamed(c, ns, "web-1")
	if web0.Spec != web1.Spec {
		t.Error("equal pods do not share their spec")
	}
}

// wantGather tests that the must-gather image that a ClusterOperator names is in the rescue set.
func wantGather(t *testing.T, source snapshot.Source) {
	t.Helper()
	images, err := source.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.Consumer{{Kind: "ClusterOperator", Name: "storage", Container: "annotation " + policy.MustGatherAnnotation, Use: policy.History}}
	for _, img := range images.ByReference() {
		if img.Ref == storageGather && img.IsRescue() && cmp.Equal(img.Consumers, want) {
			return
		}
	}
	t.Errorf("%s is not in the rescue set of %T", storageGather, source)
}

// What may not be read is unknown to a rollout, and otherwise does no harm.
func TestRolloutWithoutRights(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	all, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	lost := []string{workloads.Namespaces, workloads.Quotas, workloads.Volumes, workloads.Budgets, workloads.Operators, workloads.Infrastructures, "machineconfignodes"}
	var rules []rbacv1.PolicyRule
	for _, r := range all.Rules() {
		r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(name string) bool { return slices.Contains(lost, name) })
		if slices.Contains(r.ResourceNames, workloads.DrainOverride.Name) {
			continue
		}
		if len(r.Resources) > 0 {
			rules = append(rules, r)
		}
	}
	c := impatient(t, as(t, kube, cfg, "no-rollout", rules), Options{ForbiddenAfter: time.Second})
	if notes := c.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "no permission to read configmap openshift-machine-config-operator/"+workloads.DrainOverride.Name+", namespaces and 3 more;") {
		t.Errorf("what may not be read is not said: %q", notes)
	}
	// Nobody lacks clusteroperators and infrastructures, which this API server does not serve.
	want := []string{workloads.ConfigMaps, workloads.Namespaces, workloads.Volumes, workloads.Budgets, workloads.Quotas}
	if diff := cmp.Diff(want, c.Rollout().Unknown); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if c.Rollout().Namespaces != nil {
		t.Error("namespaces are known")
	}
	if gaps := c.Gaps(); len(gaps) != 0 {
		t.Errorf("gaps %v, want none", gaps)
	}
	if _, err := c.Images(t.Context()); err != nil {
		t.Errorf("images are not known: %v", err)
	}
}
