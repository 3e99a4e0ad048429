package policy

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Change is a step from one mirror configuration to another.
type Change struct {
	Before, After mirrors.Set
}

// A Reroute is an image whose route a change alters.
type Reroute struct {
	Image         Image
	Before, After mirrors.Route
	// BeforeUnknown is set if it is not known what nodes do today. Before is zero then,
	// which proves nothing.
	BeforeUnknown bool
	// Pools are the MachineConfigPools whose nodes take these routes, where others take
	// others; none if all nodes do. Each Impact of an image is of other pools then.
	Pools []string
	// HiddenBy is the scope of the narrower entry that covers the image after the
	// change in the place of a wider one that is still there; "" if there is none.
	HiddenBy string
	// OtherCredentials is set by the caller if nodes may have other credentials for the
	// image, and for its mirrors, than the guard (those that CRI-O's credential provider
	// finds in a pod's namespace). To be denied is no proof then.
	OtherCredentials bool
	// Never are the objects that make the source of the entry After.Entry
	// NeverContactSource, by name ("ImageTagMirrorSet apps").
	Never []string

	// Set by WithDepth: whether platforms are of interest, and whether all nodes are of one.
	platforms, onePlatform bool
}

// A Plan lists what a change would alter.
type Plan struct {
	Reroutes []Reroute
	// Malformed are images whose references no node could parse. They fail before
	// and after, whatever the mirrors.
	Malformed []Image
	// Total is the number of images that were compared.
	Total int
	// Gaps are the parts of the inventory that are out of date, Unseen is what the
	// change does to images that may have come there. Both are set by WithGaps.
	Gaps   []Gap
	Unseen Unseen
	// Added are the entries of mirror objects that the change brings or alters.
	Added []mirrors.Entry
	// ListsChanged is set if the change alters the registry lists.
	ListsChanged bool
	// Rejected says why MCO would not apply the new configuration, RejectedBefore
	// why it does not apply the one in force; nil if it does. Where Rejected has a
	// reason that RejectedBefore has not, Impacts is empty. Where it has none, MCO is
	// stuck and stays so: Impacts are what comes of the change once that is mended.
	Rejected, RejectedBefore *mirrors.Rejection

	// BeforeUnknown is set where MCO rejects the configuration in force, the change mends
	// it, and what nodes have meanwhile is not known. Impacts are then all images that the
	// new configuration, or the change to the objects, has something to say about.
	BeforeUnknown bool
	// UnknownCAs says why it is not known which CAs the change makes nodes trust; none if it
	// is, or if the change leaves them alone.
	UnknownCAs []string

	shrinks bool                       // Rejected is TooMuch, was it before, and c only makes it less
	entries map[string][]mirrors.Entry // of NewStanding: those with an effect, by source
}

// NewPlan compares the routes of images before and after c. Where MCO rejects the
// configuration in force and c mends it, all of the new configuration is applied at once,
// with what came while MCO was stuck: before is then what nodes have (mirrors.Set.Applied).
//
// Where MachineConfigs lay other files on some nodes than on others, it does so for each
// kind of them.
func NewPlan(c Change, images []Image) Plan {
	variants := c.Before.Variants(c.After)
	p := newPlan(c.at(variants[0].Set.Pool), images)
	if len(variants) == 1 {
		return p
	}
	for i := range p.Reroutes {
		p.Reroutes[i].Pools = variants[0].Pools
	}
	all := len(variants[0].Pools)
	for _, v := range variants[1:] {
		p.addPools(newPlan(c.at(v.Set.Pool), images), v.Pools)
		all += len(v.Pools)
	}
	for i := range p.Reroutes {
		if len(p.Reroutes[i].Pools) == all {
			p.Reroutes[i].Pools = nil
		}
	}
	return p
}

// at returns c as the nodes of a pool see it.
func (c Change) at(pool string) Change { return Change{c.Before.At(pool), c.After.At(pool)} }

// addPools adds what other, which is that of pools, has to say beside p.
func (p *Plan) addPools(other Plan, pools []string) {
	byRef := map[string][]int{}
	for i, impact := range p.Reroutes {
		byRef[impact.Image.Ref] = append(byRef[impact.Image.Ref], i)
	}
	for _, impact := range other.Reroutes {
		same := slices.IndexFunc(byRef[impact.Image.Ref], func(i int) bool {
			known := p.Reroutes[i]
			return known.Before.Equal(impact.Before) && known.After.Equal(impact.After)
		})
		if same >= 0 {
			known := &p.Reroutes[byRef[impact.Image.Ref][same]]
			known.Pools = slices.Concat(known.Pools, pools)
			slices.Sort(known.Pools)
			continue
		}
		impact.Pools = pools
		p.Reroutes = append(p.Reroutes, impact)
	}
	p.BeforeUnknown = p.BeforeUnknown || other.BeforeUnknown
	slices.SortStableFunc(p.Reroutes, func(a, b Reroute) int { return strings.Compare(a.Image.Ref, b.Image.Ref) })
}

// newPlan is NewPlan for nodes of one kind.
func newPlan(c Change, images []Image) Plan {
	p := Plan{Total: len(images), Added: added(c), UnknownCAs: unknownCAsOf(c), ListsChanged: !c.keepsLists()}
	before, err := mirrors.Resolve(c.Before)
	if errors.As(err, &p.RejectedBefore) {
		before, _ = mirrors.ResolveUnchecked(c.Before)
	}
	after, err := mirrors.Resolve(c.After)
	if errors.As(err, &p.Rejected) {
		p.shrinks = p.Rejected.TooMuch && p.RejectedBefore != nil && p.RejectedBefore.TooMuch && c.onlyShrinks()
		if p.rejectedAnew() {
			return p
		}
		if after, _ = mirrors.ResolveUnchecked(c.After); after == nil {
			return p
		}
	}
	if before == nil {
		before = unconfigured()
	}
	if p.mends() {
		applied := nodesHave(c.Before)
		p.BeforeUnknown = applied == nil
		before = cmp.Or(applied, before)
	}
	if p.BeforeUnknown {
		p.compareUnknown(images, before, after, c.After)
	} else {
		p.compare(images, before, after, c.After)
	}
	p.retrust(c, images, before, after)
	return p
}

// rejectedAnew reports whether the new configuration is rejected for something that is not
// wrong yet.
func (p *Plan) rejectedAnew() bool { return len(p.Rejected.Beyond(p.RejectedBefore)) > 0 }

// compare adds the images that take another route in after, which s resolves to.
func (p *Plan) compare(images []Image, before, after *mirrors.Table, s mirrors.Set) {
	never := neverContact(s)
	for _, img := range images {
		p.add(img, before, after, never)
	}
	byRef := func(a, b Reroute) int { return strings.Compare(a.Image.Ref, b.Image.Ref) }
	if !slices.IsSortedFunc(p.Reroutes, byRef) { // an inventory is, as a rule
		slices.SortStableFunc(p.Reroutes, byRef)
	}
}

// added returns the entries after c that were not there before.
func added(c Change) []mirrors.Entry {
	before := map[string]bool{}
	for _, e := range c.Before.Entries() {
		before[entryKey(e)] = true
	}
	return slices.DeleteFunc(c.After.Entries(), func(e mirrors.Entry) bool { return before[entryKey(e)] })
}

// onlyShrinks reports whether c leaves nothing but entries that were there, some of them
// with fewer mirrors.
func (c Change) onlyShrinks() bool {
	before := map[string][][]string{}
	for _, e := range c.Before.Entries() {
		// Each is compared with each: those that are beyond all measure can still be
		// taken away as a whole.
		if key := placeKey(e); len(before[key]) < mirrors.MaxMirrors {
			before[key] = append(before[key], e.Mirrors)
		}
	}
	return c.keepsLists() && !slices.ContainsFunc(added(c), func(e mirrors.Entry) bool {
		return !slices.ContainsFunc(before[placeKey(e)], func(was []string) bool { return isPartOf(e.Mirrors, was) })
	})
}

// isPartOf reports whether part is what is left of whole where some are taken away.
func isPartOf(part, whole []string) bool {
	for _, s := range whole {
		if len(part) > 0 && part[0] == s {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// placeKey tells entries apart by all but their mirrors.
func placeKey(e mirrors.Entry) string {
	return strings.Join([]string{mirrors.KindOf(e.Object), e.Source, string(e.Policy)}, " ")
}

// entryKey tells entries apart by all that nodes get of them.
func entryKey(e mirrors.Entry) string {
	return strings.Join(append([]string{placeKey(e)}, e.Mirrors...), " ")
}

// neverContact returns, by source, the objects that block it for nodes. An entry
// without a real mirror is dropped by the generator, its policy with it.
func neverContact(s mirrors.Set) map[string][]string {
	never := map[string][]string{}
	for _, e := range s.Entries() {
		if e.Policy == configv1.NeverContactSource && e.HasMirror() {
			never[e.Source] = append(never[e.Source], mirrors.NameOf(e.Object))
		}
	}
	return never
}

func (p *Plan) add(img Image, before, after *mirrors.Table, never map[string][]string) {
	from, to, changed, err := mirrors.Compare(before, after, img.Ref)
	if err != nil {
		p.Malformed = append(p.Malformed, img)
		return
	}
	if !changed {
		return
	}
	impact := Reroute{Image: img, Before: from, After: to, Never: never[to.Entry]}
	if from.Entry != "" && to.Entry != from.Entry && after.Has(from.Entry) {
		impact.HiddenBy = to.Entry
	}
	p.Reroutes = append(p.Reroutes, impact)
}

// Lookups returns the locations that the decision still hangs on, given what
// is known: those without an entry in facts. Protected images come first. The
// caller looks them up, enters what it learned (an Unknown fact where there was
// no answer) and asks again, until there are no questions or time is up. The
// mirrors of the new routes come first, and the rest only for images that no
// mirror holds, so that a good change costs one request for each image.
func (p Plan) Lookups(facts Facts, s Settings) []mirrors.Location {
	q := questions{facts: facts, asked: map[mirrors.Location]bool{}}
	order := s.rank(p.Reroutes)
	for _, i := range order {
		q.ask(p.Reroutes[i].After.Mirrors())
	}
	if len(q.list) > 0 {
		return q.list
	}
	for _, i := range order {
		q.askAfterMirrors(&p.Reroutes[i])
	}
	return q.list
}

// questions collects locations about which nothing is known.
type questions struct {
	facts Facts
	asked map[mirrors.Location]bool
	list  []mirrors.Location
}

func (q *questions) ask(locs []mirrors.Location) {
	for _, l := range locs {
		if _, known := q.facts[l]; !known && !q.asked[l] {
			q.asked[l] = true
			q.list = append(q.list, l)
		}
	}
}

// askAfterMirrors asks what is of interest about i once its mirrors have answered: for
// which platforms a tag is there; what the other places have, the old ones too, where no
// mirror is sure to serve it; and the platforms that the old place serves, where the new
// one lacks some.
func (q *questions) askAfterMirrors(i *Reroute) {
	if l, ok := i.openPlatforms(i.After, q.facts); ok {
		q.ask([]mirrors.Location{l})
		return
	}
	facts := i.weigh(q.facts, false)
	_, served, _ := Served(i.After, facts)
	partial := !served.isWhole() || served.Guessed
	if Pull(i.After, facts) == Works && !partial {
		return
	}
	q.ask(i.After.Open())
	q.ask(i.Before.Open())
	if partial {
		if l, ok := i.openPlatforms(i.Before, q.facts); ok {
			q.ask([]mirrors.Location{l})
		}
	}
}

// openPlatforms returns the location to ask about the platforms of what the first place
// of route serves that has the image, if that is still to be asked.
func (i *Reroute) openPlatforms(route mirrors.Route, facts Facts) (mirrors.Location, bool) {
	for _, s := range route.Sources {
		f := facts[s.Location]
		if !s.Tried() || f.Presence != Present {
			continue
		}
		if !i.wantsPlatforms(s.Location, f) {
			return mirrors.Location{}, false
		}
		answer, asked := facts[deeper(s.Location)]
		if !asked || answer.Presence == Present {
			return deeper(s.Location), !asked
		}
	}
	return mirrors.Location{}, false
}

// Locations returns every location on the routes of the plan, sorted.
func (p Plan) Locations() []mirrors.Location {
	var locs []mirrors.Location
	for _, i := range p.Reroutes {
		locs = append(locs, i.Before.Open()...)
		locs = append(locs, i.After.Open()...)
	}
	slices.SortFunc(locs, func(a, b mirrors.Location) int {
		return cmp.Or(strings.Compare(a.Ref, b.Ref), cmp.Compare(b2i(a.Insecure), b2i(b.Insecure)), cmp.Compare(a.Depth, b.Depth), cmp.Compare(b2i(a.ProposedTrust), b2i(b.ProposedTrust)))
	})
	return slices.Compact(locs)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A ranked is an impact by its index, with its rank and its turn among those of its rank.
type ranked struct{ index, rank, turn int }

// A share is what takes turns with its like: a namespace, or an object in it.
type share struct {
	rank                  int
	namespace, kind, name string
}

// takeTurns sorts impacts of the same rank such that each share has its turn: one with
// thousands of images that are nowhere to be found does not use up the time for those of
// all others. An image has the first turn that any of its users has for it, so that nobody
// can put off others' images by naming them too.
func takeTurns(impacts []Reroute, order []ranked, of func(Consumer) share) {
	taken := map[share]int{}
	for k := range order {
		var first share
		for i, u := range impacts[order[k].index].Image.Consumers {
			s := of(u)
			s.rank = order[k].rank
			if i == 0 || taken[s] < taken[first] {
				first = s
			}
		}
		first.rank = order[k].rank // also where there is no user
		order[k].turn = taken[first]
		taken[first]++
	}
	slices.SortStableFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.turn, b.turn))
	})
}

// rank returns the indices of impacts, those of protected images first. Of others,
// namespaces take turns, and in each of them its objects.
func (s Settings) rank(impacts []Reroute) []int {
	order := make([]ranked, len(impacts))
	for i, impact := range impacts {
		order[i] = ranked{index: i, rank: s.Rank(impact.Image)}
	}
	takeTurns(impacts, order, func(u Consumer) share { return share{namespace: u.Namespace, kind: u.Kind, name: u.Name} })
	takeTurns(impacts, order, func(u Consumer) share { return share{namespace: u.Namespace} })
	indices := make([]int, len(order))
	for i, o := range order {
		indices[i] = o.index
	}
	return indices
}

// Rank says how important img is: lower comes first. Users in protected
// namespaces count before all else, in the order of the patterns; then what runs
// comes before what is only referenced, and history and guesses last.
func (s Settings) Rank(img Image) int {
	best := 1 << 20
	for _, u := range img.Consumers {
		best = min(best, s.namespaceRank(u.Namespace)*3+useRank(u))
	}
	return best
}

// IsProtected reports whether a user of img lives in a protected namespace. History does
// not count beside users that may pull the image.
func (s Settings) IsProtected(img Image) bool {
	history := onlyHistory(img)
	return slices.ContainsFunc(img.Consumers, func(u Consumer) bool {
		return (history || u.Use != History) && s.namespaceRank(u.Namespace) < len(s.protected())
	})
}

func (s Settings) protected() []string {
	if s.Protected == nil {
		return DefaultProtected
	}
	return s.Protected
}

// namespaceRank returns the index of the first pattern that matches, or the
// number of patterns. Cluster-scoped users match none.
func (s Settings) namespaceRank(namespace string) int {
	patterns := s.protected()
	if namespace == "" {
		return len(patterns)
	}
	for i, p := range patterns {
		if matches(p, namespace) {
			return i
		}
	}
	return len(patterns)
}

// matches reports whether a pattern, which may end in "*", names a namespace.
func matches(pattern, namespace string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return pattern == namespace || open && strings.HasPrefix(namespace, prefix)
}

func useRank(u Consumer) int {
	switch {
	case u.Use == History, u.Guessed:
		return 2
	case u.Use == Running:
		return 0
	default:
		return 1
	}
}
