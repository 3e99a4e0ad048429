package forecast

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// pullOutcomes are the results of pulls before and after a change, of images that it reroutes and of
// others: a drain has all of them pulled again. They are not safe for concurrent use.
type pullOutcomes struct {
	plan  *plan.Plan
	facts policy.Facts
	// rerouted are those that the change reroutes, by reference.
	rerouted map[string][]*evidence.Case
	// known are the answers so far, nil for references that no node can parse.
	known map[pullOf]*evidence.Case
	// counted are those among MovedCounts.
	counted map[*evidence.Case]bool
}

// A pullOf is an image for pods of a namespace, where those are held to a signature policy of
// their own, on the nodes of a pool.
type pullOf struct{ ref, namespace, pool string }

func pulls(p *plan.Plan, facts policy.Facts) *pullOutcomes {
	all := &pullOutcomes{plan: p, facts: facts, rerouted: map[string][]*evidence.Case{}, known: map[pullOf]*evidence.Case{}, counted: map[*evidence.Case]bool{}}
	for i := range p.Reroutes {
		if p.Reroutes[i].Puller != mirrors.Nodes {
			continue // no drain depends on it
		}
		ref := p.Reroutes[i].Image.Ref
		all.rerouted[ref] = append(all.rerouted[ref], evidence.Assess(&p.Settings, &p.Reroutes[i], facts))
	}
	return all
}

// pull implements simulation.Input. A pull whose places were not looked up is unknown.
func (p *pullOutcomes) pull(image, namespace, pool string, updated bool) rollout.Pull {
	a := p.assess(image, namespace, pool)
	switch {
	case a == nil:
		return rollout.PullFails
	case updated:
		return pullAfter(a)
	default:
		return pullFor(a.OutcomeBefore)
	}
}

func pullAfter(a *evidence.Case) rollout.Pull {
	switch {
	case a.After.Err != nil || a.After.Refused != "":
		return rollout.PullFails
	default:
		return pullFor(a.OutcomeAfter)
	}
}

func pullFor(o evidence.Outcome) rollout.Pull {
	switch {
	case o.Found():
		return rollout.PullWorks
	case o == evidence.Fails:
		return rollout.PullFails
	default:
		return rollout.PullUnknown
	}
}

// assess returns the case of an image for pods of a namespace on the nodes of a pool; nil if
// no node can parse the reference.
func (p *pullOutcomes) assess(image, namespace, pool string) *evidence.Case {
	ref := strings.TrimSpace(image)
	routes := p.plan.Routes.On(pool)
	key := pullOf{ref, "", pool}
	if _, own := slices.BinarySearch(routes.Own, namespace); own && routes.DiffersIn(namespace, ref) {
		key.namespace = namespace
	}
	a, ok := p.known[key]
	if !ok {
		if a = p.reroutedAs(key); a == nil {
			a = p.settled(key, namespace, routes)
		}
		p.known[key] = a
	}
	return a
}

// reroutedAs returns the case of what the change reroutes, nil for what it does not.
func (p *pullOutcomes) reroutedAs(key pullOf) *evidence.Case {
	for _, a := range p.rerouted[key.ref] {
		if a.Namespace == key.namespace && (len(a.Pools) == 0 || slices.Contains(a.Pools, key.pool)) {
			return a
		}
	}
	return nil
}

// settled returns the case of what the change leaves on its route.
func (p *pullOutcomes) settled(key pullOf, namespace string, routes *plan.PoolRoutes) *evidence.Case {
	route, err := routes.After.Route(key.ref, key.namespace)
	if err != nil {
		return nil
	}
	r := &evidence.Reroute{Image: plan.AsPulled(&p.plan.Settings, p.plan.Known.Images.Find(key.ref), &route, p.plan.Known), Namespace: key.namespace, Before: route, After: route, Settled: true}
	if len(r.Image.Consumers) == 0 {
		r.Image.Consumers = []policy.Consumer{{Kind: "Pod", Namespace: namespace, Use: policy.Running}}
	}
	if other := p.plan.Known.OtherCredentials; other != nil {
		r.OtherCredentials = other(key.ref)
	}
	p.plan.SetDepth(r)
	a := evidence.Assess(&p.plan.Settings, r, p.facts)
	a.OutcomeBefore = a.OutcomeAfter // where the same is proved of both
	return a
}

// lookups adds what has yet to be looked up to know whether nodes get what a is about, by its
// old route as well: first the mirrors, then the rest.
func (p *pullOutcomes) lookups(q *evidence.Lookups, a *evidence.Case) {
	was := len(q.List) + q.Open
	q.AskOn(&a.After, true)
	q.AskOn(&a.Before, true)
	if len(q.List)+q.Open > was {
		return
	}
	q.AskAfterMirrors(a.Reroute)
	if after := a.WeighBefore(q.Facts); !after.Pull(false).Found() {
		q.AskOn(&a.Before, false)
	}
	q.AskSignatures(a.Reroute, &a.Before, true)
}

// assessedAs returns the cases so far of an image, whatever the pods and nodes, in an
// order of their own.
func (p *pullOutcomes) assessedAs(image string) []*evidence.Case {
	ref := strings.TrimSpace(image)
	found := slices.Clone(p.rerouted[ref])
	for _, routes := range p.plan.Routes {
		for _, pool := range append([]string{""}, routes.Pools...) {
			for _, namespace := range append([]string{""}, routes.Own...) {
				if a := p.known[pullOf{ref, namespace, pool}]; a != nil && !slices.Contains(found, a) {
					found = append(found, a)
				}
			}
		}
	}
	return found
}

// worst returns the case for which the rollout stalls: of those of the image that a pod
// of the stall may have to pull, the worst; nil if there is none.
func (p *pullOutcomes) worst(stall simulation.Stall) *evidence.Case {
	var worst *evidence.Case
	for _, m := range stall.Missing {
		if m.Image != stall.Image {
			continue
		}
		namespace, _, _ := strings.Cut(m.Pod, "/")
		p.assess(m.Image, namespace, stall.Pool) // if that stall was seen when less was known
		for _, a := range p.assessedAs(stall.Image) {
			if (a.Namespace == "" || a.Namespace == namespace) && (worst == nil || badness(pullAfter(a)) > badness(pullAfter(worst))) {
				worst = a
			}
		}
	}
	return worst
}

// isDoubtful reports whether a change is denied where its rollout stalls unless nodes can pull an image.
func isDoubtful(a *evidence.Case) bool {
	return pullAfter(a) != rollout.PullWorks && !asksWithOwnSecrets(a)
}

func badness(p rollout.Pull) int {
	return slices.Index([]rollout.Pull{rollout.PullWorks, rollout.PullUnknown, rollout.PullFails}, p)
}

// asksWithOwnSecrets reports whether the only doubt about an image that the change leaves on its
// route is that its registry refuses the guard, while all of its pods bring pull secrets that
// the guard does not read, and are not protected. Such a registry refuses the guard for ever.
// This weakens a denial without a proof that the image can be pulled: see docs/truth.md.
func asksWithOwnSecrets(a *evidence.Case) bool {
	if !a.Settled || a.Protected || pullAfter(a) != rollout.PullUnknown {
		return false
	}
	for _, c := range a.Image.Consumers {
		if c.Use != policy.History && (!c.OwnPullSecret || c.PullSecretUnknown) {
			return false
		}
	}
	for _, l := range a.After.Open() {
		if p := a.Found.At(l).Presence; p != policy.Denied && p != policy.Absent {
			return false
		}
	}
	return true
}

// A movedImage is an image with pods that may have to pull it, by a simulation.
type movedImage struct {
	*evidence.Case
	by simulation.Moved
	of *simulation.Result
}

// byRank has images of protected namespaces come first.
func byRank(a, b movedImage) int {
	return cmp.Or(cmp.Compare(a.Settings.Rank(a.Image), b.Settings.Rank(b.Image)), cmp.Compare(a.Image.Ref, b.Image.Ref))
}

func (p *pullOutcomes) lookUp(q *evidence.Lookups, image string) {
	if image == "" {
		return
	}
	for _, a := range p.assessedAs(image) {
		p.lookups(q, a)
	}
}
