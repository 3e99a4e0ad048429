package images

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

func objectOf(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// guesses writes references as "IMAGE PLACE", with what else is special about them.
func guesses(h Holder) []string {
	var all []string
	for _, r := range h.References {
		text := r.Image + " " + r.Container
		if r.Use != policy.Referenced {
			text += " (" + r.Use.String() + ")"
		}
		switch {
		case r.PullSecretUnknown:
			text += " (pull secret unknown)"
		case r.OwnPullSecret:
			text += " (own pull secret)"
		}
		if !r.Guessed {
			text += " (NOT GUESSED)"
		}
		all = append(all, text)
	}
	return all
}

func TestGuess(t *testing.T) {
	tests := []struct {
		reason, object string
		want           []string
	}{
		{
			"Tekton: steps are containers, and the default of a parameter may be an image", `
apiVersion: tekton.dev/v1
kind: Task
metadata: {name: build, namespace: ci}
spec:
  params: [{name: image, default: "$(params.other)"}, {name: BUILDER_IMAGE, default: "quay.io/buildah/stable:v1"}]
  stepTemplate: {image: "quay.io/ci/base:1", env: [{name: HOME, value: /tekton/home}]}
  steps:
  - {name: clone, image: "gcr.io/tekton/git-init:v0.40"}
  - {name: short, image: "alpine:3"}
  - {name: build, image: "$(params.BUILDER_IMAGE)"}
  sidecars: [{name: docker, image: "docker.io/library/docker:dind"}]
`, []string{
				"quay.io/buildah/stable:v1 spec.params[BUILDER_IMAGE].default",
				"docker.io/library/docker:dind spec.sidecars[docker]",
				"quay.io/ci/base:1 spec.stepTemplate",
				"gcr.io/tekton/git-init:v0.40 spec.steps[clone]",
				"alpine:3 spec.steps[short]",
			},
		},
		{
			"Tekton: tasks within a pipeline", `
apiVersion: tekton.dev/v1
kind: Pipeline
metadata: {name: release, namespace: ci}
spec: {tasks: [{name: test, taskSpec: {steps: [{name: go, image: "docker.io/golang:1.26"}]}}]}
`, []string{"docker.io/golang:1.26 spec.tasks[test].taskSpec.steps[go]"},
		},
		{
			"Tekton: a run that has ended", `
apiVersion: tekton.dev/v1
kind: TaskRun
metadata: {name: run-1, namespace: ci}
spec: {taskSpec: {steps: [{name: go, image: "docker.io/golang:1.26"}]}}
status: {completionTime: "2026-01-01T00:00:00Z"}
`, []string{"docker.io/golang:1.26 spec.taskSpec.steps[go] (history)"},
		},
		{
			"Strimzi's own StatefulSet: whole pods", `
apiVersion: core.strimzi.io/v1beta2
kind: StrimziPodSet
metadata: {name: kafka, namespace: shop}
spec:
  pods:
  - apiVersion: v1
    kind: Pod
    metadata: {name: kafka-0, annotations: {image: "quay.io/not/this:1"}}
    spec:
      imagePullSecrets: [{name: mine}]
      containers: [{name: kafka, image: "quay.io/strimzi/kafka:0.47.0-kafka-4.0.0", env: [{name: AGENT_IMAGE, value: "quay.io/strimzi/agent:1"}]}]
status: {pods: 1}
`, []string{
				"quay.io/strimzi/kafka:0.47.0-kafka-4.0.0 spec.pods[0].spec.containers[kafka] (own pull secret)",
				"quay.io/strimzi/agent:1 spec.pods[0].spec.containers[kafka] env AGENT_IMAGE (own pull secret)",
			},
		},
		{
			"a pull secret that may be OpenShift's", `
apiVersion: example.com/v1
kind: Widget
metadata: {name: a, namespace: shop}
spec: {imagePullSecrets: [{name: a-dockercfg-x7k2p}], containers: [{name: a, image: "quay.io/shop/a:1"}]}
`, []string{"quay.io/shop/a:1 spec.containers[a] (pull secret unknown)"},
		},
		{
			"JobSet", `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: ml}
spec: {replicatedJobs: [{name: worker, template: {spec: {template: {spec: {containers: [{name: torch, image: "docker.io/pytorch/pytorch:2"}]}}}}}]}
`, []string{"docker.io/pytorch/pytorch:2 spec.replicatedJobs[worker].template.spec.template.spec.containers[torch]"},
		},
		{
			"OpenShift AI: a notebook with a volume from an image", `
apiVersion: kubeflow.org/v1
kind: Notebook
metadata: {name: nb, namespace: ml, annotations: {notebooks.opendatahub.io/last-image-selection: "x:1"}}
spec: {template: {spec: {
  containers: [{name: nb, image: "quay.io/modh/odh-minimal@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}],
  initContainers: [{name: i, image: busybox}], volumes: [{name: data, image: {reference: quay.io/ml/data, pullPolicy: Always}}]}}}
`, []string{
				"quay.io/modh/odh-minimal@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 spec.template.spec.containers[nb]",
				"busybox spec.template.spec.initContainers[i]",
				"quay.io/ml/data spec.template.spec.volumes[data].image.reference",
			},
		},
		{
			"KServe: a runtime, and a model that is an image", `
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: granite, namespace: ml}
spec: {predictor: {model: {modelFormat: {name: vLLM}, image: "quay.io/modh/vllm:1", args: [--max=1], storageUri: "oci://quay.io/models/granite"}}}
`, []string{
				"quay.io/modh/vllm:1 spec.predictor.model",
				"quay.io/models/granite spec.predictor.model.storageUri",
			},
		},
		{
			"KServe: ServingRuntime", `
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: vllm, namespace: ml}
spec: {containers: [{name: kserve-container, image: "quay.io/modh/vllm:1"}]}
`, []string{"quay.io/modh/vllm:1 spec.containers[kserve-container]"},
		},
		{
			"images in pieces, of the GPU operator and of a Helm chart's values; the driver's version is a part of its tag", `
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: gpu}
spec:
  driver: {repository: nvcr.io/nvidia, image: driver, version: "550.1"}
  toolkit: {repository: nvcr.io/nvidia/k8s, image: container-toolkit, version: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
  values: {image: {registry: ghcr.io, repository: org/app, tag: v2}}
`, []string{
				"nvcr.io/nvidia/k8s/container-toolkit@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 spec.toolkit",
				"ghcr.io/org/app:v2 spec.values.image",
			},
		},
		{
			"OLM: what a subscription tells the operator", `
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: db, namespace: operators}
spec: {name: db, source: redhat, config: {env: [{name: RELATED_IMAGE_UI, value: "quay.io/db/ui:1"}, {name: MODE, value: a/b}]}}
`, []string{"quay.io/db/ui:1 spec.config.env[RELATED_IMAGE_UI].value"},
		},
		{
			"keys of images, lists of them, and a scheme", `
apiVersion: example.com/v1
kind: Database
metadata: {name: db, namespace: shop, labels: {image: "quay.io/not/this:1"}}
spec:
  baseImage: quay.io/db/base:1
  imageURL: quay.io/db/url:1
  images: {backup: "quay.io/db/backup:1", list: ["quay.io/db/a:1", "quay.io/db/b:1"]}
  kustomize: {images: ["quay.io/old/app=quay.io/new/app:2"]}
  source: {registry: {url: "docker://quay.io/disks/fedora"}}
  other: quay.io/not/an-image-key:1
status: {currentImage: "quay.io/db/old:1"}
`, []string{
				"quay.io/db/base:1 spec.baseImage",
				"quay.io/db/url:1 spec.imageURL",
				"quay.io/db/backup:1 spec.images.backup",
				"quay.io/db/a:1 spec.images.list[0]",
				"quay.io/db/b:1 spec.images.list[1]",
				"quay.io/new/app:2 spec.kustomize.images[0]",
				"quay.io/disks/fedora spec.source.registry.url",
				"quay.io/db/old:1 status.currentImage (history)",
			},
		},
		{
			"what has such a key and is no whole reference", `
apiVersion: example.com/v1
kind: Page
metadata: {name: a, namespace: shop}
spec: {image: logo.png, heroImage: "https://example.com/x.png", diskImage: /var/lib/disk.img, vmImage: "ami-123", osImage: "Red Hat CoreOS 4.19",
  image2: "quay.io/x/y:1", sourceImage: shop/app:1, hostImage: "example.com:8080", repoImage: quay.io/shop/app, description: {image: "quay.io/a/b:1"}}
`, nil,
		},
		{
			"fields that are something else than they look", `
apiVersion: example.com/v1
kind: Odd
metadata: {name: a}
spec: {containers: {image: 3}, initContainers: [1, [2], {image: {x: 1}}], image: [{}], images: 7, env: [{}], repository: [], steps: [{image: "a b"}]}
status: x
`, nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			o := objectOf(t, tt.object)
			kind := o.GroupVersionKind().GroupKind()
			if !IsGuessable(kind) {
				t.Errorf("%s is not looked through", kind)
			}
			h := Guess(kind, o)
			if diff := cmp.Diff(tt.want, guesses(h)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if h.Kind != kind.String() || h.Name != o.GetName() || h.Namespace != o.GetNamespace() {
				t.Errorf("the holder is %s %s/%s", h.Kind, h.Namespace, h.Name)
			}
		})
	}
}

func TestIsGuessable(t *testing.T) {
	for _, tt := range []struct {
		reason, group, kind string
		want                bool
	}{
		{"a kind that is not known", "tekton.dev", "Task", true},
		{"a kind that has rules of its own", "apps", "Deployment", false},
		{"by the name of a former API group too", "extensions", "Deployment", false},
		{"so has this one, but not another of the name", "argoproj.io", "Rollout", false},
		{"another of the name", "example.com", "Rollout", true},
		{"secrets are never read", "", "Secret", false},
		{"nor what is said to hold any", "bitnami.com", "SealedSecret", false},
		{"nor tokens", "example.com", "AccessToken", false},
		{"nor credentials", "cloudcredential.openshift.io", "CredentialsRequest", false},
		{"ConfigMaps are chosen by name", "", "ConfigMap", false},
		{"what changes all the time", "events.k8s.io", "Event", false},
		{"what changes all the time", "coordination.k8s.io", "Lease", false},
		{"a catalogue", "packages.operators.coreos.com", "PackageManifest", false},
	} {
		if got := IsGuessable(schema.GroupKind{Group: tt.group, Kind: tt.kind}); got != tt.want {
			t.Errorf("%s: IsGuessable(%s.%s) = %t", tt.reason, tt.kind, tt.group, got)
		}
	}
}

// TestGuessIsBounded gives objects that a tenant may write to make others wait.
func TestGuessIsBounded(t *testing.T) {
	kind := schema.GroupKind{Group: "example.com", Kind: "Bomb"}
	var many []any
	for i := range 8000 {
		many = append(many, fmt.Sprintf("quay.io/a/b:%d", i))
	}
	var deep any = "quay.io/a/deep:1"
	for range 10_000 {
		deep = map[string]any{"image": deep}
	}
	for _, tt := range []struct {
		reason string
		spec   map[string]any
		want   int
	}{
		{"thousands of images", map[string]any{"images": many}, maxGuesses},
		{"thousands of images in one text", map[string]any{"images": strings.Repeat("quay.io/a/b:1,", 8000)}, 0},
		{"a chain of objects", map[string]any{"image": deep}, 0},
	} {
		h := Guess(kind, &unstructured.Unstructured{Object: map[string]any{"spec": tt.spec}})
		if len(h.References) != tt.want {
			t.Errorf("%s: %d images, want %d", tt.reason, len(h.References), tt.want)
		}
	}
}

// FuzzGuess holds the guesses to their promise: references that a node could parse, and
// marked as guesses, whatever the object.
func FuzzGuess(f *testing.F) {
	f.Add([]byte(`{"spec":{"containers":[{"name":"a","image":"quay.io/a/b:1","args":["--x=quay.io/c/d:1"]}]}}`))
	f.Add([]byte(`{"spec":{"images":"a=quay.io/a/b:1\nb=quay.io/c/d:1","repository":"quay.io/a","tag":"1"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o unstructured.Unstructured
		if yaml.Unmarshal(data, &o.Object) != nil {
			return
		}
		for _, r := range Guess(schema.GroupKind{Group: "example.com", Kind: "X"}, &o).References {
			if !isReference(r.Image) || !r.Guessed {
				t.Errorf("%+v", r)
			}
		}
	})
}
