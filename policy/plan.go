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

// An Impact is an image whose route a change alters.
type Impact struct {
	Image         Image
	Before, After mirrors.Route
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
}

// A Plan lists what a change would alter.
type Plan struct {
	Impacts []Impact
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

	shrinks bool                       // Rejected is TooMuch, was it before, and c only makes it less
	entries map[string][]mirrors.Entry // of NewStanding: those with an effect, by source
}

// NewPlan compares the routes of images before and after c.
func NewPlan(c Change, images []Image) Plan {
	p := Plan{Total: len(images), Added: added(c), ListsChanged: !c.keepsLists()}
	before, err := mirrors.Resolve(c.Before)
	if errors.As(err, &p.RejectedBefore) {
		// The last configuration that MCO could apply is not known from the
		// objects. What they say, validation aside, comes nearest to it.
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
		before, _ = mirrors.ResolveUnchecked(mirrors.Set{}) // an empty set always resolves
	}
	p.compare(images, before, after, c.After)
	return p
}

// rejectedAnew reports whether the new configuration is rejected for a reason that is not
// there yet.
func (p *Plan) rejectedAnew() bool {
	return slices.ContainsFunc(reasonsOf(p.Rejected), func(reason string) bool {
		return !slices.Contains(reasonsOf(p.RejectedBefore), reason)
	})
}

// compare adds the images that take another route in after, which s resolves to.
func (p *Plan) compare(images []Image, before, after *mirrors.Table, s mirrors.Set) {
	never := neverContact(s)
	for _, img := range images {
		p.add(img, before, after, never)
	}
	byRef := func(a, b Impact) int { return strings.Compare(a.Image.Ref, b.Image.Ref) }
	if !slices.IsSortedFunc(p.Impacts, byRef) { // an inventory is, as a rule
		slices.SortStableFunc(p.Impacts, byRef)
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
		real := slices.ContainsFunc(e.Mirrors, func(m string) bool { return m != e.Source })
		if e.Policy == configv1.NeverContactSource && real {
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
	impact := Impact{Image: img, Before: from, After: to, Never: never[to.Entry]}
	if from.Entry != "" && to.Entry != from.Entry && after.Has(from.Entry) {
		impact.HiddenBy = to.Entry
	}
	p.Impacts = append(p.Impacts, impact)
}

// Questions returns the locations that the decision still hangs on, given what
// is known: those without an entry in facts. Protected images come first. The
// caller looks them up, enters what it learned (an Unknown fact where there was
// no answer) and asks again, until there are no questions or time is up. The
// mirrors of the new routes come first, and the rest only for images that no
// mirror holds, so that a good change costs one request for each image.
func (p Plan) Questions(facts Facts, s Settings) []mirrors.Location {
	order := s.rank(p.Impacts)
	asked := map[mirrors.Location]bool{}
	var questions []mirrors.Location
	ask := func(locs []mirrors.Location) {
		for _, l := range locs {
			if _, known := facts[l]; !known && !asked[l] {
				asked[l] = true
				questions = append(questions, l)
			}
		}
	}
	for _, i := range order {
		ask(p.Impacts[i].After.Mirrors())
	}
	if len(questions) > 0 {
		return questions
	}
	for _, i := range order {
		impact := p.Impacts[i]
		if walk(impact.Image.Ref, impact.After.Sources, facts, true) != Works || sparse(impact.After, facts) {
			ask(impact.After.Open())
			ask(impact.Before.Open())
		}
	}
	return questions
}

// Locations returns every location on the routes of the plan, sorted.
func (p Plan) Locations() []mirrors.Location {
	var locs []mirrors.Location
	for _, i := range p.Impacts {
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

// rank returns the indices of impacts, those of protected images first.
func (s Settings) rank(impacts []Impact) []int {
	type ranked struct{ index, rank int }
	order := make([]ranked, len(impacts))
	for i, impact := range impacts {
		order[i] = ranked{i, s.Rank(impact.Image)}
	}
	slices.SortStableFunc(order, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	indices := make([]int, len(order))
	for i, o := range order {
		indices[i] = o.index
	}
	return indices
}

// Rank says how important img is: lower comes first. Users in protected
// namespaces count before all else, in the order of the patterns; then what runs
// comes before what is only referenced, and history last.
func (s Settings) Rank(img Image) int {
	best := 1 << 20
	for _, u := range img.Users {
		best = min(best, s.namespaceRank(u.Namespace)*3+useRank(u.Use))
	}
	return best
}

// IsProtected reports whether a user of img lives in a protected namespace.
func (s Settings) IsProtected(img Image) bool {
	return slices.ContainsFunc(img.Users, func(u User) bool {
		return s.namespaceRank(u.Namespace) < len(s.protected())
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
		if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasPrefix(namespace, prefix) || p == namespace {
			return i
		}
	}
	return len(patterns)
}

func useRank(u Use) int {
	switch u {
	case Running:
		return 0
	case History:
		return 2
	default:
		return 1
	}
}
