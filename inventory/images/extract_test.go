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
	"k8s.io/apimachinery/pkg/runtime"
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

func withPullSecrets(names ...string) corev1.PodTemplateSpec {
	template := templateOf("quay.io/shop/app:1")
	for _, name := range names {
		template.Spec.ImagePullSecrets = append(template.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return template
}

func replicas(n int32) *int32 { return &n }

func TestExtract(t *testing.T) {
	const app = "quay.io/shop/app:1"
	const account = "default"
	referenced := []Reference{{Image: app, Container: "a", Account: account}}
	kept := func(group, kind string) []Reference {
		return []Reference{{Image: app, Container: "a", Account: account, Keeper: schema.GroupKind{Group: group, Kind: kind}}}
	}

	tests := []struct {
		reason string
		object runtime.Object
		want   Holder
	}{
		{
			"a pull secret that somebody has set",
			&batchv1.CronJob{ObjectMeta: named("shop", "nightly"), Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: withPullSecrets("default-dockercfg-x7k2p", "quay")}}}},
			Holder{Kind: "CronJob", Namespace: "shop", Name: "nightly", References: []Reference{{Image: app, Container: "a", OwnPullSecret: true}}},
		},
		{
			"what may be the pull secret that every pod of OpenShift has: its account says whether it is",
			&batchv1.Job{ObjectMeta: named("shop", "once"), Spec: batchv1.JobSpec{Template: withPullSecrets("default-dockercfg-x7k2p")}},
			Holder{Kind: "Job", Namespace: "shop", Name: "once", References: []Reference{{Image: app, Container: "a", Account: "default", Secrets: "default-dockercfg-x7k2p"}}},
		},
		{
			"what looks like it, of another account, somebody has set",
			&corev1.Pod{ObjectMeta: named("shop", "bot"), Spec: corev1.PodSpec{
				Containers: containers(app).Containers, ServiceAccountName: "bot", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "default-dockercfg-x7k2p"}},
			}},
			Holder{Kind: "Pod", Namespace: "shop", Name: "bot", References: []Reference{{Image: app, Container: "a", Use: policy.Running, OwnPullSecret: true}}},
		},
		{
			"the service account of a template has pull secrets too",
			&appsv1.StatefulSet{ObjectMeta: named("shop", "db"), Spec: appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: containers(app).Containers, ServiceAccountName: "db"},
			}}},
			Holder{"StatefulSet", "shop", "db", []Reference{{Image: app, Container: "a", Account: "db"}}},
		},
		{
			"every list of containers and every image volume is pulled by the kubelet; other volumes hold no image",
			&corev1.Pod{
				ObjectMeta: named("shop", "app-0"),
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "init", Image: "quay.io/shop/init:1"}},
					Containers:     []corev1.Container{{Name: "app", Image: app}},
					EphemeralContainers: []corev1.EphemeralContainer{
						{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "quay.io/tools/debug"}},
					},
					Volumes: []corev1.Volume{
						{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
						{Name: "data", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "quay.io/shop/data:1"}}},
					},
				},
				Status: corev1.PodStatus{
					Phase:                      corev1.PodRunning,
					InitContainerStatuses:      []corev1.ContainerStatus{{Name: "init", ImageID: "quay.io/shop/init@" + digest}},
					ContainerStatuses:          []corev1.ContainerStatus{{Name: "app", ImageID: "docker-pullable://quay.io/shop/app@" + digest}},
					EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "debug", ImageID: digest}},
				},
			},
			Holder{"Pod", "shop", "app-0", []Reference{
				{Image: "quay.io/shop/init:1", Container: "init", Use: policy.Running, Digest: digest},
				{Image: app, Container: "app", Use: policy.Running, Digest: digest},
				{Image: "quay.io/tools/debug", Container: "debug", Use: policy.Running}, // its imageID is no manifest's digest
				{Image: "quay.io/shop/data:1", Container: "volume data", Use: policy.Running},
			}},
		},
		{
			"a pod that no node has taken yet is there all the same",
			&corev1.Pod{ObjectMeta: named("shop", "app-0"), Spec: containers(app), Status: corev1.PodStatus{Phase: corev1.PodPending}},
			Holder{"Pod", "shop", "app-0", []Reference{{Image: app, Container: "a", Use: policy.Running, NeverRan: true}}},
		},
		{
			"the kubelet runs a static pod again, so that its mirror pod is not over",
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "etcd-0", Annotations: map[string]string{"kubernetes.io/config.mirror": "x"}},
				Spec:       containers(app), Status: corev1.PodStatus{Phase: corev1.PodFailed},
			},
			Holder{"Pod", "shop", "etcd-0", []Reference{{Image: app, Container: "a"}}},
		},
		{
			"a pod that has finished is history",
			&corev1.Pod{
				ObjectMeta: named("shop", "job-1"), Spec: containers(app),
				Status: corev1.PodStatus{
					Phase:             corev1.PodSucceeded,
					ContainerStatuses: []corev1.ContainerStatus{{Name: "a", ImageID: "quay.io/shop/app@" + digest}},
				},
			},
			Holder{"Pod", "shop", "job-1", []Reference{{Image: app, Container: "a", Use: policy.History}}},
		},
		{
			"so is one that failed",
			&corev1.Pod{ObjectMeta: named("shop", "job-2"), Spec: containers(app), Status: corev1.PodStatus{Phase: corev1.PodFailed}},
			Holder{"Pod", "shop", "job-2", []Reference{{Image: app, Container: "a", Use: policy.History}}},
		},
		{
			"a reference that no node could parse is kept as it is: it is for the policy to report",
			&corev1.Pod{ObjectMeta: named("shop", "typo"), Spec: containers("quay.io/Shop/app:1:2"), Status: corev1.PodStatus{Phase: corev1.PodPending}},
			Holder{"Pod", "shop", "typo", []Reference{{Image: "quay.io/Shop/app:1:2", Container: "a", Use: policy.Running, NeverRan: true}}},
		},
		{
			"scaled to zero, a Deployment may be scaled up at any time",
			&appsv1.Deployment{ObjectMeta: named("shop", "app"), Spec: appsv1.DeploymentSpec{Replicas: replicas(0), Template: templateOf(app)}},
			Holder{"Deployment", "shop", "app", referenced},
		},
		{
			"an image that an image trigger has not filled in yet is none",
			&appsv1.Deployment{ObjectMeta: named("shop", "app"), Spec: appsv1.DeploymentSpec{Template: templateOf(" ", app)}},
			Holder{"Deployment", "shop", "app", []Reference{{Image: app, Container: "b", Account: account}}},
		},
		{
			"a Deployment's ReplicaSet without replicas is kept for a rollback",
			&appsv1.ReplicaSet{ObjectMeta: owned("shop", "app-1", "apps/v1", "Deployment"), Spec: appsv1.ReplicaSetSpec{Replicas: replicas(0), Template: templateOf(app)}},
			Holder{"ReplicaSet", "shop", "app-1", kept("apps", "Deployment")},
		},
		{
			"an older one names its owner by the group of then",
			&appsv1.ReplicaSet{ObjectMeta: owned("shop", "app-0", "extensions/v1beta1", "Deployment"), Spec: appsv1.ReplicaSetSpec{Replicas: replicas(0), Template: templateOf(app)}},
			Holder{"ReplicaSet", "shop", "app-0", kept("apps", "Deployment")},
		},
		{
			"other controllers have ReplicaSets as well",
			&appsv1.ReplicaSet{ObjectMeta: owned("shop", "app-9", "argoproj.io/v1alpha1", "Rollout"), Spec: appsv1.ReplicaSetSpec{Replicas: replicas(0), Template: templateOf(app)}},
			Holder{"ReplicaSet", "shop", "app-9", kept("argoproj.io", "Rollout")},
		},
		{
			"one with replicas is the way pods come to be",
			&appsv1.ReplicaSet{ObjectMeta: owned("shop", "app-2", "apps/v1", "Deployment"), Spec: appsv1.ReplicaSetSpec{Replicas: replicas(1), Template: templateOf(app)}},
			Holder{"ReplicaSet", "shop", "app-2", referenced},
		},
		{
			"one that nobody owns may be scaled up",
			&appsv1.ReplicaSet{ObjectMeta: named("shop", "alone"), Spec: appsv1.ReplicaSetSpec{Replicas: replicas(0), Template: templateOf(app)}},
			Holder{"ReplicaSet", "shop", "alone", referenced},
		},
		{
			"replicas that are not set are one, not none",
			&appsv1.ReplicaSet{ObjectMeta: owned("shop", "app-3", "apps/v1", "Deployment"), Spec: appsv1.ReplicaSetSpec{Template: templateOf(app)}},
			Holder{"ReplicaSet", "shop", "app-3", referenced},
		},
		{
			"StatefulSet",
			&appsv1.StatefulSet{ObjectMeta: named("shop", "db"), Spec: appsv1.StatefulSetSpec{Template: templateOf(app)}},
			Holder{"StatefulSet", "shop", "db", referenced},
		},
		{
			"DaemonSet",
			&appsv1.DaemonSet{ObjectMeta: named("shop", "agent"), Spec: appsv1.DaemonSetSpec{Template: templateOf(app)}},
			Holder{"DaemonSet", "shop", "agent", referenced},
		},
		{
			"Job",
			&batchv1.Job{ObjectMeta: named("shop", "migrate"), Spec: batchv1.JobSpec{Template: templateOf(app)}},
			Holder{"Job", "shop", "migrate", referenced},
		},
		{
			"a Job that has ended makes no more pods",
			&batchv1.Job{
				ObjectMeta: named("shop", "migrate"), Spec: batchv1.JobSpec{Template: templateOf(app)},
				Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
			},
			Holder{"Job", "shop", "migrate", []Reference{{Image: app, Container: "a", Use: policy.History, Account: account}}},
		},
		{
			"a CronJob that is suspended may be resumed",
			&batchv1.CronJob{ObjectMeta: named("shop", "report"), Spec: batchv1.CronJobSpec{
				Suspend:     new(true),
				JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: templateOf(app)}},
			}},
			Holder{"CronJob", "shop", "report", referenced},
		},
		{
			"ReplicationController",
			&corev1.ReplicationController{ObjectMeta: named("shop", "old"), Spec: corev1.ReplicationControllerSpec{Template: new(templateOf(app))}},
			Holder{"ReplicationController", "shop", "old", referenced},
		},
		{
			"a DeploymentConfig's ReplicationController without replicas is kept for a rollback",
			&corev1.ReplicationController{ObjectMeta: owned("shop", "dc-1", "apps.openshift.io/v1", "DeploymentConfig"), Spec: corev1.ReplicationControllerSpec{
				Replicas: replicas(0), Template: new(templateOf(app)),
			}},
			Holder{"ReplicationController", "shop", "dc-1", kept("apps.openshift.io", "DeploymentConfig")},
		},
		{
			"the API allows a ReplicationController without a template",
			&corev1.ReplicationController{ObjectMeta: named("shop", "bare")},
			Holder{"ReplicationController", "shop", "bare", nil},
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			got, ok := Extract(tt.object)
			if !ok {
				t.Fatalf("Extract(%T) knows no such type", tt.object)
			}
			if diff := cmp.Diff(tt.want, got, exceptPlacement); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestExtractKnowsWhatHoldsNoImage(t *testing.T) {
	if h, ok := Extract(&corev1.ConfigMap{}); ok {
		t.Errorf("Extract(ConfigMap) = %v, want none", h)
	}
}

func TestExtractSettings(t *testing.T) {
	const router = "quay.io/openshift-release-dev/ocp-v4.0-art-dev@" + digest
	tests := []struct {
		reason string
		spec   corev1.Container
		want   []Reference
	}{
		{
			"the ingress operator names the router's image of the next roll-out, and nothing else does",
			corev1.Container{Env: []corev1.EnvVar{{Name: "IMAGE", Value: router}, {Name: "CANARY_IMAGE", Value: "quay.io/canary:1"}}},
			[]Reference{{Image: router, Container: "env IMAGE"}, {Image: "quay.io/canary:1", Container: "env CANARY_IMAGE"}},
		},
		{
			"OLM's convention",
			corev1.Container{Env: []corev1.EnvVar{{Name: "RELATED_IMAGE_DB", Value: "registry.redhat.io/rhel9/postgresql-16:1"}}},
			[]Reference{{Image: "registry.redhat.io/rhel9/postgresql-16:1", Container: "env RELATED_IMAGE_DB"}},
		},
		{
			"flags of the payload's operators, in each spelling",
			corev1.Container{
				Command: []string{"operator", "start"},
				Args:    []string{"--release-image=quay.io/release:1", "-image", "quay.io/b:1", "--sidecar-image", "localhost/c:1"},
			},
			[]Reference{
				{Image: "quay.io/release:1", Container: "arg --release-image"},
				{Image: "quay.io/b:1", Container: "arg -image"},
				{Image: "localhost/c:1", Container: "arg --sidecar-image"},
			},
		},
		{
			"what only looks like an image is not one, and must not be reported as malformed",
			corev1.Container{
				Env: []corev1.EnvVar{
					{Name: "LOGO_IMAGE", Value: "logo.png"},
					{Name: "USER_IMAGE", Value: "shop/app"},
					{Name: "SPLASH_IMAGE", Value: "https://example.com/x.png"},
					{Name: "FROM_SECRET_IMAGE"},
				},
				Args: []string{"--image", "--verbose", "--image-pull-policy=quay.io/x", "--image"},
			},
			nil,
		},
		{
			"Strimzi's list of versions",
			corev1.Container{Env: []corev1.EnvVar{{Name: "STRIMZI_KAFKA_IMAGES", Value: "4.0.0=quay.io/strimzi/kafka:0.47.0-kafka-4.0.0\n4.1.0=quay.io/strimzi/kafka:0.47.0-kafka-4.1.0\n"}}},
			[]Reference{
				{Image: "quay.io/strimzi/kafka:0.47.0-kafka-4.0.0", Container: "env STRIMZI_KAFKA_IMAGES"},
				{Image: "quay.io/strimzi/kafka:0.47.0-kafka-4.1.0", Container: "env STRIMZI_KAFKA_IMAGES"},
			},
		},
		{
			"lists with commas, maps in JSON, and names with IMAGE_ in front; the name of a registry alone is no image",
			corev1.Container{Env: []corev1.EnvVar{
				{Name: "SIDE_IMAGES", Value: "quay.io/a/a:1, quay.io/b/b:2"},
				{Name: "IMAGE_MAP", Value: `{"b": "quay.io/m/b:1", "a": ["quay.io/m/a:1"]}`},
				{Name: "IMAGE_SYNCER", Value: "quay.io/s/s@" + digest},
				{Name: "IMAGE_REGISTRY", Value: "quay.io/shop"},
			}},
			[]Reference{
				{Image: "quay.io/a/a:1", Container: "env SIDE_IMAGES"},
				{Image: "quay.io/b/b:2", Container: "env SIDE_IMAGES"},
				{Image: "quay.io/m/a:1", Container: "env IMAGE_MAP"},
				{Image: "quay.io/m/b:1", Container: "env IMAGE_MAP"},
				{Image: "quay.io/s/s@" + digest, Container: "env IMAGE_SYNCER"},
			},
		},
		{
			"the monitoring operator of OpenShift, and the Prometheus operator",
			corev1.Container{Args: []string{
				"-images=prometheus-operator=quay.io/p/operator@" + digest + ",prometheus=quay.io/p/prometheus@" + digest,
				"-images=alertmanager=quay.io/p/alertmanager@" + digest,
				"--prometheus-config-reloader=quay.io/p/reloader@" + digest,
			}},
			[]Reference{
				{Image: "quay.io/p/operator@" + digest, Container: "arg -images"},
				{Image: "quay.io/p/prometheus@" + digest, Container: "arg -images"},
				{Image: "quay.io/p/alertmanager@" + digest, Container: "arg -images"},
				{Image: "quay.io/p/reloader@" + digest, Container: "arg --prometheus-config-reloader"},
			},
		},
		{
			"a whole reference under any other name is a guess",
			corev1.Container{
				Env:  []corev1.EnvVar{{Name: "HELPER", Value: "quay.io/shop/helper:1"}, {Name: "REGISTRY", Value: "quay.io/shop"}},
				Args: []string{"--runner=quay.io/shop/runner:1", "quay.io/shop/plain:1"},
			},
			[]Reference{
				{Image: "quay.io/shop/helper:1", Container: "env HELPER", Guessed: true},
				{Image: "quay.io/shop/runner:1", Container: "arg --runner", Guessed: true},
				{Image: "quay.io/shop/plain:1", Container: "arg", Guessed: true},
			},
		},
		{
			"what has slashes and colons without being an image",
			corev1.Container{
				Env: []corev1.EnvVar{{Name: "URL", Value: "https://quay.io/shop/app:1"}, {Name: "REPO", Value: "git@github.com:org/repo.git"}},
				Args: []string{
					"--register-with-taints=node-role.kubernetes.io/infra:NoSchedule", "--upstream=http://127.0.0.1:8080/",
					"--module=github.com/org/module@v1.2.3", "--path=/var/lib/x:/y", "--template=$(REGISTRY)/shop/app:1", "shop/app:1",
				},
			},
			nil,
		},
		{
			"what two containers are told is one setting",
			corev1.Container{Env: []corev1.EnvVar{{Name: "IMAGE", Value: "quay.io/a:1"}, {Name: "IMAGE", Value: "quay.io/a:1"}}},
			[]Reference{{Image: "quay.io/a:1", Container: "env IMAGE"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			spec := corev1.PodSpec{Containers: []corev1.Container{tt.spec}}
			got, _ := Extract(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: spec}}})
			if diff := cmp.Diff(tt.want, got.References); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
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
