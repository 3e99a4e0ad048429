// Package plan decides which images a question is about (a change, the configuration in force, a deletion, a
// release), which routes they take before and after, and which places have to be looked up for that, in which
// order and how deeply. It judges nothing. Of the rooms it imports policy, settings and evidence.
package plan

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// A Cluster holds the knowledge about a cluster besides its mirror configuration.
type Cluster struct {
	// Images are those that something in the cluster depends on.
	Images policy.Images
	// InForce are the tables of policy.Change.Before, which is then the configuration in force; nil
	// if they have yet to be computed.
	InForce *mirrors.Tables
	// Gaps are the unknown parts of the cluster.
	Gaps []policy.Gap
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
	Current []evidence.CurrentConfig

	// brought are the references of Images that the change brings: see Bringing.
	brought map[string]bool
	// pins are those of brought that the change has PinnedImageSets name.
	pins map[string]bool
}

func (c *Cluster) site() *evidence.NodeSite { return evidence.SiteOf(c.Nodes, c.Gaps, c.PodsListed) }

// A Plan holds the routes that images take, and the settings by which they are judged. Images of a release have
// no more (NewPulls); see ChangePlan, StandingPlan and DeletionPlan for the others.
type Plan struct {
	// Reroutes are sorted by the references of their images.
	Reroutes []evidence.Reroute
	// Malformed are images whose references no node can parse. Their pulls fail
	// whatever the mirrors.
	Malformed []policy.Image
	// Total is the number of images that were compared.
	Total int
	// Gaps are those of the Cluster, with what is not known of the routes.
	Gaps []policy.Gap
	// Rejected says why MCO does not, or would not, apply the configuration; nil if it does.
	Rejected *mirrors.Rejection

	Known  *Cluster
	Routes []PoolRoutes // of each variant
	Site   *evidence.NodeSite
	read   policy.Readers
	// Settings are those that hold for the question.
	Settings settings.Settings
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

	Change   policy.Change
	Unjudged bool // whether the new configuration has no routes
	Shrinks  bool // see resolution.shrinksTooMuch
}

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
	o.known.Images = o.withUnnamed()
	return o
}

// Touched returns how many images the plan may reroute, at least; not more than most.
func (o Outline) Touched(most int) (n int) {
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
			p.Shrinks = r.shrinksTooMuch(c)
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

func byRef(a, b evidence.Reroute) int { return strings.Compare(a.Image.Ref, b.Image.Ref) }

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

// OnlySignatures reports whether p is of a change of image policies after which nodes pull
// from where they do today.
func (p ChangePlan) OnlySignatures() bool {
	c := p.Change
	mirrorSets, others := c.ChangedMirrorSets()
	return len(mirrorSets) == 0 && others && !c.ChangesPins() && c.KeepsLists() && c.KeepsFiles() && c.Before.TrustedCA == c.After.TrustedCA && slices.Equal(c.Before.ImportFrom, c.After.ImportFrom) &&
		!slices.ContainsFunc(p.Reroutes, func(r evidence.Reroute) bool { return r.BeforeUnknown || !r.Before.SamePlaces(r.After) })
}

// RequiresNone reports whether nodes require a signature at no place of the routes after the change.
func (p ChangePlan) RequiresNone() bool {
	return !slices.ContainsFunc(p.Reroutes, func(r evidence.Reroute) bool {
		return slices.ContainsFunc(r.After.Sources, func(s mirrors.PullSource) bool { return s.Trust != nil })
	})
}

// AddsPolicies reports whether the change brings or alters an image policy.
func (p ChangePlan) AddsPolicies() bool {
	return len(policy.Differing(p.Change.After.Policies, p.Change.Before.Policies)) > 0
}

// Doubled returns s with room for n more, at least twice as much as before if there was none: append
// adds a quarter, and so allocates several times the final size in all.
func Doubled[T any](s []T, n int) []T {
	if len(s)+n <= cap(s) {
		return s
	}
	return slices.Grow(s, max(n, len(s)))
}

// Assumption says on what evidence the image of r counts as found on its new route, if that is a
// mirroring that has not been done; "" where it was found, or was not.
func (p Plan) Assumption(r *evidence.Reroute, facts policy.Facts) string {
	return evidence.Assess(&p.Settings, r, facts).Assumption()
}

// ByImage groups the reroutes by image. An image has several where the nodes of some pools
// take another route.
func (p Plan) ByImage() iter.Seq[[]evidence.Reroute] {
	return func(yield func([]evidence.Reroute) bool) {
		for i, end := 0, 0; i < len(p.Reroutes); i = end {
			for end = i + 1; end < len(p.Reroutes) && p.Reroutes[end].Image.Ref == p.Reroutes[i].Image.Ref; {
				end++
			}
			if !yield(p.Reroutes[i:end]) {
				return
			}
		}
	}
}

// MaxNamed is how many names a line of a finding holds.
const MaxNamed = 8
