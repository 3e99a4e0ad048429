package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// NewDeletion returns the plan of deleting something at registries, under set, the configuration in
// force: it has the images for whose routes concerned holds, whether mirrors or their own sources are on
// them. The routes stay as they are; what was deleted is for facts to say. Nothing counts as broken
// today, so that no denial is weakened by it: compare what Decide says of the facts with what it says
// of those without the deletion.
//
// Nodes that do not have the objects in force yet pull by what they have (Cluster.Current), and so each
// of their routes has a Reroute of its own.
func NewDeletion(set mirrors.Set, known Cluster, s Settings, concerned func(*mirrors.Route) bool) Plan {
	p := newPulls(set, known, s, concerned)
	p.raiseDepths(mirrors.DepthManifest)
	return p
}

// NewPulls returns the plan of pulling all images of known under set, the configuration in force, on nodes
// that have none of them. Nothing counts as broken today: a denial says that nodes do not get an image,
// or that it is not known whether they do. What no node can parse has no Reroute.
//
// Nodes that do not have the objects in force yet pull by what they have, as in NewDeletion.
func NewPulls(set mirrors.Set, known Cluster, s Settings) Plan {
	return newPulls(set, known, s, func(*mirrors.Route) bool { return true })
}

func newPulls(set mirrors.Set, known Cluster, s Settings, concerned func(*mirrors.Route) bool) Plan {
	s = s.forNoChange()
	p := Plan{Total: known.Images.Len(), Gaps: slices.Concat(known.Gaps, known.unreadConfigs()), settings: s, entries: bySource(set), site: siteOf(known.Nodes)}
	if len(p.Gaps) > 0 {
		p.Unseen = UnseenMoved
	}
	tables, rejected := tablesInForce(set, known)
	p.Rejected, p.RejectedBefore, p.unjudged = rejected, rejected, len(tables) == 0
	for img := range known.Images.All() {
		for _, r := range reroutesInForce(img, tables, concerned) {
			r.Image = s.asPulled(r.Image, &r.After, &known)
			if known.OtherCredentials != nil {
				r.OtherCredentials = known.OtherCredentials(img.Ref)
			}
			p.Reroutes = append(p.Reroutes, r)
		}
	}
	slices.SortStableFunc(p.Reroutes, byRef)
	p.setDepths()
	return p
}

// tablesInForce returns the routes of all nodes: those that the objects in force give each variant, and
// those of nodes that lag behind. Where MCO rejects the objects, nodes have what was applied or, if that
// is not known, what the objects say.
func tablesInForce(set mirrors.Set, known Cluster) (tables []*mirrors.Table, rejected *mirrors.Rejection) {
	inForce := cmp.Or(known.InForce, mirrors.NewTables(set))
	for _, v := range set.Variants() {
		pool := v.Set.Pool
		table, err := inForce.Resolve(pool)
		if errors.As(err, &rejected) {
			if table, err = inForce.ResolveApplied(pool); err != nil {
				table, _ = inForce.ResolveUnchecked(pool)
			}
		}
		if table != nil {
			tables = append(tables, table)
		}
	}
	for _, c := range known.Current {
		if c.Routes != nil {
			tables = append(tables, c.Routes)
		}
	}
	return tables, rejected
}

// unreadConfigs are the rendered configs of nodes that lag behind by which it is not known what they
// pull.
func (c *Cluster) unreadConfigs() []Gap {
	var gaps []Gap
	for _, config := range c.Current {
		if config.Routes == nil && config.Lags {
			gaps = append(gaps, Gap{
				Source: "machineconfigs", Kind: "MachineConfig", Unread: true,
				Detail: fmt.Sprintf("%s, by which nodes of %s still pull, was not read", config.Name, poolOr(config.Pool)),
			})
		}
	}
	return gaps
}

// reroutesInForce returns the different routes of an image for which concerned holds.
func reroutesInForce(img Image, tables []*mirrors.Table, concerned func(*mirrors.Route) bool) []Reroute {
	var reroutes []Reroute
	for _, table := range tables {
		r := resolution{before: table, objects: table, after: table}
		parts := map[string]Image{"": img}
		if own := r.ownPolicies(); len(own) > 0 {
			parts = r.byPolicy(img, own)
		}
		for _, namespace := range slices.Sorted(maps.Keys(parts)) {
			route, err := table.Route(img.Ref, namespace)
			same := func(other Reroute) bool { return other.Namespace == namespace && other.After.Equal(route) }
			if err == nil && concerned(&route) && !slices.ContainsFunc(reroutes, same) {
				reroutes = append(reroutes, Reroute{Image: parts[namespace], Namespace: namespace, BeforeUnknown: true, After: route})
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

// Beyond returns the findings of v that were not in before, as severe: what a deletion brings about.
// That not all of the cluster could be read, or judged, remains, and so do the findings about images that
// are open: of these it is not known whether the deletion concerns them.
func (v Verdict) Beyond(before Verdict, open map[string]bool) []Finding {
	type key struct{ rule, image string }
	was := map[key]Severity{}
	for _, f := range before.Findings {
		if f.Image.Ref != "" {
			k := key{f.Rule, f.Image.Ref}
			was[k] = max(was[k], f.Severity)
		}
	}
	return only(v.Findings, func(f *Finding) bool {
		severity, known := was[key{f.Rule, f.Image.Ref}]
		return !known || f.Severity > severity || open[f.Image.Ref]
	})
}
