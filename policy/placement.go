package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A Placement is the set of nodes on which the pods of a consumer may run. The zero value is any, except for
// those that only pods for Windows tolerate. Consumers share it, and it must not be changed.
type Placement struct {
	// Node is the node of a pod that never leaves it: one that no controller would recreate
	// elsewhere. The other fields do not matter then.
	Node string `json:"node,omitempty"`
	// NodeSelector and NodeAffinity, which is the required one, are those of the pod's spec.
	NodeSelector map[string]string    `json:"nodeSelector,omitempty"`
	NodeAffinity *corev1.NodeSelector `json:"nodeAffinity,omitempty"`
	// OS is the pod's spec.os.name.
	OS string `json:"os,omitempty"`
	// Tolerations are those that a taint of Windows' nodes may meet.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// PlatformsOf returns the platforms of nodes, as Go names them ("linux/amd64"), sorted,
// each once. Nil if they are not known: there are no nodes, or one does not say it.
func PlatformsOf(nodes []*corev1.Node) []string {
	found := map[string]bool{}
	for _, n := range nodes {
		p := PlatformOf(n)
		if p == "" {
			return nil
		}
		found[p] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// PlatformOf returns the platform of a node, "" if it does not say. One that does not say its
// operating system runs Linux: kubelets have said it since Kubernetes 1.4, dumps may leave it out.
func PlatformOf(n *corev1.Node) string {
	info := n.Status.NodeInfo
	if info.Architecture == "" {
		return ""
	}
	return cmp.Or(info.OperatingSystem, "linux") + "/" + info.Architecture
}

// Allows reports whether the pods may run on nodes of a platform, by what every node says of its own:
// the architecture and the operating system.
func (p *Placement) Allows(platform string) bool {
	os, arch, _ := strings.Cut(platform, "/")
	arch, _, _ = strings.Cut(arch, "/")
	labels := map[string]string{
		corev1.LabelArchStable: arch, corev1.LabelOSStable: os, "beta.kubernetes.io/arch": arch, "beta.kubernetes.io/os": os,
	}
	if platform == "" || p.Node != "" {
		return true
	}
	if p.OS != "" && p.OS != os {
		return false
	}
	for key, value := range p.NodeSelector {
		if has, ok := labels[key]; ok && has != value {
			return false
		}
	}
	if p.NodeAffinity == nil || len(p.NodeAffinity.NodeSelectorTerms) == 0 {
		return true
	}
	return slices.ContainsFunc(p.NodeAffinity.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			has, ok := labels[r.Key]
			switch {
			case !ok:
				return false
			case r.Operator == corev1.NodeSelectorOpIn:
				return !slices.Contains(r.Values, has)
			case r.Operator == corev1.NodeSelectorOpNotIn:
				return slices.Contains(r.Values, has)
			default:
				return r.Operator == corev1.NodeSelectorOpDoesNotExist
			}
		})
	})
}

// Tolerates reports whether a taint of Windows does not keep the pods from a node. No other taint
// counts: most come and go.
func (p *Placement) Tolerates(n *corev1.Node) bool {
	return !slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool {
		return isOfWindows(taint) && !slices.ContainsFunc(p.Tolerations, func(t corev1.Toleration) bool {
			return t.Operator == corev1.TolerationOpExists && (t.Key == "" || t.Key == taint.Key) || t.Key == taint.Key && strings.EqualFold(t.Value, taint.Value)
		})
	})
}

// WindowsTaint is the key of the taint by which nodes that run Windows keep other pods away:
// os=Windows:NoSchedule (docs.openshift.com, "Scheduling Windows container workloads").
const WindowsTaint = "os"

func isOfWindows(taint corev1.Taint) bool {
	return taint.Key == WindowsTaint && strings.EqualFold(taint.Value, "Windows") && (taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute)
}

// Windows is the operating system of nodes that run Windows, as Go names it.
const Windows = "windows"

// IsWindows reports whether a platform is of nodes that run Windows.
func IsWindows(platform string) bool { return strings.HasPrefix(platform, Windows+"/") }

// ReleaseArchitecture returns the architecture of a release, as oc-mirror calls it: "multi", or that of nodes; "" where they say
// none, or several, which a release for one cannot have.
func ReleaseArchitecture(multi bool, nodes []*corev1.Node) string {
	if multi {
		return "multi"
	}
	architecture := ""
	for _, platform := range PlatformsOf(nodes) {
		of, isLinux := strings.CutPrefix(platform, "linux/")
		if !isLinux {
			continue // nodes of Windows run none of it
		}
		if of, _, _ = strings.Cut(of, "/"); architecture != "" && of != architecture {
			return ""
		}
		architecture = of
	}
	return architecture
}
