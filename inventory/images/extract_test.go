package images

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	osappsv1 "github.com/openshift/api/apps/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func owned(namespace, name, ownerGroupVersion, ownerKind string) metav1.ObjectMeta {
	m := named(namespace, name)
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: ownerGroupVersion, Kind: ownerKind, Name: "owner", Controller: new(true)}}
	return m
}

func containers(images ...string) corev1.PodSpec {
	var spec corev1.PodSpec
	for i, image := range images {
		spec.Containers = append(spec.Containers, corev1.Container{Name: string(rune('a' + i)), Image: image})
	}
	return spec
}

func templateOf(images ...string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: containers(images...)}
}

// TestEveryPodSpecHasSettings: one rule for all, whatever makes the pods.
func TestEveryPodSpecHasSettings(t *testing.T) {
	spec := corev1.PodSpec{Containers: []corev1.Container{{
		Name: "run", Image: "quay.io/shop/run:1",
		Env:  []corev1.EnvVar{{Name: "WORKER_IMAGE", Value: "quay.io/shop/worker:1"}, {Name: "HELPER", Value: "quay.io/shop/helper:1"}},
		Args: []string{"--sidecar-image=quay.io/shop/sidecar:1"},
	}}}
	template := corev1.PodTemplateSpec{Spec: spec}
	none := int32(0)
	controller := func(apiVersion, kind string) metav1.ObjectMeta { return owned("shop", "a", apiVersion, kind) }
	jobEnded := batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}
	var old schema.GroupKind // of no keeper
	for _, tt := range []struct {
		reason string
		group  string
		object any
		use    policy.Use
		keeper schema.GroupKind
	}{
		{"Pod", "", &corev1.Pod{Spec: spec}, policy.Referenced, old},
		{"Pod that has finished", "", &corev1.Pod{Spec: spec, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, policy.History, old},
		{"Deployment", "apps", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template}}, policy.Referenced, old},
		{"StatefulSet", "apps", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template}}, policy.Referenced, old},
		{"DaemonSet", "apps", &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: template}}, policy.Referenced, old},
		{"ReplicaSet", "apps", &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: template}}, policy.Referenced, old},
		{
			"ReplicaSet that is kept", "apps",
			&appsv1.ReplicaSet{ObjectMeta: controller("apps/v1", "Deployment"), Spec: appsv1.ReplicaSetSpec{Replicas: &none, Template: template}},
			policy.Referenced,
			schema.GroupKind{Group: "apps", Kind: "Deployment"},
		},
		{"ReplicationController", "", &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &template}}, policy.Referenced, old},
		{"Job", "batch", &batchv1.Job{Spec: batchv1.JobSpec{Template: template}}, policy.Referenced, old},
		{"Job that has ended", "batch", &batchv1.Job{Spec: batchv1.JobSpec{Template: template}, Status: jobEnded}, policy.History, old},
		{"CronJob", "batch", &batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}}, policy.Referenced, old},
		{"PodTemplate", "", &corev1.PodTemplate{Template: template}, policy.Referenced, old},
		{"DeploymentConfig", "apps.openshift.io", &osappsv1.DeploymentConfig{Spec: osappsv1.DeploymentConfigSpec{Template: &template}}, policy.Referenced, old},
		{"Rollout", "argoproj.io", map[string]any{"spec": map[string]any{"template": template}}, policy.Referenced, old},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			data, err := json.Marshal(tt.object)
			if err != nil {
				t.Fatal(err)
			}
			kind, _, _ := strings.Cut(tt.reason, " ")
			h, err := Decode(schema.GroupKind{Group: tt.group, Kind: kind}, data)
			if err != nil {
				t.Fatal(err)
			}
			want := []Reference{
				{Image: "quay.io/shop/worker:1", Container: "env WORKER_IMAGE", Use: tt.use, Keeper: tt.keeper},
				{Image: "quay.io/shop/helper:1", Container: "env HELPER", Use: tt.use, Keeper: tt.keeper, Guessed: true},
				{Image: "quay.io/shop/sidecar:1", Container: "arg --sidecar-image", Use: tt.use, Keeper: tt.keeper},
			}
			if diff := cmp.Diff(want, h.References[1:]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
