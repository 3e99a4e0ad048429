package policy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const windows = "windows"

// runOnWindows reports whether there are pods among consumers that only nodes with Windows may run. Their mirrors are
// written by the Windows Machine Config Operator, as hosts.toml of containerd for each registry (pkg/registries/registries.go of
// openshift/windows-machine-config-operator at b80a137bb8e8): other places are asked there, in another order.
func (s *nodeSite) runOnWindows(consumers []Consumer) bool {
	return s.hasWindows() && slices.ContainsFunc(consumers, func(c Consumer) bool {
		if c.Use == History || c.Placement == nil {
			return false
		}
		of := s.platformsOf(c.Placement)
		return c.Placement.OS == windows || len(of) > 0 && !slices.ContainsFunc(of, func(p string) bool { return !isWindows(p) })
	})
}

// RunOnWindows reports whether there are pods among consumers that of nodes only those with Windows may run.
func RunOnWindows(consumers []Consumer, nodes []*corev1.Node) bool {
	return siteOf(nodes, nil, nil).runOnWindows(consumers)
}

func (s *nodeSite) hasWindows() bool { return s != nil && slices.ContainsFunc(s.platforms, isWindows) }

func isWindows(platform string) bool { return strings.HasPrefix(platform, windows+"/") }

const hostedClusterKind = "HostedCluster"

// ElsewhereNotes names the nodes for which a change of mirrors was not judged, as they get theirs by
// other rules than the Machine Config Operator's.
func (p ChangePlan) ElsewhereNotes() []string {
	if (mirrors.Set{Objects: p.change.Before.Objects}).Equal(mirrors.Set{Objects: p.change.After.Objects}) {
		return nil
	}
	return p.elsewhere()
}

// ElsewhereNotes is that of a ChangePlan for the mirrors in force.
func (p StandingPlan) ElsewhereNotes() []string {
	if len(p.entries) == 0 {
		return nil
	}
	return p.elsewhere()
}

func (p Plan) elsewhere() []string {
	onWindows, hosted := 0, map[string]bool{}
	for img := range p.known.Images.All() {
		onWindows += b2i(p.site.runOnWindows(img.Consumers))
		for _, c := range img.Consumers {
			if c.Kind == hostedClusterKind {
				hosted[c.Namespace+"/"+c.Name] = true
			}
		}
	}
	var notes []string
	if onWindows > 0 {
		notes = append(notes, "not verified: Windows nodes, which run "+text.Count(onWindows, "image")+
			": the Windows Machine Config Operator gives them mirrors by rules of its own, for whole registries")
	}
	if n := len(hosted); n > 0 {
		notes = append(notes, "not judged: "+text.Plural(n, "hosted cluster, whose control plane and nodes take", "hosted clusters, whose control planes and nodes take")+
			" mirrors from spec.imageContentSources, and of this cluster's objects none whose source is a whole registry")
	}
	return notes
}
