package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
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
		p := platformOf(n)
		if p == "" {
			return nil
		}
		found[p] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// platformOf returns the platform of a node, "" if it does not say. One that does not say its
// operating system runs Linux: kubelets have said it since Kubernetes 1.4, dumps may leave it out.
func platformOf(n *corev1.Node) string {
	info := n.Status.NodeInfo
	if info.Architecture == "" {
		return ""
	}
	return cmp.Or(info.OperatingSystem, "linux") + "/" + info.Architecture
}

// maxPlacements bounds the different placements of one change that are compared with all nodes. Beyond
// that, pods may run on nodes of any platform: users who name images must not be able to keep the guard
// busy without end.
const maxPlacements = 1000

// A nodeSite holds the platforms of the nodes on which pods may run, and what a change does that is the same for all. It is safe for concurrent use.
type nodeSite struct {
	nodes     []*corev1.Node
	platforms []string // of all nodes
	// podsListed reports whether all pods of a namespace are known, so that what none of them has run did not run lately.
	podsListed func(namespace string) bool
	insecure   []string            // insecureRegistries after the change
	never      map[string][]string // the objects behind NeverContactSource after the change, by source
	unknown    bool                // whether there are nodes, or may be, whose platforms are not known

	mu    sync.Mutex
	known map[*Placement][]string
}

// siteOf returns the site of nodes, with gaps beside them and with Cluster.PodsListed.
func siteOf(nodes []*corev1.Node, gaps []Gap, podsListed func(string) bool) *nodeSite {
	platforms := PlatformsOf(nodes)
	lacks := func(kind string) bool {
		return slices.ContainsFunc(gaps, func(g Gap) bool { return g.Kind == kind })
	}
	listed := podsListed
	if listed == nil || lacks("Pod") {
		listed = func(string) bool { return false }
	}
	return &nodeSite{
		nodes: nodes, platforms: platforms, podsListed: listed,
		unknown: lacks(NodeKind) || len(nodes) > 0 && platforms == nil,
	}
}

// InEveryNamespace is a Cluster.PodsListed where all pods were listed.
func InEveryNamespace(string) bool { return true }

// isUnknown reports whether nodes may be for platforms that are not known.
func (s *nodeSite) isUnknown() bool { return s != nil && s.unknown }

// mayRunOn reports whether one of consumers may have nodes of a platform pull: of the form of
// PlatformsOf, or with a variant behind it, as indexes have it. History counts only where there is
// nothing else. A part of an index that does not say its platform may be for any.
func (s *nodeSite) mayRunOn(consumers []Consumer, platform string) bool {
	if !isNamed(platform) {
		return true
	}
	history := Image{Consumers: consumers}.Use() == History
	return len(consumers) == 0 || slices.ContainsFunc(consumers, func(c Consumer) bool {
		return (history || c.Use != History) && (c.Placement == nil || s.fits(c.Placement, platform))
	})
}

// isNamed reports whether a platform is one that nodes can have. Attestations of an image have
// "unknown/unknown", and a part may have none.
func isNamed(platform string) bool {
	os, arch, found := strings.Cut(platform, "/")
	return found && os != "" && arch != "" && !strings.ContainsAny(platform, " \t") && os != "unknown" && !strings.HasPrefix(arch, "unknown")
}

func (s *nodeSite) fits(placement *Placement, platform string) bool {
	of := s.platformsOf(placement)
	if of == nil {
		return placement.allows(platform)
	}
	return slices.ContainsFunc(of, func(p string) bool { return platform == p || strings.HasPrefix(platform, p+"/") })
}

// platformsOf returns the platforms of the nodes on which pods may run, nil if it is not known: no
// node fits today, or they were not asked.
func (s *nodeSite) platformsOf(p *Placement) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of, known := s.known[p]; known {
		return of
	}
	if len(s.known) >= maxPlacements {
		return nil
	}
	if s.known == nil {
		s.known = map[*Placement][]string{}
	}
	of := s.fitting(p)
	s.known[p] = of
	return of
}

func (s *nodeSite) fitting(p *Placement) []string {
	var of []string
	selector := nodeaffinity.NewRequiredNodeAffinity(p.NodeSelector, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: p.NodeAffinity}})
	for _, n := range s.nodes {
		platform := platformOf(n)
		if p.Node != "" && n.Name == p.Node {
			if platform == "" {
				return nil
			}
			return []string{platform}
		}
		if p.Node != "" || slices.Contains(of, platform) || !p.allows(platform) || !p.tolerates(n) {
			continue
		}
		fits, err := selector.Match(n)
		if err != nil || fits && platform == "" {
			return nil
		}
		if fits {
			of = append(of, platform)
		}
		if len(of) == len(s.platforms) {
			break
		}
	}
	return of
}

// allows reports whether the pods may run on nodes of a platform, by what every node says of its own:
// the architecture and the operating system.
func (p *Placement) allows(platform string) bool {
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

// tolerates reports whether a taint of Windows does not keep the pods from a node. No other taint
// counts: most come and go.
func (p *Placement) tolerates(n *corev1.Node) bool {
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

// forItsNodes returns f, the fact about a place that has the image, for the nodes that pods of the image
// may run on: its parts for others do not matter, nor, where signatures are wanted, theirs.
func (r *Reroute) forItsNodes(f *Fact, signatures bool) *Fact {
	if r.site == nil || f.isWhole() && (!signatures || len(f.Instances) < 2) {
		return f
	}
	mayRun := map[string]bool{}
	of := func(platforms []string) []string {
		return slices.DeleteFunc(slices.Clone(platforms), func(p string) bool {
			may, known := mayRun[p]
			if !known {
				may = r.site.mayRunOn(r.Image.Consumers, p)
				mayRun[p] = may
			}
			return !may
		})
	}
	its := *f
	its.Missing, its.Lacks = of(f.Missing), of(f.Lacks)
	its.Instances = slices.DeleteFunc(slices.Clone(f.Instances), func(i Instance) bool { return i.Platform != "" && len(of([]string{i.Platform})) == 0 })
	if len(its.Instances) == 0 {
		its.Instances = f.Instances
	}
	if len(its.Missing) == len(f.Missing) && len(its.Lacks) == len(f.Lacks) && len(its.Instances) == len(f.Instances) {
		return f
	}
	return &its
}
