package evidence

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// WeighAfter returns what facts prove about the places of the new route.
func (r *Reroute) WeighAfter(facts policy.Facts) WeighedRoute { return r.Weigh(&r.After, facts, false) }

// WeighBefore returns what facts prove about the places of the old route.
func (r *Reroute) WeighBefore(facts policy.Facts) WeighedRoute {
	return r.Weigh(&r.Before, facts, true)
}

// Weigh returns what facts prove about the places of a route, of today or the new one.
func (r *Reroute) Weigh(route *mirrors.Route, facts policy.Facts, before bool) WeighedRoute {
	weighed := WeighedRoute{Route: route, Facts: facts.On(route)}
	for k, found := range weighed.Facts {
		f := r.Counted(&route.Sources[k], found, facts)
		if f == &policy.NotAsked {
			continue
		}
		step := Step{r, route, k, before}
		proved, signatures := step.prove(f, facts), route.Sources[k].WantsSignatures()
		if proved.Presence == policy.Present {
			proved = r.Site.forNodesOf(r.Image.Consumers, proved, signatures)
		}
		if proved.Presence == policy.Present && signatures {
			var states []SignatureState
			if proved, states = step.withSignatures(proved, facts); len(states) > 0 {
				if weighed.signatures == nil {
					weighed.signatures = map[int][]SignatureState{}
				}
				weighed.signatures[k] = states
			}
		}
		weighed.Facts[k] = proved
	}
	return weighed
}
