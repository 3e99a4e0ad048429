package workloads

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Nothing is known of a cluster of which there is nothing.
func TestClusterOfNothing(t *testing.T) {
	want := rollout.Cluster{Volumes: map[string]rollout.Volume{}}
	if diff := cmp.Diff(want, Objects{}.Cluster()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUnknownIsSorted(t *testing.T) {
	got := Objects{Unknown: []string{Volumes, Namespaces, Volumes}}.Cluster().Unknown
	if diff := cmp.Diff([]string{Namespaces, Volumes}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOperatorNode(t *testing.T) {
	operator := func(namespace, node string) rollout.Pod {
		return rollout.Pod{Namespace: namespace, Node: node, Spec: &rollout.PodSpec{Labels: map[string]string{"k8s-app": "machine-config-operator"}}}
	}
	other := rollout.Pod{Namespace: operatorNamespace, Node: "master-2", Spec: &rollout.PodSpec{Labels: map[string]string{"k8s-app": "machine-config-daemon"}}}
	for _, tt := range []struct {
		reason string
		pods   []rollout.Pod
		want   string
	}{
		{"no pods", nil, ""},
		{"its pod", []rollout.Pod{other, operator(operatorNamespace, "master-1"), other}, "master-1"},
		{"a pod that looks like it", []rollout.Pod{operator("shop", "worker-1"), operator(operatorNamespace, "master-1")}, "master-1"},
		{"two, while it moves: MCO does not choose either", []rollout.Pod{operator(operatorNamespace, "master-1"), operator(operatorNamespace, "master-2")}, ""},
	} {
		if got := (Objects{Pods: tt.pods}).Cluster().OperatorNode; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.reason, got, tt.want)
		}
	}
}

func TestDrainOverride(t *testing.T) {
	version := func(desired string, history ...configv1.UpdateHistory) *configv1.ClusterVersion {
		return &configv1.ClusterVersion{Status: configv1.ClusterVersionStatus{Desired: configv1.Release{Version: desired}, History: history}}
	}
	done := func(version string) configv1.UpdateHistory {
		return configv1.UpdateHistory{State: configv1.CompletedUpdate, Version: version}
	}
	partial := func(version string) configv1.UpdateHistory {
		return configv1.UpdateHistory{State: configv1.PartialUpdate, Version: version}
	}
	for _, tt := range []struct {
		reason  string
		version *configv1.ClusterVersion
		want    bool
	}{
		{"of an unknown version", nil, false},
		{"of a version that says nothing", version("next"), false},
		{"before 4.14", version("4.13.9"), false},
		{"4.14", version("4.14.0-rc.1"), true},
		{"4.19", version("4.19.20", done("4.19.20"), done("4.13.1")), true},
		{"4.20", version("4.20.0"), false},
		{"5.15", version("5.15.0"), false},
		{"on the way to 4.20", version("4.20.0", partial("4.20.0"), done("4.19.3")), false},
		{"on the way from 4.13", version("4.14.3", partial("4.14.3"), done("4.13.9")), false},
		{"on the way within", version("4.15.3", partial("4.15.3"), done("4.14.9")), true},
	} {
		if got := (Objects{DrainOverride: true, Version: tt.version}).Cluster().OverrideDrain; got != tt.want {
			t.Errorf("%s: %t, want %t", tt.reason, got, tt.want)
		}
		for _, o := range []Objects{{}, {DrainOverride: true, Unknown: []string{ConfigMaps}}, {DrainOverride: true, Unknown: []string{Versions}}} {
			if o.Version = tt.version; o.Cluster().OverrideDrain {
				t.Errorf("%s: heeded, and not there, or not known to be (%q)", tt.reason, o.Unknown)
			}
		}
	}
}

func TestNamespacesAndVolumes(t *testing.T) {
	namespaced := func(name string, set map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}}
	}
	on := func(node string) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}
	}
	volume := func(claim string, affinity *corev1.VolumeNodeAffinity, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: affinity}, Status: corev1.PersistentVolumeStatus{Phase: phase}}
		if claim != "" {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: claim}
		}
		return v
	}
	garbage := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{}, {MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "!", Operator: "Near"}}},
	}}}
	c := Objects{
		Namespaces: []*corev1.Namespace{namespaced("shop", map[string]string{"team": "a"}), namespaced("bare", nil)},
		Volumes: []*corev1.PersistentVolume{
			volume("", on("n1"), corev1.VolumeAvailable),
			volume("anywhere", nil, corev1.VolumeBound),
			volume("anywhere-too", &corev1.VolumeNodeAffinity{}, corev1.VolumeBound),
			volume("old", on("n1"), corev1.VolumeReleased),
			volume("moved", on("n1"), corev1.VolumeReleased), volume("moved", on("n2"), corev1.VolumeBound), volume("moved", on("n3"), ""),
			volume("said-nothing", on("n4"), ""),
			volume("garbage", garbage, corev1.VolumeBound),
		},
	}.Cluster()
	if diff := cmp.Diff(map[string]labels.Set{"shop": {"team": "a"}, "bare": nil}, c.Namespaces); diff != "" {
		t.Errorf("namespaces: -want +got:\n%s", diff)
	}
	want := map[string]rollout.Volume{"shop/moved": {Nodes: on("n2").Required}, "shop/said-nothing": {Nodes: on("n4").Required}, "shop/garbage": {Nodes: garbage.Required}}
	if diff := cmp.Diff(want, c.Volumes); diff != "" {
		t.Errorf("volumes: -want +got:\n%s", diff)
	}
}
