package plan

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// An Outline is a change with its tables, from which a Plan is made. It takes little memory.
type Outline struct {
	change   policy.Change
	known    Cluster
	settings settings.Settings
	variants []mirrors.Variant
	resolved []resolution // of each
}

// NewOutline resolves c.
func NewOutline(c policy.Change, known Cluster, s settings.Settings) Outline {
	s = s.ForChange(c)
	o := Outline{change: c, known: known.withPins(c), settings: s, variants: c.Before.Variants(c.After)}
	inForce := cmp.Or(known.InForce, mirrors.NewTables(c.Before))
	for _, variant := range o.variants {
		o.resolved = append(o.resolved, resolve(c.At(variant.Set.Pool), inForce, !s.Denies(policy.RejectedByMCO)))
	}
	o.known.Images = withUnnamed(o.known.Images, o.resolved)
	return o
}

// CountTouched returns how many images the plan may reroute, at least; not more than most.
func (o Outline) CountTouched(most int) (n int) {
	for k, variant := range o.variants {
		n = max(n, countUpTo(most, touched(o.change.At(variant.Set.Pool), o.resolved[k], o.known.Images)))
	}
	return n
}

// Plan compares the routes of the cluster's images before and after the change. If MachineConfigs
// put different files on the nodes of different pools, it does so for each variant.
func (o Outline) Plan() ChangePlan {
	c, known, s := o.change, o.known, o.settings
	p := ChangePlan{
		Plan:   Plan{Total: known.Images.Len(), Gaps: known.Gaps, Settings: s, Known: &known, Site: known.site()},
		Change: c, Added: policy.Added(c), ListsChanged: !c.KeepsLists(), UnknownCAs: policy.UnknownCAsOf(c),
	}
	p.Site.Insecure, p.Site.Never = c.After.Registries.InsecureRegistries, policy.NeverContact(c.After)
	for k, variant := range o.variants {
		on, r := c.At(variant.Set.Pool), o.resolved[k]
		p.BeforeUnknown = p.BeforeUnknown || r.before == nil
		if len(policy.Decisive(known.Gaps)) > 0 {
			p.Unseen = max(p.Unseen, unseenIn(on, r))
		}
		p.Routes = append(p.Routes, PoolRoutes{variant.Pools, r, r.ownPolicies()})
		reroutes, malformed := reroutes(on, r, &known, known.currentIn(k, o.variants), &s, touched(on, r, known.Images))
		if len(known.brought) > 0 {
			brought, unread := brought(on, r, &known, &s)
			reroutes, malformed = append(reroutes, brought...), append(malformed, unread...)
			slices.SortStableFunc(reroutes, byRef)
		}
		p.addReroutes(reroutes, malformed, variant.Pools)
		if k == 0 { // the reasons for a rejection are the same for all variants
			p.Rejected, p.RejectedBefore, p.Unjudged = r.rejected, r.rejectedBefore, r.After == nil
			p.Shrinks = IsTooMuch(r.rejected) && IsTooMuch(r.rejectedBefore) && c.OnlyShrinks()
		}
	}
	p.forgetPools()
	p.addAtOnce(atOnce(c, &known, &s))
	p.setDepths()
	p.setMeetings()
	p.comparePlatforms()
	return p
}

// touched returns at least the images that c, which r is the resolution of, may affect.
func touched(c policy.Change, r resolution, images policy.Images) iter.Seq[policy.Image] {
	switch {
	case r.After == nil:
		return policy.Images{}.All()
	case len(c.Retrusted()) > 0: // a registry may be a place of any route
		return images.All()
	default:
		return images.Touched(r.changedScopes())
	}
}

// reroutes returns those of touched whose routes change by r, the resolution of c, or lead to
// a registry whose CAs change; and those that no node can parse.
func reroutes(c policy.Change, r resolution, known *Cluster, current []*evidence.CurrentConfig, s *settings.Settings, touched iter.Seq[policy.Image]) (reroutes []evidence.Reroute, malformed []policy.Image) {
	differing := sync.OnceValue(func() []*evidence.CurrentConfig { return r.differing(current) })
	maker := rerouteMaker{r, known, differing, s, c.Retrusted()}
	own := r.ownPolicies()
	most := known.Images.Len()
	if len(maker.hosts) > 0 {
		most = maxRoom
	}
	reroutes = make([]evidence.Reroute, 0, countUpTo(most, touched))
	add := func(img policy.Image, namespace string) bool {
		img, ok := policy.PulledBy(mirrors.Nodes, img)
		if !ok { // of its own routes, atOnce knows
			_, _, _, err := r.compare(img.Ref, namespace)
			return err == nil
		}
		reroute, changed, err := maker.reroute(img, namespace)
		if changed {
			reroutes = append(Doubled(reroutes, 1), reroute)
		}
		return err == nil
	}
	for img := range touched {
		parsed := true
		if len(own) == 0 {
			parsed = add(img, "")
		} else {
			parts := r.byPolicy(img, own)
			for _, namespace := range slices.Sorted(maps.Keys(parts)) {
				parsed = add(parts[namespace], namespace) && parsed
			}
		}
		if !parsed {
			malformed = append(malformed, img)
		}
	}
	if !slices.IsSortedFunc(reroutes, byRef) { // mostly they are
		slices.SortStableFunc(reroutes, byRef)
	}
	return reroutes, malformed
}

// A rerouteMaker makes the Reroutes of a change.
type rerouteMaker struct {
	resolution
	known    *Cluster
	current  func() []*evidence.CurrentConfig
	settings *settings.Settings
	hosts    map[string]bool // whose CAs change
}

// reroute returns the Reroute of img for pods of a namespace, and whether the change alters
// what nodes do. The error says why no node could parse the reference.
func (m *rerouteMaker) reroute(img policy.Image, namespace string) (evidence.Reroute, bool, error) {
	from, to, changed, err := m.compare(img.Ref, namespace)
	if err == nil && !changed && len(m.hosts) > 0 {
		from, to, err = m.routes(img.Ref, namespace)
	}
	if err != nil {
		return evidence.Reroute{}, false, err
	}
	to, concerned := policy.WithProposedTrust(to, m.hosts)
	if !changed && !concerned {
		return evidence.Reroute{}, false, nil
	}
	reroute := evidence.Reroute{Image: AsPulled(m.settings, img, &to, m.known), Namespace: namespace, Before: from, After: to, BeforeUnknown: m.before == nil}
	reroute.Hidden = changed && from.Entry != "" && to.Entry != from.Entry && m.After.Has(from.Entry)
	reroute.SetRare(evidence.Rarity{Maybe: m.maybe(img.Ref, namespace), Current: currentRoutes(m.current(), img.Ref, namespace, from)})
	if m.known.OtherCredentials != nil {
		reroute.OtherCredentials = m.known.OtherCredentials(img.Ref)
	}
	return reroute, true, nil
}

// maxRoom bounds the reroutes for which there is room from the start where few of the touched images
// may be rerouted, as by other CAs. Else most are, and a growing slice allocates several times its
// final size.
const maxRoom = 4096

// countUpTo returns the number of images, at most most.
func countUpTo(most int, images iter.Seq[policy.Image]) int {
	n := 0
	for range images {
		if n++; n == most {
			break
		}
	}
	return n
}

// addReroutes adds the reroutes of the nodes of pools to those of other pools, if there are any. References that
// no node can parse are the same for all.
func (p *Plan) addReroutes(reroutes []evidence.Reroute, malformed []policy.Image, pools []string) {
	for i := range reroutes {
		reroutes[i].Pools = pools
	}
	if p.Reroutes == nil {
		p.Reroutes, p.Malformed = reroutes, malformed
		return
	}
	known := map[string][]int{}
	for i, reroute := range p.Reroutes {
		known[reroute.Image.Ref] = append(known[reroute.Image.Ref], i)
	}
	for _, reroute := range reroutes {
		same := slices.IndexFunc(known[reroute.Image.Ref], func(i int) bool {
			return p.Reroutes[i].Namespace == reroute.Namespace && p.Reroutes[i].Brought == reroute.Brought && p.Reroutes[i].Before.Equal(reroute.Before) && p.Reroutes[i].After.Equal(reroute.After) &&
				slices.EqualFunc(p.Reroutes[i].Rarely().Current, reroute.Rarely().Current, evidence.CurrentRoute.Equal)
		})
		if same >= 0 {
			if of := &p.Reroutes[known[reroute.Image.Ref][same]].Pools; len(*of) > 0 {
				*of = slices.Compact(slices.Sorted(slices.Values(slices.Concat(*of, pools))))
			}
			continue
		}
		p.Reroutes = append(p.Reroutes, reroute)
	}
	slices.SortStableFunc(p.Reroutes, byRef)
}

// forgetPools clears the pools of routes that all nodes take.
func (p *Plan) forgetPools() {
	all := map[string]bool{}
	for _, r := range p.Routes {
		if len(r.Pools) == 0 {
			return // routes of single pools, beside those of all nodes, are to be told
		}
		for _, pool := range r.Pools {
			all[pool] = true
		}
	}
	for i := range p.Reroutes {
		if len(p.Reroutes[i].Pools) == len(all) {
			p.Reroutes[i].Pools = nil
		}
	}
}
