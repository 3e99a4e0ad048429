package images

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// maxPlacement bounds a Reference.Placement, in bytes: tenants decide how long an affinity is.
const maxPlacement = 2 << 10

// placementOf returns the nodes that pods may run on by their spec, as in
// Reference.Placement. The node is that which the pod never leaves, "" for none.
func placementOf(spec *corev1.PodSpec, node string) string {
	p := policy.Placement{Node: node}
	if node == "" {
		p.NodeSelector = spec.NodeSelector
		if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
			p.NodeAffinity = spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		}
		if spec.OS != nil {
			p.OS = string(spec.OS.Name)
		}
		for _, t := range spec.Tolerations {
			if t.Key == "" || t.Key == policy.WindowsTaint {
				p.Tolerations = append(p.Tolerations, corev1.Toleration{Key: t.Key, Operator: t.Operator, Value: t.Value})
			}
		}
	}
	return EncodePlacement(&p)
}

// EncodePlacement returns p as in Reference.Placement: as not known if it is too long.
func EncodePlacement(p *policy.Placement) string {
	if p == nil {
		return ""
	}
	data, err := json.Marshal(p)
	if err != nil || len(data) > maxPlacement {
		return ""
	}
	return string(data)
}

// stayingOn returns the node of a pod that nothing recreates on another: one without a controller, or
// one of a kubelet's own. "" for any other pod: its replacement may come to any node that it fits.
func stayingOn(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner == nil || owner.Kind == "Node" {
		return pod.Spec.NodeName
	}
	return ""
}

// withoutOwnNode returns the spec of a pod without the affinity by which a DaemonSet has it on its very
// node: there is one such pod on each, and the DaemonSet says on which.
func withoutOwnNode(pod *corev1.Pod) *corev1.PodSpec {
	if owner := metav1.GetControllerOfNoCopy(pod); owner == nil || owner.Kind != "DaemonSet" || pod.Spec.Affinity == nil {
		return &pod.Spec
	}
	spec := pod.Spec
	spec.Affinity = nil
	return &spec
}

// ofEnding returns r for an object that is being deleted. An object that has a controller whose template
// is read is recreated from that, if at all.
func (r Reference) ofEnding(o metav1.Object) Reference {
	if o.GetDeletionTimestamp() == nil || r.Keeper != (schema.GroupKind{}) {
		return r
	}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		r.Keeper = kindOfOwner(owner)
		return r
	}
	r.Ending = true
	return r
}

func kindOfOwner(owner *metav1.OwnerReference) schema.GroupKind {
	return CurrentKind(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind())
}
