package plan

import (
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const hostedClusterKind = "HostedCluster"

// ElsewhereNotes names the nodes for which a change of mirrors was not judged, as they get theirs by
// other rules than the Machine Config Operator's.
func (p ChangePlan) ElsewhereNotes() []string {
	if (mirrors.Set{Objects: p.Change.Before.Objects}).Equal(mirrors.Set{Objects: p.Change.After.Objects}) {
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
	for img := range p.Known.Images.All() {
		onWindows += policy.Bit(p.Site.RunOnWindows(img.Consumers))
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

// InEveryNamespace is a Cluster.PodsListed where all pods were listed.
func InEveryNamespace(string) bool { return true }
