package rollouts

import (
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
)

// A target is the rendered config that a pool is to get, and the result of comparing it with the mirror
// objects.
type target struct {
	config string
	// with is what it was last compared with, differs whether it differed, since when.
	with    *mirrors.Set
	differs bool
	since   time.Time
	told    bool
}

// rendersWithin is how long MCO may take to render what objects ask for: it waits some seconds for more
// of them to change, and may have others to do.
const rendersWithin = time.Minute

// compareTargets reports pools that are to get something else than the mirror objects ask for, before any
// node has it, and whatever its cause: webhooks see mirror objects, and not all else that MCO renders
// from.
func (r *run) compareTargets(now time.Time) {
	if r.set == nil || r.options.Differs == nil {
		return
	}
	in := r.input
	in.Cluster.Pools = slices.DeleteFunc(slices.Clone(in.Cluster.Pools), func(p *mcfgv1.MachineConfigPool) bool {
		known := r.targets[p.Name]
		return in.Rendered[p.Spec.Configuration.Name] == nil || known.config == p.Spec.Configuration.Name && (known.with == r.set && !known.differs || known.told)
	})
	found := map[string]verify.TargetDifference{}
	for _, d := range verify.TargetDifferences(in, *r.set) {
		found[d.Pool] = d
	}
	for _, p := range in.Cluster.Pools {
		t := r.targets[p.Name]
		if t.config != p.Spec.Configuration.Name {
			t = target{config: p.Spec.Configuration.Name}
		}
		d, differs := found[p.Name]
		if differs && !t.differs {
			t.since = now
		}
		t.with, t.differs = r.set, differs
		if t.told = differs && now.Sub(t.since) >= rendersWithin; t.told {
			r.options.Differs(d)
		} else if differs {
			r.reader.Forget() // the objects may be newer than the target, or have changed since
		}
		r.targets[p.Name] = t
	}
}
