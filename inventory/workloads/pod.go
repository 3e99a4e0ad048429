package workloads

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

func isOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// podOf returns the kept part of a pod, without its spec.
func podOf(pod *corev1.Pod) rollout.Pod {
	_, isStatic := pod.Annotations[corev1.MirrorPodAnnotationKey]
	reason, container, detail := failing(pod)
	return rollout.Pod{
		Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName,
		Owner:   ownerOf(pod),
		Started: pod.Status.Phase == corev1.PodRunning, Ready: isReady(pod),
		Deleted: pod.DeletionTimestamp != nil, Ended: pod.DeletionTimestamp != nil && isOver(pod), Static: isStatic,
		Failing: reason, FailingContainer: container, Detail: cmp.Or(unplaced(pod), detail),
		Created: pod.CreationTimestamp.UTC(), Ends: endOf(pod), Finalizers: finalizers(pod),
	}
}

func finalizers(pod *corev1.Pod) string {
	own := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool {
		return f == batchv1.JobTrackingFinalizer && ownerOf(pod).Kind == "Job" || f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	})
	return text.OneLine(strings.Join(own, ", "), maxDetail)
}

// endOf returns by when a pod that is being deleted is to have ended: the API server adds the
// grace period to the time of the request.
func endOf(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	return pod.DeletionTimestamp.UTC()
}

// maxDetail is how much is kept of what a scheduler or a kubelet says, in characters.
const maxDetail = 400

// unplaced returns what the scheduler says of a pod that it cannot place, "" for any other.
func unplaced(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && pod.Spec.NodeName == "" {
			return text.OneLine(c.Message, maxDetail)
		}
	}
	return ""
}

func ownerOf(pod *corev1.Pod) rollout.Owner {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return rollout.Owner{}
	}
	o := rollout.Owner{Kind: controller.Kind, Name: controller.Name}
	if group, _, _ := strings.Cut(controller.APIVersion, "/"); strings.Contains(group, ".") {
		o.Kind += "." + group
	}
	return o
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// failing returns why a container waits that should not, its name, and what the kubelet says of
// it: the first one that waits for its image or, if there is none, the first. Each container
// of a pod that is being started waits for a while.
func failing(pod *corev1.Pod) (reason, container, detail string) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				if rollout.IsPullFailure(w.Reason) {
					return w.Reason, s.Name, detailOf(s)
				}
				if reason == "" {
					reason, container, detail = w.Reason, s.Name, detailOf(s)
				}
			}
		}
	}
	return reason, container, detail
}

// detailOf returns what the kubelet says of a container that waits for its image, a ConfigMap or a
// Secret. For any other it is the exit code alone: the rest may be the log of the container, or its
// arguments.
func detailOf(s *corev1.ContainerStatus) string {
	if w := s.State.Waiting; rollout.IsPullFailure(w.Reason) || w.Reason == "CreateContainerConfigError" {
		return text.OneLine(text.WithoutCredentials(w.Message), maxDetail)
	}
	if t := s.LastTerminationState.Terminated; t != nil {
		return text.OneLine(fmt.Sprintf("it ended with exit code %d (%s), %d times", t.ExitCode, t.Reason, s.RestartCount), maxDetail)
	}
	return ""
}

// specOf returns what pods of equal spec share. It refers to parts of pod.
func specOf(pod *corev1.Pod) rollout.PodSpec {
	spec := &pod.Spec
	s := rollout.PodSpec{
		Labels:       noneIfEmpty(pod.Labels),
		Containers:   containersOf(spec),
		NodeSelector: noneIfEmpty(spec.NodeSelector),
		Affinity:     affinityOf(pod),
		Tolerations:  spec.Tolerations,
		Spread:       spec.TopologySpreadConstraints,
		HostPorts:    hostPortsOf(spec),
		Requests:     requestsOf(pod),
		Preempts:     spec.PreemptionPolicy == nil || *spec.PreemptionPolicy == corev1.PreemptLowerPriority,
		GracePeriod:  corev1.DefaultTerminationGracePeriodSeconds * time.Second,
		Gated:        len(spec.SchedulingGates) > 0,
		Once:         spec.RestartPolicy != "" && spec.RestartPolicy != corev1.RestartPolicyAlways,
		PullSecrets:  images.PullSecrets(spec),
		Security:     securityOf(pod),
		Unset:        unsetOf(spec),
	}
	if spec.Priority != nil {
		s.Priority = *spec.Priority
	}
	if spec.TerminationGracePeriodSeconds != nil {
		s.GracePeriod = time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second
	}
	if spec.SchedulerName != corev1.DefaultSchedulerName {
		s.Scheduler = spec.SchedulerName
	}
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			s.Claims = append(s.Claims, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return s
}

func noneIfEmpty[K comparable, V any](m map[K]V) map[K]V {
	if len(m) == 0 {
		return nil
	}
	return m
}

func containersOf(spec *corev1.PodSpec) []rollout.Container {
	var containers []rollout.Container
	add := func(name, image string, pull corev1.PullPolicy) {
		containers = append(containers, rollout.Container{Name: name, Image: image, Pull: cmp.Or(pull, defaultPull(image))})
	}
	for _, c := range spec.InitContainers {
		add(c.Name, c.Image, c.ImagePullPolicy)
	}
	for _, c := range spec.Containers {
		add(c.Name, c.Image, c.ImagePullPolicy)
	}
	for _, v := range spec.Volumes {
		if v.Image != nil {
			add("", v.Image.Reference, v.Image.PullPolicy)
		}
	}
	return containers
}

// defaultPull is what an API server sets, and what a manifest written by hand lacks
// (SetDefaults_Container in k8s.io/kubernetes/pkg/apis/core/v1/defaults.go).
func defaultPull(image string) corev1.PullPolicy {
	last := image[strings.LastIndexByte(image, '/')+1:]
	if strings.Contains(last, "@") {
		return corev1.PullIfNotPresent
	}
	if _, tag, found := strings.Cut(last, ":"); found && tag != "latest" {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}

// hostPortsOf returns the ports that the scheduler reserves: those of containers that run
// at once, which init containers do that are restarted
// (GetHostPorts in k8s.io/kubernetes/pkg/scheduler/util/utils.go).
func hostPortsOf(spec *corev1.PodSpec) []rollout.HostPort {
	var ports []rollout.HostPort
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort == 0 {
				continue
			}
			port := rollout.HostPort{IP: p.HostIP, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), Port: p.HostPort}
			if port.IP == "0.0.0.0" {
				port.IP = ""
			}
			ports = append(ports, port)
		}
	}
	for i := range spec.InitContainers {
		if policy := spec.InitContainers[i].RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			add(&spec.InitContainers[i])
		}
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	return ports
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	for name, quantity := range requests {
		if quantity.IsZero() {
			delete(requests, name)
		}
	}
	return noneIfEmpty(requests)
}

// affinityOf returns the affinity of a pod. It leaves out that of a DaemonSet's pod to its own node:
// the pod is there and goes nowhere else, and no two pods of a DaemonSet would share their spec
// (ReplaceDaemonSetPodNodeNameNodeAffinity in
// k8s.io/kubernetes/pkg/controller/daemon/util/daemonset_util.go).
func affinityOf(pod *corev1.Pod) *corev1.Affinity {
	a := pod.Spec.Affinity
	if a == nil || pod.Spec.NodeName == "" || ownerOf(pod).Kind != "DaemonSet" ||
		a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return a
	}
	without := *a
	required := withoutNode(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, pod.Spec.NodeName)
	preferred := a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	without.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: preferred}
	if required == nil && len(preferred) == 0 {
		without.NodeAffinity = nil
	}
	if without == (corev1.Affinity{}) {
		return nil
	}
	return &without
}

// withoutNode returns a selector without the requirement that the node has the name, nil if
// it requires nothing else.
func withoutNode(selector *corev1.NodeSelector, name string) *corev1.NodeSelector {
	isName := func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == metav1.ObjectNameField && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 && r.Values[0] == name
	}
	rest := &corev1.NodeSelector{}
	for _, term := range selector.NodeSelectorTerms {
		fields := slices.DeleteFunc(slices.Clone(term.MatchFields), isName)
		if len(fields) == len(term.MatchFields) {
			return selector // not as the DaemonSet controller makes them
		}
		if len(fields) == 0 && len(term.MatchExpressions) == 0 {
			return nil
		}
		if len(fields) == 0 {
			fields = nil
		}
		rest.NodeSelectorTerms = append(rest.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: term.MatchExpressions, MatchFields: fields})
	}
	return rest
}
