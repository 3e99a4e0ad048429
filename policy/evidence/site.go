package evidence

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// RunOnWindows reports whether there are pods among consumers that only nodes with Windows may run. Their mirrors are
// written by the Windows Machine Config Operator, as hosts.toml of containerd for each registry (pkg/registries/registries.go of
// openshift/windows-machine-config-operator at b80a137bb8e8): other places are asked there, in another order.
func (s *NodeSite) RunOnWindows(consumers []policy.Consumer) bool {
	return s != nil && slices.ContainsFunc(s.Platforms, policy.IsWindows) && slices.ContainsFunc(consumers, func(c policy.Consumer) bool {
		if c.Use == policy.History || c.Placement == nil {
			return false
		}
		of := s.platformsOf(c.Placement)
		return c.Placement.OS == policy.Windows || len(of) > 0 && !slices.ContainsFunc(of, func(p string) bool { return !policy.IsWindows(p) })
	})
}

// maxPlacements bounds the different placements of one change that are compared with all nodes. Beyond
// that, pods may run on nodes of any platform: users who name images must not be able to keep the guard
// busy without end.
const maxPlacements = 1000

// A NodeSite holds the platforms of the nodes on which pods may run, and what a change does that is the same for all. It is safe for concurrent use.
type NodeSite struct {
	nodes     []*corev1.Node
	Platforms []string // of all nodes
	// podsListed reports whether all pods of a namespace are known, so that what none of them has run did not run lately.
	podsListed func(namespace string) bool
	Insecure   []string            // insecureRegistries after the change
	Never      map[string][]string // the objects behind NeverContactSource after the change, by source
	unknown    bool                // whether there are nodes, or may be, whose platforms are not known

	mu    sync.Mutex
	known map[*policy.Placement][]string
}

// SiteOf returns the site of nodes, with gaps beside them and with plan.Cluster.PodsListed.
func SiteOf(nodes []*corev1.Node, gaps []policy.Gap, podsListed func(string) bool) *NodeSite {
	platforms := policy.PlatformsOf(nodes)
	lacks := func(kind string) bool {
		return slices.ContainsFunc(gaps, func(g policy.Gap) bool { return g.Kind == kind })
	}
	listed := podsListed
	if listed == nil || lacks("Pod") {
		listed = func(string) bool { return false }
	}
	return &NodeSite{
		nodes: nodes, Platforms: platforms, podsListed: listed,
		unknown: lacks(policy.NodeKind) || len(nodes) > 0 && platforms == nil,
	}
}

// IsUnknown reports whether nodes may be for platforms that are not known.
func (s *NodeSite) IsUnknown() bool { return s != nil && s.unknown }

// MayRunOn reports whether one of consumers may have nodes of a platform pull: of the form of
// PlatformsOf, or with a variant behind it, as indexes have it. History counts only where there is
// nothing else. A part of an index that does not say its platform may be for any.
func (s *NodeSite) MayRunOn(consumers []policy.Consumer, platform string) bool {
	if !isNamed(platform) {
		return true
	}
	history := policy.Image{Consumers: consumers}.Use() == policy.History
	return len(consumers) == 0 || slices.ContainsFunc(consumers, func(c policy.Consumer) bool {
		return (history || c.Use != policy.History) && (c.Placement == nil || s.fits(c.Placement, platform))
	})
}

// isNamed reports whether a platform is one that nodes can have. Attestations of an image have
// "unknown/unknown", and a part may have none.
func isNamed(platform string) bool {
	os, arch, found := strings.Cut(platform, "/")
	return found && os != "" && arch != "" && !strings.ContainsAny(platform, " \t") && os != "unknown" && !strings.HasPrefix(arch, "unknown")
}

func (s *NodeSite) fits(placement *policy.Placement, platform string) bool {
	of := s.platformsOf(placement)
	if of == nil {
		return placement.Allows(platform)
	}
	return slices.ContainsFunc(of, func(p string) bool { return platform == p || strings.HasPrefix(platform, p+"/") })
}

// platformsOf returns the platforms of the nodes on which pods may run, nil if it is not known: no
// node fits today, or they were not asked.
func (s *NodeSite) platformsOf(p *policy.Placement) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of, known := s.known[p]; known {
		return of
	}
	if len(s.known) >= maxPlacements {
		return nil
	}
	if s.known == nil {
		s.known = map[*policy.Placement][]string{}
	}
	of := s.fitting(p)
	s.known[p] = of
	return of
}

func (s *NodeSite) fitting(p *policy.Placement) []string {
	var of []string
	selector := nodeaffinity.NewRequiredNodeAffinity(p.NodeSelector, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: p.NodeAffinity}})
	for _, n := range s.nodes {
		platform := policy.PlatformOf(n)
		if p.Node != "" && n.Name == p.Node {
			if platform == "" {
				return nil
			}
			return []string{platform}
		}
		if p.Node != "" || slices.Contains(of, platform) || !p.Allows(platform) || !p.Tolerates(n) {
			continue
		}
		fits, err := selector.Match(n)
		if err != nil || fits && platform == "" {
			return nil
		}
		if fits {
			of = append(of, platform)
		}
		if len(of) == len(s.Platforms) {
			break
		}
	}
	return of
}

// forNodesOf returns f, the fact about a place that has an image, for the nodes that pods among its consumers
// may run on: its parts for others do not matter, nor, where signatures are wanted, theirs.
func (s *NodeSite) forNodesOf(consumers []policy.Consumer, f *policy.Fact, signatures bool) *policy.Fact {
	if s == nil || f.IsWhole() && (!signatures || len(f.Instances) < 2) {
		return f
	}
	mayRun := map[string]bool{}
	of := func(platforms []string) []string {
		return slices.DeleteFunc(slices.Clone(platforms), func(p string) bool {
			may, known := mayRun[p]
			if !known {
				may = s.MayRunOn(consumers, p)
				mayRun[p] = may
			}
			return !may
		})
	}
	its := *f
	its.Missing, its.Lacks = of(f.Missing), of(f.Lacks)
	its.Instances = slices.DeleteFunc(slices.Clone(f.Instances), func(i policy.Instance) bool { return i.Platform != "" && len(of([]string{i.Platform})) == 0 })
	if len(its.Instances) == 0 {
		its.Instances = f.Instances
	}
	if len(its.Missing) == len(f.Missing) && len(its.Lacks) == len(f.Lacks) && len(its.Instances) == len(f.Instances) {
		return f
	}
	return &its
}
