package policy

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// pullOutcomes are the results of pulls before and after a change, of images that it reroutes and of
// others: a drain has all of them pulled again. They are not safe for concurrent use.
type pullOutcomes struct {
	plan  *Plan
	facts Facts
	// rerouted are those that the change reroutes, by reference.
	rerouted map[string][]*assessment
	// known are the answers so far, nil for references that no node can parse.
	known map[pullOf]*assessment
}

// A pullOf is an image for pods of a namespace, where those are held to a signature policy of
// their own, on the nodes of a pool.
type pullOf struct{ ref, namespace, pool string }

func (p *Plan) pulls(facts Facts) *pullOutcomes {
	all := &pullOutcomes{plan: p, facts: facts, rerouted: map[string][]*assessment{}, known: map[pullOf]*assessment{}}
	for i := range p.Reroutes {
		if p.Reroutes[i].Puller != mirrors.Nodes {
			continue // no drain depends on it
		}
		ref := p.Reroutes[i].Image.Ref
		all.rerouted[ref] = append(all.rerouted[ref], p.settings.assess(&p.Reroutes[i], facts))
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
		return a.pullAfter()
	default:
		return pullFor(a.before)
	}
}

func (a *assessment) pullAfter() rollout.Pull {
	switch {
	case a.After.Err != nil || a.After.Refused != "":
		return rollout.PullFails
	default:
		return pullFor(a.after)
	}
}

func pullFor(o Outcome) rollout.Pull {
	switch {
	case o.Found():
		return rollout.PullWorks
	case o == Fails:
		return rollout.PullFails
	default:
		return rollout.PullUnknown
	}
}

// assess returns the assessment of an image for pods of a namespace on the nodes of a pool; nil if
// no node can parse the reference.
func (p *pullOutcomes) assess(image, namespace, pool string) *assessment {
	ref := strings.TrimSpace(image)
	routes := p.plan.routesOn(pool)
	key := pullOf{ref, "", pool}
	if _, own := slices.BinarySearch(routes.own, namespace); own && routes.differsIn(namespace, ref) {
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

// reroutedAs returns the assessment of what the change reroutes, nil for what it does not.
func (p *pullOutcomes) reroutedAs(key pullOf) *assessment {
	for _, a := range p.rerouted[key.ref] {
		if a.Namespace == key.namespace && (len(a.Pools) == 0 || slices.Contains(a.Pools, key.pool)) {
			return a
		}
	}
	return nil
}

// settled returns the assessment of what the change leaves on its route.
func (p *pullOutcomes) settled(key pullOf, namespace string, routes *poolRoutes) *assessment {
	route, err := routes.after.Route(key.ref, key.namespace)
	if err != nil {
		return nil
	}
	r := &Reroute{Image: p.plan.settings.asPulled(p.plan.known.Images.find(key.ref), &route, p.plan.known), Namespace: key.namespace, Before: route, After: route, settled: true}
	if len(r.Image.Consumers) == 0 {
		r.Image.Consumers = []Consumer{{Kind: "Pod", Namespace: namespace, Use: Running}}
	}
	if other := p.plan.known.OtherCredentials; other != nil {
		r.OtherCredentials = other(key.ref)
	}
	p.plan.setDepth(r)
	a := p.plan.settings.assess(r, p.facts)
	a.before = a.after // where the same is proved of both
	return a
}

// lookups adds what has yet to be looked up to know whether nodes get what a is about, by its
// old route as well: first the mirrors, then the rest.
func (p *pullOutcomes) lookups(q *lookups, a *assessment) {
	was := len(q.list) + q.open
	q.askOn(&a.After, true)
	q.askOn(&a.Before, true)
	if len(q.list)+q.open > was {
		return
	}
	q.askAfterMirrors(a.Reroute)
	if after := a.weighBefore(q.facts); !after.pull(false).Found() {
		q.askOn(&a.Before, false)
	}
	q.askSignatures(a.Reroute, &a.Before, true)
}

// assessedAs returns the assessments so far of an image, whatever the pods and nodes, in an
// order of their own.
func (p *pullOutcomes) assessedAs(image string) []*assessment {
	ref := strings.TrimSpace(image)
	found := slices.Clone(p.rerouted[ref])
	for _, routes := range p.plan.routes {
		for _, pool := range append([]string{""}, routes.pools...) {
			for _, namespace := range append([]string{""}, routes.own...) {
				if a := p.known[pullOf{ref, namespace, pool}]; a != nil && !slices.Contains(found, a) {
					found = append(found, a)
				}
			}
		}
	}
	return found
}

// worst returns the assessment for which the rollout stalls: of those of the image that a pod
// of the stall may have to pull, the worst; nil if there is none.
func (p *pullOutcomes) worst(stall simulation.Stall) *assessment {
	var worst *assessment
	for _, m := range stall.Missing {
		if m.Image != stall.Image {
			continue
		}
		namespace, _, _ := strings.Cut(m.Pod, "/")
		for _, a := range p.assessedAs(stall.Image) {
			if (a.Namespace == "" || a.Namespace == namespace) && (worst == nil || badness(a.pullAfter()) > badness(worst.pullAfter())) {
				worst = a
			}
		}
	}
	return worst
}

func badness(p rollout.Pull) int {
	return slices.Index([]rollout.Pull{rollout.PullWorks, rollout.PullUnknown, rollout.PullFails}, p)
}

// asksWithOwnSecrets reports whether the only doubt about an image that the change leaves on its
// route is that its registry refuses the guard, while all of its pods bring pull secrets that
// the guard does not read, and are not protected. Such a registry refuses the guard for ever.
// This weakens a denial without a proof that the image can be pulled: see docs/truth.md.
func (a *assessment) asksWithOwnSecrets() bool {
	if !a.settled || a.protected || a.pullAfter() != rollout.PullUnknown {
		return false
	}
	for _, c := range a.Image.Consumers {
		if c.Use != History && (!c.OwnPullSecret || c.PullSecretUnknown) {
			return false
		}
	}
	for _, l := range a.After.Open() {
		if p := a.found.At(l).Presence; p != Denied && p != Absent {
			return false
		}
	}
	return true
}
