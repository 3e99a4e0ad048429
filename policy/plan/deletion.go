package plan

import (
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// A DeletionPlan is the Plan of deleting something at registries.
type DeletionPlan struct {
	Plan
	inForce mirrors.Set
}

// NewDeletion returns the plan of deleting something at registries, under set, the configuration in
// force: it has the images for whose routes concerned holds, whether mirrors or their own sources are on
// them. The routes stay as they are; facts tell of the deletion. Nothing counts as broken today, so that
// no denial is weakened by it: see Decide.
//
// Nodes that do not have the objects in force yet pull by what they have (Cluster.Current), and so each
// of their routes has a Reroute of its own. So have those of builds, imports and pull-through, and those by later, the
// configuration as it will be one day; it may be set itself.
func NewDeletion(set, later mirrors.Set, known Cluster, s settings.Settings, concerned func(*mirrors.Route) bool) DeletionPlan {
	p := DeletionPlan{newPulls(set, later, known, s, concerned), set}
	p.raiseDepths(mirrors.DepthManifest)
	return p
}

// HasMirror reports whether is holds of a mirror in force, as an entry writes it.
func (p DeletionPlan) HasMirror(is func(string) bool) bool {
	return slices.ContainsFunc(p.inForce.Entries(), func(e mirrors.Entry) bool { return e.HasMirror() && slices.ContainsFunc(e.Mirrors, is) })
}

// NewPulls returns the plan of pulling all images of known under set, the configuration in force, on nodes
// that have none of them. Nothing counts as broken today: a denial says that nodes do not get an image,
// or that it is not known whether they do. A reference that no node can parse has no Reroute.
//
// Nodes that do not have the objects in force yet pull by what they have, as in NewDeletion.
func NewPulls(set mirrors.Set, known Cluster, s settings.Settings) Plan {
	return newPulls(set, set, known, s, func(*mirrors.Route) bool { return true })
}

func newPulls(set, later mirrors.Set, known Cluster, s settings.Settings, concerned func(*mirrors.Route) bool) Plan {
	p := newInForce(set, &known, s)
	if !later.Equal(set) {
		known := known
		known.InForce, known.Current = nil, nil
		next, _, _ := routesInForce(later, &known) // where MCO would reject that, nodes keep what they have
		p.Routes = append(p.Routes, next...)
	}
	followed := tablesFollowed(set, known.Images)
	for img := range known.Images.All() {
		for _, r := range append(reroutesOfNodes(img, followed, p.Routes, concerned), reroutesFollowed(img, followed, concerned)...) {
			r.Image = AsPulled(&p.Settings, r.Image, &r.After, &known)
			if known.OtherCredentials != nil {
				r.OtherCredentials = known.OtherCredentials(img.Ref)
			}
			p.Reroutes = append(p.Reroutes, r)
		}
	}
	slices.SortStableFunc(p.Reroutes, byRef)
	p.setDepths()
	p.setMeetings()
	return p
}

// tablesFollowed returns the routes that the objects in the API give pullers of images other than nodes. Where they cannot be
// computed, there is none.
func tablesFollowed(set mirrors.Set, images policy.Images) map[mirrors.Puller]*mirrors.Table {
	if !images.HasOtherPullers() {
		return nil
	}
	tables := map[mirrors.Puller]*mirrors.Table{}
	for _, p := range mirrors.OtherPullers {
		if table, err := mirrors.ResolveFor(p, set); err == nil {
			tables[p] = table
		}
	}
	return tables
}

// reroutesOfNodes is reroutesInForce for what nodes pull, and for consumers whose own routes are not known.
func reroutesOfNodes(img policy.Image, followed map[mirrors.Puller]*mirrors.Table, routes []PoolRoutes, concerned func(*mirrors.Route) bool) []evidence.Reroute {
	has := func(c policy.Consumer) bool { return followed[c.Puller()] != nil }
	if slices.ContainsFunc(img.Consumers, has) {
		img.Consumers = slices.DeleteFunc(slices.Clone(img.Consumers), has)
		if len(img.Consumers) == 0 {
			return nil
		}
	}
	return reroutesInForce(img, routes, concerned)
}

// reroutesFollowed returns the routes for which concerned holds of those who are no nodes and pull img.
func reroutesFollowed(img policy.Image, followed map[mirrors.Puller]*mirrors.Table, concerned func(*mirrors.Route) bool) []evidence.Reroute {
	var reroutes []evidence.Reroute
	for _, p := range mirrors.OtherPullers {
		part, ok := policy.PulledBy(p, img)
		if !ok || followed[p] == nil {
			continue
		}
		if route, err := followed[p].Route(img.Ref, ""); err == nil && concerned(&route) {
			reroutes = append(reroutes, evidence.Reroute{Image: part, Puller: p, BeforeUnknown: true, After: route})
		}
	}
	return reroutes
}

// reroutesInForce returns the different routes of an image for which concerned holds.
func reroutesInForce(img policy.Image, routes []PoolRoutes, concerned func(*mirrors.Route) bool) []evidence.Reroute {
	var reroutes []evidence.Reroute
	for i := range routes {
		r := &routes[i]
		parts := map[string]policy.Image{"": img}
		if len(r.Own) > 0 {
			parts = r.byPolicy(img, r.Own)
		}
		for _, namespace := range slices.Sorted(maps.Keys(parts)) {
			route, err := r.After.Route(img.Ref, namespace)
			same := func(other evidence.Reroute) bool { return other.Namespace == namespace && other.After.Equal(route) }
			if err == nil && concerned(&route) && !slices.ContainsFunc(reroutes, same) {
				reroutes = append(reroutes, evidence.Reroute{Image: parts[namespace], Namespace: namespace, BeforeUnknown: true, After: route})
			}
		}
	}
	return reroutes
}

// raiseDepths has every place looked up at least as deeply as this: the parts of an index are known then,
// which may be deleted without it.
func (p *Plan) raiseDepths(least mirrors.Depth) {
	for i := range p.Reroutes {
		r := &p.Reroutes[i]
		r.After.Sources = slices.Clone(r.After.Sources)
		for k := range r.After.Sources {
			r.After.Sources[k].Depth = max(r.After.Sources[k].Depth, least)
		}
	}
}
