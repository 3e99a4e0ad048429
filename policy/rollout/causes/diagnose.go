package causes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// Diagnose says why the nodes and pools of a cluster do not move, by its objects and in.Evidence.
// Set is the mirror configuration in force.
func Diagnose(in status.Input, set mirrors.Set) Diagnosis {
	s := status.Of(in)
	d := diagnosis{Input: in, set: set, budgets: newBudgets(in.Cluster.Budgets), makers: rollout.NewMakers(in.Cluster.Controllers), refusals: map[string]int{}, allowed: map[podKind][]*corev1.Node{}}
	d.Lookup = status.NewLookup(&d.Input)
	d.HoldUps = []HoldUp{}
	d.sort(&s)
	d.resolution, d.rejected = mirrors.NewResolution(set)
	d.pools = s.Pools
	d.cluster(&s)
	for i := range s.Pools {
		d.pool(&s.Pools[i])
	}
	d.operator(&s)
	d.accessed()
	d.Notes = append(d.Notes, in.Evidence.Notes...)
	d.finish()
	return d.Diagnosis
}

// sort tells what may hide a hold-up from what does not.
func (d *diagnosis) sort(s *status.Status) {
	d.Unknown = slices.Clone(s.Hiding)
	for _, n := range s.Notes {
		if !slices.Contains(s.Hiding, n) {
			d.Notes = append(d.Notes, n)
		}
	}
	for _, resource := range []string{"pods", "poddisruptionbudgets"} {
		if slices.Contains(d.Cluster.Unknown, resource) {
			d.Unknown = append(d.Unknown, d.UnreadText(resource, "what holds drains up is not known"))
		}
	}
	for _, resource := range []string{"deployments", "statefulsets"} {
		if slices.Contains(d.Cluster.Unknown, resource) {
			d.Notes = append(d.Notes, d.UnreadText(resource, "whether an operator takes back what is done to them is not known"))
		}
	}
	if d.MirrorsUnknown != nil {
		d.Unknown = append(d.Unknown, "whether MCO rejects the mirror objects, or has not rendered them, is not known: "+text.Line(d.MirrorsUnknown.Error()))
	}
}

// finish joins hold-ups of one cause.
func (d *diagnosis) finish() {
	type key struct {
		cause         Cause
		pool, subject string
	}
	first := map[key]int{}
	var joined []HoldUp
	for _, h := range d.HoldUps {
		k := key{h.Cause, h.Pool, h.subject}
		i, known := first[k]
		if h.subject == "" || !known {
			first[k] = len(joined)
			joined = append(joined, h)
			continue
		}
		joined[i].AlsoNodes = append(joined[i].AlsoNodes, h.Node)
	}
	for i := range joined {
		joined[i].countPods()
	}
	d.HoldUps = append([]HoldUp{}, joined...)
}

// accessed notes which nodes somebody has logged into.
func (d *diagnosis) accessed() {
	var names []string
	for _, n := range d.Cluster.Nodes {
		if n.Annotations[sshAccess] != "" {
			names = append(names, n.Name)
		}
	}
	if len(names) > 0 {
		d.Notes = append(d.Notes, "somebody has logged in by ssh, and may have changed files (annotation "+sshAccess+"): "+text.Names(names, status.Shown))
	}
}

// sshAccess is the annotation by which MCO told, until OpenShift 4.17 or so, that somebody has
// logged into the node.
const sshAccess = "machineconfiguration.openshift.io/ssh"
