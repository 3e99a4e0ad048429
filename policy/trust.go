package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// changedCAs returns the registries for which c changes the CAs that nodes trust.
func (c Change) changedCAs() map[string]bool {
	changed := map[string]bool{}
	for host, pem := range c.Before.CAs {
		if now, ok := c.After.CAs[host]; !ok || now != pem {
			changed[host] = true
		}
	}
	for host := range c.After.CAs {
		if _, ok := c.Before.CAs[host]; !ok {
			changed[host] = true
		}
	}
	return changed
}

// retrust adds the images whose route stays and leads to a registry that nodes would trust
// by other CAs, and says of every place at such a registry that it is to be asked with
// those.
func (p *Plan) retrust(c Change, images []Image, before, after *mirrors.Table) {
	hosts := c.changedCAs()
	if len(hosts) == 0 || len(p.UnknownCAs) > 0 { // which is a refusal of its own
		return
	}
	rerouted := map[string]bool{}
	for i := range p.Reroutes {
		rerouted[p.Reroutes[i].Image.Ref] = true
		p.Reroutes[i].After, _ = withProposedTrust(p.Reroutes[i].After, hosts)
	}
	never := neverContact(c.After)
	for _, img := range images {
		route, err := after.Route(img.Ref)
		if err != nil || rerouted[img.Ref] {
			continue
		}
		to, concerned := withProposedTrust(route, hosts)
		if !concerned {
			continue
		}
		impact := Reroute{Image: img, After: to, BeforeUnknown: p.BeforeUnknown, Never: never[to.Entry]}
		if from, err := before.Route(img.Ref); err == nil && !p.BeforeUnknown {
			impact.Before = from
		}
		p.Reroutes = append(p.Reroutes, impact)
	}
	slices.SortStableFunc(p.Reroutes, func(a, b Reroute) int { return strings.Compare(a.Image.Ref, b.Image.Ref) })
}

// withProposedTrust returns r with the places marked that are at one of hosts, and whether
// there are any. What is insecure asks for no certificate.
func withProposedTrust(r mirrors.Route, hosts map[string]bool) (mirrors.Route, bool) {
	concerned := func(s mirrors.PullSource) bool { return s.Tried() && !s.Insecure && hosts[host(s.Ref)] }
	if !slices.ContainsFunc(r.Sources, concerned) {
		return r, false
	}
	r.Sources = slices.Clone(r.Sources) // routes share them
	for i, s := range r.Sources {
		r.Sources[i].ProposedTrust = concerned(s)
	}
	return r, true
}

// unknownCAs is Unverified where it is not known whom nodes would trust after c, or trust
// now: any registry may be one that they do not talk to any more, or talk to for the first
// time.
func (p Plan) unknownCAs() []Finding {
	if len(p.UnknownCAs) == 0 {
		return nil
	}
	return []Finding{{
		Rule: "Unverified", Severity: Deny, Reason: unknownTrust, Detail: p.UnknownCAs,
		Remedy: []string{"see to it that the guard can read ConfigMaps of openshift-config, then try again"},
	}}
}

const unknownTrust = "the change alters additionalTrustedCA of Image cluster, and which CAs that means is not known"

// unknownCAsOf says of c whose CAs are not known.
func unknownCAsOf(c Change) []string {
	unknown := map[string]bool{}
	for _, s := range []mirrors.Set{c.Before, c.After} {
		if s.CAsUnknown != "" && c.Before.TrustedCA != c.After.TrustedCA {
			unknown[s.CAsUnknown] = true
		}
	}
	return slices.Sorted(maps.Keys(unknown))
}
