package images

import (
	"cmp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

func holderOf(kind string, o metav1.Object) Holder {
	return Holder{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// fromTemplate reads a workload whose pods are made from template. Kinds that the
// admission plugin for ImageStreams does not look at must not be read by it
// (openshift/apiserver-library-go, SetDefaults_ImagePolicyConfig).
func fromTemplate(kind string, o metav1.Object, template *corev1.PodTemplateSpec, t Reference) Holder {
	h := holderOf(kind, o)
	t.Account, _, _ = secretsOf(&template.Spec)
	t.Lookup, t.Copied = lookupOf(o, template.Annotations)
	t.Placement = placementOf(&template.Spec, template.Spec.NodeName)
	h.addSpec(&template.Spec, t.ofEnding(o), nil)
	return h
}

// jobUse says that a Job which has ended makes no more pods
// (https://kubernetes.io/docs/concepts/workloads/controllers/job/#terminal-job-conditions).
func jobUse(job *batchv1.Job) policy.Use {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return policy.History
		}
	}
	return policy.Referenced
}

// fromPod reads a pod. Admission has completed it: with the pull secrets of its service
// account, and with what ImageStreams say. A pod that has finished names images that it
// once needed; no node runs it again. A cluster is full of such pods, of installers and
// builds, whose images are no longer mirrored. A static pod that has finished is run again
// by its kubelet, after a restart at the latest: its mirror pod is only what the API shows
// of it.
func fromPod(pod *corev1.Pod) Holder {
	h := holderOf("Pod", pod)
	t := Reference{Use: policy.Running, Placement: placementOf(withoutOwnNode(pod), stayingOn(pod))}.ofEnding(pod)
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	digests, never := runningDigests(pod.Status), neverRan(pod.Status)
	switch {
	case finished && pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		t.Use, digests = policy.Referenced, nil
	case finished:
		t.Use, digests = policy.History, nil
	}
	h.addSpec(&pod.Spec, t, digests)
	for i := range h.References {
		h.References[i].NeverRan = never(h.References[i].Container)
	}
	return h
}

// neverRan returns a function that reports whether a container has never had its image on a node; for
// the name of a volume, whether none has: it is there before any container. A status that is not from an
// API server says nothing.
func neverRan(status corev1.PodStatus) func(name string) bool {
	ran, known := map[string]bool{}, map[string]bool{}
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			known[s.Name] = true
			if hasHadImage(s) {
				ran[s.Name] = true
			}
		}
	}
	return func(name string) bool {
		if known[name] {
			return !ran[name]
		}
		return status.Phase == corev1.PodPending && len(ran) == 0
	}
}

// hasHadImage reports whether the container's node has already had its image: the kubelet pulls it before it does
// anything else with the container (k8s.io/kubernetes/pkg/kubelet/kuberuntime/kuberuntime_container.go,
// startContainer).
func hasHadImage(s *corev1.ContainerStatus) bool {
	waits, ended := s.State.Waiting, s.State.Terminated
	switch {
	case s.ImageID != "" || s.RestartCount > 0 || s.LastTerminationState.Terminated != nil:
		return true
	case ended != nil: // as what waits is once its pod ends (k8s.io/kubernetes/pkg/kubelet/status/status_manager.go, TerminatePod)
		return ended.Reason != "ContainerStatusUnknown"
	default:
		return waits == nil || waits.Reason != "" && waits.Reason != "ContainerCreating" && waits.Reason != "PodInitializing" && !rollout.IsPullFailure(waits.Reason)
	}
}

// keeperOf returns the kind of the controller that keeps a ReplicaSet or a
// ReplicationController without replicas for a rollback only. One that stands alone may
// be scaled up at any time, and so may one whose owner is not read: its template would
// not be known otherwise.
func keeperOf(o metav1.Object, replicas *int32) schema.GroupKind {
	owner := metav1.GetControllerOf(o)
	if owner == nil || replicas == nil || *replicas != 0 { // nil is 1, the API server's default
		return schema.GroupKind{}
	}
	return kindOfOwner(owner)
}

// fromReplicationController treats the controllers of DeploymentConfigs as the
// ReplicaSets of Deployments are treated.
func fromReplicationController(rc *corev1.ReplicationController) Holder {
	if rc.Spec.Template == nil {
		return holderOf("ReplicationController", rc)
	}
	return fromTemplate("ReplicationController", rc, rc.Spec.Template, Reference{Keeper: keeperOf(rc, rc.Spec.Replicas)})
}

// addSpec adds the images that the kubelet would pull for a pod, of its three lists of
// containers and its image volumes, and those in the settings of containers. The digests are by container
// name, which is unique over all three lists. The attributes about pull secrets are taken from the spec
// instead of t.
func (h *Holder) addSpec(spec *corev1.PodSpec, t Reference, digests map[string]string) {
	account, secrets, own := secretsOf(spec)
	t.OwnPullSecret = own
	if t.Secrets = secrets; secrets != "" {
		t.Account = account
	}
	lookup, copied := t.Lookup, t.Copied
	add := func(image, container, digest string) {
		h.add(t.to(image, container, digest, ""))
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, c := range containers {
			t.Lookup = lookup.forImage(c.Image)
			t.Copied = copied && t.Lookup != LookupNone
			t.NeverPulls = c.ImagePullPolicy == corev1.PullNever
			add(c.Image, c.Name, digests[c.Name])
		}
	}
	t.Lookup, t.Copied = LookupNone, false // the plugin looks at no others (imagereferencemutators, Mutate)
	for _, c := range spec.EphemeralContainers {
		t.NeverPulls = c.ImagePullPolicy == corev1.PullNever
		add(c.Image, c.Name, digests[c.Name])
	}
	for _, v := range spec.Volumes {
		if v.Image != nil {
			t.NeverPulls = v.Image.PullPolicy == corev1.PullNever
			add(v.Image.Reference, "volume "+v.Name, "")
		}
	}
	h.addSettings(spec, t)
}

// PullSecrets returns the names of the pull secrets that a pod names, other than those that may
// be the one that OpenShift adds: sorted, each once.
func PullSecrets(spec *corev1.PodSpec) []string {
	account := cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount, "default")
	var names []string
	for _, s := range spec.ImagePullSecrets {
		if s.Name != "" && !mayBeGenerated(s.Name, account) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func runningDigests(status corev1.PodStatus) map[string]string {
	digests := map[string]string{}
	for _, statuses := range [][]corev1.ContainerStatus{
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for _, s := range statuses {
			digests[s.Name] = digestOf(s.ImageID)
		}
	}
	return digests
}

// digestOf returns the manifest's digest in a container status' imageID. CRI-O
// and containerd write REPOSITORY@DIGEST. An imageID without a repository is the
// digest of the image's configuration, which no registry is asked for
// (k8s.io/kubernetes/pkg/kubelet/kuberuntime/convert.go, toKubeContainerStatus).
func digestOf(imageID string) string {
	_, digest, found := strings.Cut(imageID, "@")
	if !found || !strings.Contains(digest, ":") {
		return ""
	}
	return digest
}
