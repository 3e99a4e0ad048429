package whatif

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A Deletion is a list of what will be deleted at registries, with what that does to the nodes of a
// cluster.
type Deletion struct {
	List *DeleteList
	// Needed are the places from which nodes still pull and that lose something, in the order of the
	// images, and of the places on their routes.
	Needed []Needed
	// Findings are what the deletion does to images, by the rules for changes: the most severe first.
	// They leave out existing faults.
	Findings []policy.Finding
	// Allowed is false if one of them denies.
	Allowed bool
	// Elsewhere is the number of items at repositories from which no node of the cluster pulls.
	Elsewhere int
	// Images are those that nodes look for in a repository from which something is deleted, sorted by reference.
	Images []string
	Notes  []string
	Took   time.Duration
}

// A Needed place is one from which nodes pull an image, and that loses it, a part of it, or its
// signatures.
type Needed struct {
	// Image has the consumers for which Puller pulls it.
	Image  policy.Image
	Puller mirrors.Puller
	// Place is the location asked for, and Number counts the places of the route, from 1.
	Place  mirrors.Location
	Number int
	// Entry is the scope of registries.conf by which they get there; "" where the image names the place
	// itself.
	Entry string
	// Item is the number of the item that takes it away, and Why says how.
	Item int
	Why  string
	// Broken is set if a finding refuses the deletion for this image.
	Broken bool
}

// Judge says what deleting list does to the cluster of r and to the images of coming: it judges every image that
// nodes pull from there as if a change had taken it away.
func Judge(ctx context.Context, r *review.Reviewer, list *DeleteList, coming review.Coming) (Deletion, error) {
	start := time.Now()
	near := nearRepositories(list.at)
	plan, err := r.PlanDeletion(ctx, coming, func(route *mirrors.Route) bool {
		for _, l := range route.Open() {
			lookAtPlace(near, l)
		}
		return list.concerns(route)
	})
	if err != nil {
		return Deletion{}, err
	}
	today, _ := r.LookUp(ctx, plan.Lookups)
	j := &judgement{list: list, plan: plan, real: today, registries: r.Registries}
	d := Deletion{List: list, Images: slices.Compact(convert.Each(plan.Reroutes, func(r evidence.Reroute) string { return r.Image.Ref }))} // sorted by them
	j.resolve(ctx)
	tomorrow := *r
	tomorrow.Registries = review.RegistriesFunc(j.presence)
	foreseen, _ := tomorrow.LookUp(ctx, plan.Lookups)
	d.Findings = rules.DecideDeletion(plan, j.real, foreseen, j.takes)
	d.Needed = j.needed()
	j.tell(&d)
	var alike [][2]string
	d.Elsewhere, alike = list.elsewhere(plan.Plan)
	d.Notes = slices.Concat(coming.Notes, r.Inventory.Notes(), r.Registries.Notes(), j.notes(d, foreseen, alike, meant(near, list.at)))
	d.Took = time.Since(start)
	return d, nil
}

// concerns reports whether something is deleted in a repository that nodes ask on route.
func (l *DeleteList) concerns(route *mirrors.Route) bool {
	return slices.ContainsFunc(route.Sources, func(s mirrors.PullSource) bool {
		repository, _ := split(s.Location)
		return s.Tried() && l.at[repository] != nil
	})
}

// elsewhere counts the items at repositories that no route of p leads to. It returns, sorted, those of their registries
// whose names resemble that of another one that a route leads to, each with that one.
func (l *DeleteList) elsewhere(p plan.Plan) (n int, alike [][2]string) {
	asked, registries, others := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range p.Reroutes {
		for _, at := range p.Reroutes[i].After.Open() {
			repository, _ := split(at)
			asked[repository], registries[mirrors.HostOf(repository)] = true, true
		}
	}
	for _, it := range l.items {
		repository := mirrors.OneSpelling(it.repository)
		if asked[repository] {
			continue
		}
		n++
		if other := mirrors.HostOf(repository); !registries[other] {
			others[other] = true
		}
	}
	for _, other := range slices.Sorted(maps.Keys(others)) {
		for _, registry := range slices.Sorted(maps.Keys(registries)) {
			if isAlike(other, registry) {
				alike = append(alike, [2]string{other, registry})
			}
		}
	}
	return n, alike
}

// isAlike reports whether two registries differ by their ports, or by a domain that one leaves out.
func isAlike(a, b string) bool {
	a, _, _ = strings.Cut(a, ":")
	b, _, _ = strings.Cut(b, ":")
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// A judgement is a list that is being judged.
type judgement struct {
	list       *DeleteList
	plan       plan.DeletionPlan
	registries review.Registries
	// real are today's facts about the places.
	real policy.Facts
}

// resolve looks up which digests go with the tags that are deleted: a registry deletes a manifest, and
// with it all of its tags (skopeo delete and oc-mirror do so by the digest). Only repositories that nodes
// ask are of interest.
func (j *judgement) resolve(ctx context.Context) {
	asked := map[string]mirrors.Location{} // repositories as nodes ask for them
	for i := range j.plan.Reroutes {
		for _, at := range j.plan.Reroutes[i].After.Open() {
			name, _, _ := mirrors.Canonical(at.Ref)
			if repository := mirrors.OneSpelling(name); j.list.at[repository] != nil {
				asked[repository] = mirrors.Location{Ref: name, Insecure: at.Insecure}
			}
		}
	}
	var places []mirrors.Location
	var items []int
	for n, it := range j.list.items {
		if at := asked[mirrors.OneSpelling(it.repository)]; at.Ref != "" && !it.byDigest() {
			at.Ref += it.version
			places, items = append(places, at), append(items, n+1)
		}
	}
	for first := 0; first < len(places); first += tagsAtOnce {
		next := min(first+tagsAtOnce, len(places))
		facts := j.registries.Presence(ctx, places[first:next], policy.Freshness{})
		for k := first; k < next; k++ {
			j.enter(items[k], facts.At(places[k]))
		}
	}
}

// tagsAtOnce is well below what registries' clients keep waiting and remember (presence.MaxFacts).
const tagsAtOnce = 10_000

// enter notes which digest the tag of an item stands for, by the fact about it. Where the registry does
// not say, it is the one by which the item was copied, and maybe another.
func (j *judgement) enter(number int, f *policy.Fact) {
	it := j.list.items[number-1]
	d := j.list.at[mirrors.OneSpelling(it.repository)]
	switch {
	case f.Presence == policy.Present && f.Digest != "":
		d.addDigest(f.Digest, number)
	case f.Presence == policy.Absent: // it is gone already
	default:
		if it.digest != "" {
			d.addDigest(it.digest, number)
		}
		d.unknown = number
	}
}

// presence answers for registries after the deletion, and notes what they hold today.
func (j *judgement) presence(ctx context.Context, locs []mirrors.Location) policy.Facts {
	real := j.registries.Presence(ctx, locs, policy.Freshness{})
	maps.Copy(j.real, real)
	facts := make(policy.Facts, len(real))
	for l, f := range real {
		facts[l] = j.after(l, f)
	}
	return facts
}

// after returns the fact about l after the deletion, where f is today's.
func (j *judgement) after(l mirrors.Location, f *policy.Fact) *policy.Fact {
	if number, why := j.taken(l, f); number > 0 {
		return gone(f, j.list.called(number)+" deletes it"+why)
	}
	repository, _ := split(l)
	d := j.list.at[repository]
	switch {
	case d == nil || f.Presence != policy.Present:
		return f
	case d.unknown > 0 && (mirrors.ByDigest(l.Ref) || f.Digest != ""):
		unsure := *f
		unsure.Presence = policy.Inconclusive
		unsure.Detail = "found; whether it stays is not known: the registry did not say which digest goes with " + j.list.called(d.unknown)
		return &unsure
	default:
		return j.withoutParts(f, d)
	}
}

// takes reports whether something of an image is taken from a place, or may be: where one gave no answer, it is not
// known which digest it has, or which parts.
func (j *judgement) takes(s *mirrors.PullSource) bool {
	if item, _ := j.loss(s); item > 0 {
		return true
	}
	repository, _ := split(s.Location)
	d := j.list.at[repository]
	switch f := j.real.At(s.Location); {
	case d == nil, f.Presence == policy.Absent:
		return false
	case f.Presence == policy.Present:
		return d.unknown > 0
	default:
		return len(d.digests)+d.unknown > 0
	}
}

// gone is the fact about a place that has lost what it had.
func gone(f *policy.Fact, evidence string) *policy.Fact {
	return &policy.Fact{Presence: policy.Absent, AsNodes: true, Time: f.Time, Detail: "will be gone: " + evidence, Assumed: evidence}
}

// taken returns the item that deletes the manifest at l, and how it does if not by that very name; 0 if
// none does.
func (j *judgement) taken(l mirrors.Location, f *policy.Fact) (number int, why string) {
	repository, version := split(l)
	d := j.list.at[repository]
	if d == nil || f.Presence == policy.Absent {
		return 0, ""
	}
	if digest, ok := strings.CutPrefix(version, "@"); ok {
		number = d.digests[digest]
	} else if number = d.tags[version]; number > 0 {
		return number, ""
	} else if f.Digest != "" {
		number = d.digests[f.Digest]
	}
	if number == 0 || j.list.items[number-1].version == version {
		return number, ""
	}
	return number, ", as it is the same manifest"
}

// withoutParts is f, about an index that stays, without the parts that are deleted.
func (j *judgement) withoutParts(f *policy.Fact, d *deleted) *policy.Fact {
	var lost []string
	number := 0
	for _, instance := range f.Instances {
		if n := d.digests[instance.Digest]; n > 0 && instance.Digest != f.Digest {
			lost, number = append(lost, instance.Platform), n
		}
	}
	if len(lost) == 0 {
		return f
	}
	without := *f
	without.Missing = slices.Concat(f.Missing, lost)
	without.Serves = slices.DeleteFunc(slices.Clone(f.Serves), func(p string) bool { return slices.Contains(lost, p) })
	without.Instances = slices.DeleteFunc(slices.Clone(f.Instances), func(i policy.Instance) bool { return d.digests[i.Digest] > 0 })
	without.Detail = j.list.called(number) + " deletes that part"
	return &without
}

// needed returns the places of the routes that lose something.
func (j *judgement) needed() []Needed {
	var needed []Needed
	for i := range j.plan.Reroutes {
		r := &j.plan.Reroutes[i]
		number := 0
		for k := range r.After.Sources {
			s := &r.After.Sources[k]
			if !s.Tried() {
				continue
			}
			number++
			if item, why := j.loss(s); item > 0 {
				needed = append(needed, Needed{Image: r.Image, Puller: r.Puller, Place: s.Location, Number: number, Entry: r.After.Entry, Item: item, Why: why})
			}
		}
	}
	return slices.CompactFunc(needed, func(a, b Needed) bool {
		return a.Image.Ref == b.Image.Ref && a.Puller == b.Puller && a.Place == b.Place && a.Item == b.Item
	})
}

// loss returns the item by which a place loses something of an image, and what; 0 if none does.
func (j *judgement) loss(s *mirrors.PullSource) (item int, what string) {
	today := j.real.At(s.Location)
	if number, why := j.taken(s.Location, today); number > 0 {
		return number, "the image" + why
	}
	repository, _ := split(s.Location)
	d := j.list.at[repository]
	if d == nil {
		return 0, ""
	}
	instances, _ := today.Runs()
	for _, instance := range instances {
		if n := d.digests[instance.Digest]; n > 0 {
			return n, "its part for " + cmp.Or(instance.Platform, "any platform")
		}
		if at, ok := s.Signatures(instance.Digest); ok && s.WantsSignatures() {
			if n, _ := j.taken(at, j.real.At(at)); n > 0 {
				return n, "its signature"
			}
		}
	}
	return 0, ""
}

// tell words the findings for a deletion, and enters what follows from them.
func (j *judgement) tell(d *Deletion) {
	items := map[string][]string{}
	for _, n := range d.Needed {
		items[n.Image.Ref] = append(items[n.Image.Ref], j.list.called(n.Item))
	}
	broken := map[string]bool{}
	d.Allowed = true
	d.Findings = slices.Clone(d.Findings)
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Rule == policy.InventoryStale {
			f.Reason = "not all of the cluster could be read: nodes may still pull images from there that are not known"
		}
		if of := items[f.Image.Ref]; len(of) > 0 {
			slices.Sort(of)
			f.Remedy, f.Copy = []string{"leave out " + text.Names(slices.Compact(of), maxItems)}, nil
		}
		if f.Severity == policy.Deny {
			d.Allowed, broken[f.Image.Ref] = false, true
		}
	}
	for i := range d.Needed {
		d.Needed[i].Broken = broken[d.Needed[i].Image.Ref]
	}
}

// maxItems is how many items a remedy names.
const maxItems = 5

// notes are remarks on the deletion as a whole. Garbage collection was observed in distribution 2.8.2 and
// 3.1.2.
func (j *judgement) notes(d Deletion, foreseen policy.Facts, alike [][2]string, meant string) []string {
	var notes []string
	if d.Elsewhere == len(j.list.items) {
		notes = append(notes, fmt.Sprintf("no node of this cluster pulls from any repository of the list, which is of %s: is it the list of another mirror, or of another name of this one?", text.Names(j.list.registries(), maxItems)))
		if meant != "" {
			notes = append(notes, "nodes pull from "+meant)
		}
	}
	if len(alike) > 0 {
		names := convert.Each(alike, func(a [2]string) string { return a[0] + " as " + a[1] })
		notes = append(notes, fmt.Sprintf("no node of this cluster pulls from a registry of the list, but from one that is named much as it: do nodes know %s?", text.Names(names, maxItems)))
	}
	sparse := 0
	for l, f := range foreseen {
		repository, _ := split(l)
		if j.list.at[repository] != nil && f.Presence == policy.Present && len(f.Missing) > 0 {
			sparse++
		}
	}
	if sparse > 0 {
		notes = append(notes, text.Plural(sparse, "index that stays lacks", "indexes that stay lack")+
			" parts at the mirror: garbage collection removes the layers of these; that of distribution before version 3, with --delete-untagged, also removes the parts that are there, as they have no tag")
	}
	return notes
}
