package policy

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A Cluster holds the knowledge about a cluster besides its mirror configuration.
type Cluster struct {
	// Images are those that something in the cluster depends on.
	Images Images
	// InForce are the tables of Change.Before, which is then the configuration in force; nil
	// if they have yet to be computed.
	InForce *mirrors.Tables
	// Gaps are the unknown parts of the cluster.
	Gaps []Gap
	// Nodes are those of the cluster, with their labels, taints and platforms; none if they are
	// not known.
	Nodes []*corev1.Node
	// PodsListed reports whether Images are those of all pods of a namespace too, beside Gaps. Nil: of none.
	PodsListed func(namespace string) bool
	// EndingNamespaces are those that are being deleted, and that nothing is known to recreate.
	EndingNamespaces map[string]bool
	// OtherCredentials reports whether nodes may have other credentials for an image, and
	// for its mirrors, than the guard (those that CRI-O's credential provider finds in a
	// pod's namespace); nil: for none.
	OtherCredentials func(ref string) bool
	// Rollout is what a rollout goes through; nil if it is not known.
	Rollout *rollout.Cluster
	// RunsHere says by which object a host, without a port, leads to what runs on this cluster ("Route quay/registry"); "" for none
	// that is known. It may be nil.
	RunsHere func(host string) string
	// ExposedUnread are the resources whose objects could not be read.
	ExposedUnread []string
	// Current are the rendered configs that nodes have (rollout.Cluster.CurrentConfigs).
	Current []CurrentConfig

	// brought are the references of Images that the change brings: see Bringing.
	brought map[string]bool
	// pins are those of brought that the change has PinnedImageSets name.
	pins map[string]bool
}

func (c *Cluster) site() *nodeSite { return siteOf(c.Nodes, c.Gaps, c.PodsListed) }

// A Plan holds the routes that images take, and the settings by which they are judged. Images of a release have
// no more (NewPulls); see ChangePlan, StandingPlan and DeletionPlan for the others.
type Plan struct {
	// Reroutes are sorted by the references of their images.
	Reroutes []Reroute
	// Malformed are images whose references no node can parse. Their pulls fail
	// whatever the mirrors.
	Malformed []Image
	// Total is the number of images that were compared.
	Total int
	// Gaps are those of the Cluster, with what is not known of the routes.
	Gaps []Gap
	// Rejected says why MCO does not, or would not, apply the configuration; nil if it does.
	Rejected *mirrors.Rejection

	known  *Cluster
	routes []poolRoutes // of each variant
	site   *nodeSite
	read   Readers
	// settings are those that hold for the question.
	settings Settings
	order    []int // see ranking
}

// A ChangePlan is the Plan of a change.
type ChangePlan struct {
	Plan
	// Unseen is the effect of the change on images that may have come where there are Gaps.
	Unseen Unseen
	// Added are the entries of mirror objects that the change brings or alters.
	Added []mirrors.Entry
	// ListsChanged is set if the change alters the registry lists.
	ListsChanged bool
	// RejectedBefore says why MCO does not apply the configuration in force; nil if it does. Where Rejected has a
	// reason that RejectedBefore lacks, no route changes, and Reroutes is empty unless the settings admit
	// the change all the same. In that case, and where MCO is stuck and stays so for the same
	// reasons, Reroutes are what the change will do once the configuration is repaired.
	RejectedBefore *mirrors.Rejection
	// BeforeUnknown is set where MCO rejects the configuration in force, the change repairs
	// it, and what nodes have in the meantime is not known. Reroutes are then all images that
	// the new configuration covers or the change to the objects affects.
	BeforeUnknown bool
	// UnknownCAs says why it is not known which CAs nodes would trust after the change; empty
	// if it is known, or if the change does not alter them.
	UnknownCAs []string

	change   Change
	unjudged bool // whether the new configuration has no routes
	shrinks  bool // see resolution.shrinksTooMuch
}

// An Outline is a change with its tables, from which a Plan is made. It takes little memory.
type Outline struct {
	change   Change
	known    Cluster
	settings Settings
	variants []mirrors.Variant
	resolved []resolution // of each
}

// NewOutline resolves c.
func NewOutline(c Change, known Cluster, s Settings) Outline {
	s = s.forChange(c)
	o := Outline{change: c, known: known.withPins(c), settings: s, variants: c.Before.Variants(c.After)}
	inForce := cmp.Or(known.InForce, mirrors.NewTables(c.Before))
	for _, variant := range o.variants {
		o.resolved = append(o.resolved, c.at(variant.Set.Pool).resolve(inForce, !s.denies(RejectedByMCO)))
	}
	o.known.Images = o.withUnnamed()
	return o
}

// Touched returns how many images the plan may reroute, at least; not more than most.
func (o Outline) Touched(most int) (n int) {
	for k, variant := range o.variants {
		n = max(n, countUpTo(most, o.change.at(variant.Set.Pool).touched(o.resolved[k], o.known.Images)))
	}
	return n
}

// Plan compares the routes of the cluster's images before and after the change. If MachineConfigs
// put different files on the nodes of different pools, it does so for each variant.
func (o Outline) Plan() ChangePlan {
	c, known, s := o.change, o.known, o.settings
	p := ChangePlan{
		Plan:   Plan{Total: known.Images.Len(), Gaps: known.Gaps, settings: s, known: &known, site: known.site()},
		change: c, Added: added(c), ListsChanged: !c.keepsLists(), UnknownCAs: unknownCAsOf(c),
	}
	p.site.insecure, p.site.never = c.After.Registries.InsecureRegistries, neverContact(c.After)
	for k, variant := range o.variants {
		on, r := c.at(variant.Set.Pool), o.resolved[k]
		p.BeforeUnknown = p.BeforeUnknown || r.before == nil
		if len(decisive(known.Gaps)) > 0 {
			p.Unseen = max(p.Unseen, on.unseenIn(r))
		}
		p.routes = append(p.routes, poolRoutes{variant.Pools, r, r.ownPolicies()})
		reroutes, malformed := on.reroutes(r, &known, known.currentIn(k, o.variants), &s, on.touched(r, known.Images))
		if len(known.brought) > 0 {
			brought, unread := on.brought(r, &known, &s)
			reroutes, malformed = append(reroutes, brought...), append(malformed, unread...)
			slices.SortStableFunc(reroutes, byRef)
		}
		p.addReroutes(reroutes, malformed, variant.Pools)
		if k == 0 { // the reasons for a rejection are the same for all variants
			p.Rejected, p.RejectedBefore, p.unjudged = r.rejected, r.rejectedBefore, r.after == nil
			p.shrinks = r.shrinksTooMuch(c)
		}
	}
	p.forgetPools()
	p.addAtOnce(c.atOnce(&known, &s))
	p.setDepths()
	p.setMeetings()
	p.comparePlatforms()
	return p
}

// touched returns at least the images that c, which r is the resolution of, may affect.
func (c Change) touched(r resolution, images Images) iter.Seq[Image] {
	switch {
	case r.after == nil:
		return Images{}.All()
	case len(c.retrusted()) > 0: // a registry may be a place of any route
		return images.All()
	default:
		return images.touched(r.changedScopes())
	}
}

// reroutes returns those of touched whose routes change by r, the resolution of c, or lead to
// a registry whose CAs change; and those that no node can parse.
func (c Change) reroutes(r resolution, known *Cluster, current []*CurrentConfig, s *Settings, touched iter.Seq[Image]) (reroutes []Reroute, malformed []Image) {
	differing := sync.OnceValue(func() []*CurrentConfig { return r.differing(current) })
	maker := rerouteMaker{r, known, differing, s, c.retrusted()}
	own := r.ownPolicies()
	most := known.Images.Len()
	if len(maker.hosts) > 0 {
		most = maxRoom
	}
	reroutes = make([]Reroute, 0, countUpTo(most, touched))
	add := func(img Image, namespace string) bool {
		img, ok := pulledBy(mirrors.Nodes, img)
		if !ok { // of its own routes, atOnce knows
			_, _, _, err := r.compare(img.Ref, namespace)
			return err == nil
		}
		reroute, changed, err := maker.reroute(img, namespace)
		if changed {
			reroutes = append(doubled(reroutes, 1), reroute)
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
	current  func() []*CurrentConfig
	settings *Settings
	hosts    map[string]bool // whose CAs change
}

// reroute returns the Reroute of img for pods of a namespace, and whether the change alters
// what nodes do. The error says why no node could parse the reference.
func (m *rerouteMaker) reroute(img Image, namespace string) (Reroute, bool, error) {
	from, to, changed, err := m.compare(img.Ref, namespace)
	if err == nil && !changed && len(m.hosts) > 0 {
		from, to, err = m.routes(img.Ref, namespace)
	}
	if err != nil {
		return Reroute{}, false, err
	}
	to, concerned := withProposedTrust(to, m.hosts)
	if !changed && !concerned {
		return Reroute{}, false, nil
	}
	reroute := Reroute{Image: m.settings.asPulled(img, &to, m.known), Namespace: namespace, Before: from, After: to, BeforeUnknown: m.before == nil}
	reroute.hidden = changed && from.Entry != "" && to.Entry != from.Entry && m.after.Has(from.Entry)
	reroute.setRare(rarity{maybe: m.maybe(img.Ref, namespace), current: currentRoutes(m.current(), img.Ref, namespace, from)})
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
func countUpTo(most int, images iter.Seq[Image]) int {
	n := 0
	for range images {
		if n++; n == most {
			break
		}
	}
	return n
}

func byRef(a, b Reroute) int { return strings.Compare(a.Image.Ref, b.Image.Ref) }

// addReroutes adds the reroutes of the nodes of pools to those of other pools, if there are any. References that
// no node can parse are the same for all.
func (p *Plan) addReroutes(reroutes []Reroute, malformed []Image, pools []string) {
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
			return p.Reroutes[i].Namespace == reroute.Namespace && p.Reroutes[i].brought == reroute.brought && p.Reroutes[i].Before.Equal(reroute.Before) && p.Reroutes[i].After.Equal(reroute.After) &&
				slices.EqualFunc(p.Reroutes[i].rarely().current, reroute.rarely().current, currentRoute.equal)
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
	for _, r := range p.routes {
		if len(r.pools) == 0 {
			return // routes of single pools, beside those of all nodes, are to be told
		}
		for _, pool := range r.pools {
			all[pool] = true
		}
	}
	for i := range p.Reroutes {
		if len(p.Reroutes[i].Pools) == len(all) {
			p.Reroutes[i].Pools = nil
		}
	}
}

// onlySignatures reports whether p is of a change of image policies after which nodes pull
// from where they do today.
func (p ChangePlan) onlySignatures() bool {
	c := p.change
	mirrorSets, others := c.changedMirrorSets()
	return len(mirrorSets) == 0 && others && !c.changesPins() && c.keepsLists() && c.keepsFiles() && c.Before.TrustedCA == c.After.TrustedCA && slices.Equal(c.Before.ImportFrom, c.After.ImportFrom) &&
		!slices.ContainsFunc(p.Reroutes, func(r Reroute) bool { return r.BeforeUnknown || !r.Before.SamePlaces(r.After) })
}

// requiresNone reports whether nodes require a signature at no place of the routes after the change.
func (p ChangePlan) requiresNone() bool {
	return !slices.ContainsFunc(p.Reroutes, func(r Reroute) bool {
		return slices.ContainsFunc(r.After.Sources, func(s mirrors.PullSource) bool { return s.Trust != nil })
	})
}

// addsPolicies reports whether the change brings or alters an image policy.
func (p ChangePlan) addsPolicies() bool {
	return len(differing(p.change.After.Policies, p.change.Before.Policies)) > 0
}

// doubled returns s with room for n more, at least twice as much as before if there was none: append
// adds a quarter, and so allocates several times the final size in all.
func doubled[T any](s []T, n int) []T {
	if len(s)+n <= cap(s) {
		return s
	}
	return slices.Grow(s, max(n, len(s)))
}
