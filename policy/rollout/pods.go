package rollout

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Pod is the part of a pod that a rollout depends on. The pod has not ended, or is being deleted.
type Pod struct {
	Namespace, Name string
	// Node is where it runs or is to start, "" if the scheduler has not placed it.
	Node string
	// Owner is the controller that would replace it, the zero Owner for a bare pod.
	Owner Owner
	// Spec is shared by all pods that have an equal one, and must not be changed.
	Spec *PodSpec
	// Started says that its phase is Running. Ready is its condition Ready.
	Started, Ready bool
	// Deleted says that it is being deleted; Ended that its containers have ended for good and take no
	// room any more; only a deleted one is.
	Deleted, Ended bool
	// Static says that the kubelet runs it from a file (a mirror pod), which no drain touches.
	Static bool
	// Failing is why a container of it waits ("ImagePullBackOff"), "" if none does: one that
	// waits for its image, if there is one. FailingContainer is its name.
	Failing, FailingContainer string
	// Detail is what the scheduler says of a pod that it cannot place, or the kubelet of the
	// container that waits; cut, and "" if there is nothing to say.
	Detail string
	// Ends is by when a pod that is being deleted is to have ended; the zero Time if it is not
	// known.
	Ends time.Time
	// Finalizers are those that keep the pod once it is deleted, with commas; "" for none. Those
	// that Kubernetes itself removes when it has ended are left out.
	Finalizers string
	// Created is when it was created.
	Created time.Time
}

// FullName returns "namespace/name".
func (p *Pod) FullName() string { return p.Namespace + "/" + p.Name }

// IsBare reports whether no controller makes another pod instead of p.
func (p *Pod) IsBare() bool { return p.Owner == (Owner{}) }

// IsMadeAgain reports whether its controller is known to make another pod instead of p, or is taken to: an operator that lets a pod
// run for ever wants it to be there. A Job, and whatever else lets pods run once, may have had what it wanted; other kinds of
// Kubernetes' own (ConfigMap, Pod) make none.
func (p *Pod) IsMadeAgain() bool {
	switch p.Owner.Kind {
	case "DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet":
		return true // they have no others
	default:
		return strings.Contains(p.Owner.Kind, ".") && p.Spec != nil && !p.Spec.Once
	}
}

// IsEvictable reports whether a drain evicts p, and waits until it has gone.
func (p *Pod) IsEvictable() bool { return !p.Static && p.Owner.Kind != "DaemonSet" }

// FailsToPull reports whether a container waits because its image cannot be pulled.
func (p *Pod) FailsToPull() bool { return IsPullFailure(p.Failing) }

// IsPullFailure reports whether a reason is one for which a container waits for its image
// (pkg/kubelet/images/types.go in k8s.io/kubernetes).
func IsPullFailure(reason string) bool {
	switch reason {
	case "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed", "InvalidImageName":
		return true
	default:
		return false
	}
}

// FailingImage is that of FailingContainer, "" if there is none.
func (p *Pod) FailingImage() string {
	if p.FailingContainer == "" || p.Spec == nil {
		return ""
	}
	for _, c := range p.Spec.Containers {
		if c.Name == p.FailingContainer {
			return c.Image
		}
	}
	return ""
}

// Owner is the controller of a pod: "ReplicaSet", "StatefulSet", "DaemonSet", "Job", or of a kind that is not Kubernetes' own, with its
// group: "StrimziPodSet.core.strimzi.io".
type Owner struct{ Kind, Name string }

// PodTemplateHash is the label by which a Deployment tells the pods of its ReplicaSets apart.
const PodTemplateHash = "pod-template-hash"

// Workload is what makes p, as people name it: its Owner, or the Deployment behind a ReplicaSet, which is named after it and the hash of
// its template.
func (p *Pod) Workload() Owner {
	if p.Owner.Kind == "ReplicaSet" && p.Spec != nil {
		if hash := p.Spec.Labels[PodTemplateHash]; hash != "" && strings.HasSuffix(p.Owner.Name, "-"+hash) {
			return Owner{"Deployment", strings.TrimSuffix(p.Owner.Name, "-"+hash)}
		}
	}
	return p.Owner
}

// Makers are the objects behind controllers of pods, by namespace and controller.
type Makers map[string]map[Owner]string

// NewMakers returns those of controllers.
func NewMakers(controllers []Controller) Makers {
	m := Makers{}
	for _, c := range controllers {
		if c.Maker == "" {
			continue
		}
		if m[c.Namespace] == nil {
			m[c.Namespace] = map[Owner]string{}
		}
		m[c.Namespace][c.Owner] = c.Maker
	}
	return m
}

// Of says in words which object says how many pods like p there are, where an operator makes them by it; "" for none. Where the owner
// of a pod is of no kind of Kubernetes' own, it is that.
func (m Makers) Of(p *Pod) string {
	switch w := p.Workload(); w.Kind {
	case "", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "Node":
		return m[p.Namespace][w]
	default:
		return text.Line(w.Kind + " " + w.Name)
	}
}

// Controller says how a controller creates pods.
type Controller struct {
	Namespace string
	Owner
	// Parallel is podManagementPolicy Parallel of a StatefulSet. Any other makes a pod only when
	// those of lower ordinals are ready.
	Parallel bool
	// First is the lowest ordinal of a StatefulSet.
	First int32
	// Template are the containers of the pods that a StatefulSet makes from now on, if they may differ from those of the pods that are
	// there: by updateStrategy OnDelete, or while an update is under way.
	Template []Container
	// Maker is what owns it in turn, in words ("Kafka main"), and takes changes of others back; "" for none.
	Maker string
	// Failure is why a ReplicaSet or ReplicationController could not make its last pod (condition
	// ReplicaFailure), "" if it could; cut.
	Failure string
}

// PodSpec is the part of a pod that the scheduler, the kubelet and budgets go by.
type PodSpec struct {
	// Labels are those of the pod: budgets and (anti-)affinity select by them.
	Labels map[string]string
	// Containers are init containers, then the others, then image volumes (which have no
	// name).
	Containers []Container
	// NodeSelector, Affinity, Tolerations and Spread are as in the pod's spec.
	NodeSelector map[string]string
	Affinity     *corev1.Affinity
	Tolerations  []corev1.Toleration
	Spread       []corev1.TopologySpreadConstraint
	// HostPorts are those that containers take on the node's own addresses.
	HostPorts []HostPort
	// Requests is what the scheduler reckons with: the larger of init containers and the sum
	// of the others, with the overhead.
	Requests corev1.ResourceList
	// Claims are the names of PersistentVolumeClaims. Those of ephemeral volumes end with their pod, and the next one gets others.
	Claims []string
	// Priority is that of the pod; Preempts says that it may push others out.
	Priority int32
	Preempts bool
	// GracePeriod is how long it may take to end.
	GracePeriod time.Duration
	// Gated says that the pod has scheduling gates, and waits for somebody to lift them.
	Gated bool
	// Once says that it is not to run for ever (restartPolicy OnFailure or Never).
	Once bool
	// Scheduler is the name of its scheduler, "" for the default one.
	Scheduler string
	// PullSecrets are the names of those that it names itself, sorted, each once, without OpenShift's
	// own for the internal registry.
	PullSecrets []string
	// Security is the strictest level of the Pod Security Standards that it meets by each of their
	// versions since OldestStandards, "" if it is privileged or not known.
	Security SecurityLevel
	// Unset are the resources that a ResourceQuota can require each container to set, and that one does
	// not.
	Unset []corev1.ResourceName
}

// Tolerates restates Toleration.ToleratesTaint, which logs, without the comparison operators, which
// are behind a feature gate that is off by default.
func (s *PodSpec) Tolerates(taint *corev1.Taint) bool {
	return slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			return false
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case "", corev1.TolerationOpEqual:
			return t.Value == taint.Value
		default:
			return false
		}
	})
}

// RequiredNodes returns which nodes the selector and the affinity to nodes allow.
func (s *PodSpec) RequiredNodes() nodeaffinity.RequiredNodeAffinity {
	return nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: s.NodeSelector, Affinity: s.Affinity}})
}

// SecurityLevel is one of the Pod Security Standards.
type SecurityLevel string

// The levels above privileged, which is "".
const (
	Baseline   SecurityLevel = "baseline"
	Restricted SecurityLevel = "restricted"
)

// EnforceLabel is the label by which a namespace forbids pods that do not meet a level
// (https://kubernetes.io/docs/concepts/security/pod-security-admission/).
const EnforceLabel = "pod-security.kubernetes.io/enforce"

// EnforceVersionLabel is the label by which it does so as a version of Kubernetes had it, "v1.24" or
// "latest". OldestStandards is the oldest 1.x of those that pods are held to here: OpenShift's own
// namespaces have it.
const (
	EnforceVersionLabel = EnforceLabel + "-version"
	OldestStandards     = 24
)

// Meets reports whether pods that meet l are allowed in a namespace with these labels. A level that is not
// known is taken for restricted, and a version for the latest, as the API server does; by versions
// older than OldestStandards it is not known what pods meet.
func (l SecurityLevel) Meets(namespace map[string]string) bool {
	level := SecurityLevel(namespace[EnforceLabel])
	switch level {
	case "", "privileged":
		return true
	}
	if minor, pinned := strings.CutPrefix(namespace[EnforceVersionLabel], "v1."); pinned {
		if n, err := strconv.Atoi(minor); err == nil && n < OldestStandards {
			return false
		}
	}
	return l == Restricted || l == Baseline && level == Baseline
}

// Container is an image that a kubelet has to pull before a pod starts.
type Container struct {
	Name, Image string
	// Pull is the policy, never "": the API server sets it.
	Pull corev1.PullPolicy
}

// Pull is an answer to the question whether nodes can pull an image.
type Pull int

// The answers.
const (
	PullUnknown Pull = iota
	PullWorks
	PullFails
)

// HostPort is a port on a node. IP is "" for all addresses.
type HostPort struct {
	IP       string
	Protocol corev1.Protocol
	Port     int32
}

// Conflicts reports whether p and other cannot both be taken on one node (HostPortInfo.CheckConflict
// of the scheduler).
func (p HostPort) Conflicts(other HostPort) bool {
	return p.Port == other.Port && p.Protocol == other.Protocol && (p.IP == other.IP || p.IP == "" || other.IP == "")
}
