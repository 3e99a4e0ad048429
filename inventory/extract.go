package inventory

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Extract returns the images that a built-in Kubernetes object names. It
// reports false for types that hold none.
func Extract(o runtime.Object) (Holder, bool) {
	switch o := o.(type) {
	case *corev1.Pod:
		return fromPod(o), true
	case *appsv1.Deployment:
		return fromOperand("Deployment", o, o.Spec.Template), true
	case *appsv1.StatefulSet:
		return fromOperand("StatefulSet", o, o.Spec.Template), true
	case *appsv1.DaemonSet:
		return fromOperand("DaemonSet", o, o.Spec.Template), true
	case *appsv1.ReplicaSet:
		return fromTemplate("ReplicaSet", o, o.Spec.Template, replicaSetUse(o)), true
	case *corev1.ReplicationController:
		return fromReplicationController(o), true
	case *batchv1.Job:
		return fromTemplate("Job", o, o.Spec.Template, jobUse(o)), true
	case *batchv1.CronJob:
		return fromTemplate("CronJob", o, o.Spec.JobTemplate.Spec.Template, policy.Referenced), true
	default:
		return Holder{}, false
	}
}

func holderOf(kind string, o metav1.Object) Holder {
	return Holder{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// fromTemplate reads a workload whose pods are made from template.
func fromTemplate(kind string, o metav1.Object, template corev1.PodTemplateSpec, use policy.Use) Holder {
	h := holderOf(kind, o)
	h.addSpec(&template.Spec, use, nil)
	return h
}

// fromOperand reads a workload that may be an operator, whose environment and
// arguments name the images of what it is going to deploy.
func fromOperand(kind string, o metav1.Object, template corev1.PodTemplateSpec) Holder {
	h := fromTemplate(kind, o, template, policy.Referenced)
	h.addSettings(&template.Spec)
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

// fromPod reads a pod. A pod that has finished names images that it needed, and no
// node runs it again. A cluster is full of such pods, of installers and builds,
// whose images nobody mirrors any more. A static pod that has finished is run again by its
// kubelet, after a restart at the latest: its mirror pod is only what the API shows of it.
func fromPod(pod *corev1.Pod) Holder {
	h := holderOf("Pod", pod)
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case finished && pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		h.addSpec(&pod.Spec, policy.Referenced, nil)
	case finished:
		h.addSpec(&pod.Spec, policy.History, nil)
	default:
		h.addSpec(&pod.Spec, policy.Running, runningDigests(pod.Status))
	}
	return h
}

// replicaSetUse says that a Deployment's ReplicaSet without replicas is kept for
// a rollback only. One that stands alone may be scaled up at any time.
func replicaSetUse(rs *appsv1.ReplicaSet) policy.Use {
	if isOwnedBy(rs, "Deployment") && isZero(rs.Spec.Replicas) {
		return policy.History
	}
	return policy.Referenced
}

// fromReplicationController treats the controllers of DeploymentConfigs as the
// ReplicaSets of Deployments are treated.
func fromReplicationController(rc *corev1.ReplicationController) Holder {
	if rc.Spec.Template == nil {
		return holderOf("ReplicationController", rc)
	}
	use := policy.Referenced
	if isOwnedBy(rc, "DeploymentConfig") && isZero(rc.Spec.Replicas) {
		use = policy.History
	}
	return fromTemplate("ReplicationController", rc, *rc.Spec.Template, use)
}

func isOwnedBy(o metav1.Object, kind string) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.Kind == kind
}

// isZero is false for nil: the API server's default is 1.
func isZero(replicas *int32) bool { return replicas != nil && *replicas == 0 }

// addSpec adds what the kubelet would pull for a pod: its three lists of
// containers, and its image volumes. The digests are by container name, which is
// unique over all three lists.
func (h *Holder) addSpec(spec *corev1.PodSpec, use policy.Use, digests map[string]string) {
	own := namesPullSecret(spec)
	add := func(image, container, digest string) {
		h.add(Reference{Image: image, Container: container, Use: use, Digest: digest, OwnPullSecret: own})
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, c := range containers {
			add(c.Image, c.Name, digests[c.Name])
		}
	}
	for _, c := range spec.EphemeralContainers {
		add(c.Image, c.Name, digests[c.Name])
	}
	for _, v := range spec.Volumes {
		if v.Image != nil {
			add(v.Image.Reference, "volume "+v.Name, "")
		}
	}
}

// namesPullSecret reports whether somebody has given a pod a pull secret. OpenShift
// gives every pod the one of its service account for the internal registry
// ("default-dockercfg-x7k2p").
func namesPullSecret(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.ImagePullSecrets, func(s corev1.LocalObjectReference) bool {
		return s.Name != "" && !strings.Contains(s.Name, "-dockercfg-")
	})
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
