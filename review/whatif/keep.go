package whatif

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A Kept reference is one below a scope that a deletion there has to spare: nodes may ask for it, or it keeps what they may ask for.
// An index is kept with its parts.
type Kept struct {
	// Reference is the place, with a tag or a digest.
	Reference string
	// Of is what it is of the images: "" for themselves, signatureOf or keeperOf.
	Of string
	// Images are those that are pulled from there, sorted by reference.
	Images []policy.Image
}

const (
	// signatureOf is said of a tag under which nodes look for signatures, keeperOf of one that sync gives what it copies by digest,
	// whether or not it did.
	signatureOf = "signature of "
	keeperOf    = "tag by which sync keeps "
)

// A KeepList is all that a deletion below a scope has to spare, sorted by reference.
type KeepList struct {
	Scope string
	Kept  []Kept
	// Unknown is why the list may not be complete: places without an answer, whose signatures belong to it
	// but have unknown names; unread parts; a scope that leads nowhere.
	Unknown []string
	Notes   []string
}

// Keep returns what a deletion below scope, a registry or a part of one, has to spare for nodes of the cluster of r, now and
// once the cluster pulls the images of coming.
func Keep(ctx context.Context, r *review.Reviewer, scope string, coming review.Coming) (KeepList, error) {
	scope, err := parseScope(scope)
	if err != nil {
		return KeepList{}, err
	}
	at := mirrors.OneSpelling(scope)
	below := func(s *mirrors.PullSource) bool { return s.Tried() && mirrors.IsBelow(mirrors.OneSpelling(s.Ref), at) }
	near := func(mirror string) bool {
		return mirrors.IsBelow(mirrors.OneSpelling(mirror), at) || mirrors.IsBelow(at, mirrors.OneSpelling(mirror))
	}
	plan, err := r.PlanDeletion(ctx, coming, func(route *mirrors.Route) bool {
		return slices.ContainsFunc(route.Sources, func(s mirrors.PullSource) bool { return below(&s) })
	})
	if err != nil {
		return KeepList{}, err
	}
	facts, _ := r.LookUp(ctx, lookupsOfSignatures(plan.Plan, below))
	list := KeepList{Scope: scope, Notes: slices.Concat(coming.Notes, r.Inventory.Notes(), r.Registries.Notes())}
	for _, g := range plan.Gaps {
		list.Unknown = append(list.Unknown, g.String())
	}
	list.Notes = slices.DeleteFunc(list.Notes, func(note string) bool { return slices.Contains(list.Unknown, note) })
	kept := map[string]*Kept{}
	for i := range plan.Reroutes {
		reroute := &plan.Reroutes[i]
		for k := range reroute.After.Sources {
			if s := &reroute.After.Sources[k]; below(s) {
				list.keep(kept, s, reroute.Image, facts)
			}
		}
	}
	if len(kept) == 0 && !plan.HasMirror(near) { // to delete all but this list would delete everything
		list.Unknown = append(list.Unknown, "whether "+text.Line(scope)+" is the place that is meant: nodes ask for nothing there, and no mirror in force is there; another name of it may be")
	}
	for _, k := range kept {
		list.Kept = append(list.Kept, *k)
	}
	slices.SortFunc(list.Kept, func(a, b Kept) int { return strings.Compare(a.Reference, b.Reference) })
	slices.Sort(list.Unknown)
	list.Unknown = slices.Compact(list.Unknown)
	return list, nil
}

// keep enters a place of an image, the tag that keeps it there, and where nodes look for its signatures.
func (l *KeepList) keep(at map[string]*Kept, s *mirrors.PullSource, img policy.Image, facts policy.Facts) {
	add := func(reference, of string) {
		k := at[reference]
		if k == nil {
			k = &Kept{Reference: reference, Of: of}
			at[reference] = k
		}
		if !slices.ContainsFunc(k.Images, func(i policy.Image) bool { return i.Ref == img.Ref }) {
			k.Images = append(k.Images, img)
		}
	}
	add(s.Ref, "")
	_, digest, _ := strings.Cut(s.Ref, "@")
	if tag, ok := s.Keeping(digest); ok && digest != "" && s.Mirror {
		add(tag.Ref, keeperOf)
	}
	if !s.WantsSignatures() {
		return
	}
	f := facts.At(s.Location)
	instances, known := f.Runs()
	if !known && f.Presence != policy.Absent {
		l.Unknown = append(l.Unknown, "signatures of "+text.Line(s.Ref))
	}
	for _, instance := range instances {
		if place, ok := s.Signatures(instance.Digest); ok {
			add(place.Ref, signatureOf)
		}
	}
}

// lookupsOfSignatures asks at the places whose signatures are to be kept: which instances they have names
// the tags.
func lookupsOfSignatures(p plan.Plan, below func(*mirrors.PullSource) bool) review.NextLookups {
	return func(facts policy.Facts) []mirrors.Location {
		var locs []mirrors.Location
		asked := map[mirrors.Location]bool{}
		for i := range p.Reroutes {
			for k := range p.Reroutes[i].After.Sources {
				s := &p.Reroutes[i].After.Sources[k]
				if _, known := facts[s.Location]; !known && !asked[s.Location] && below(s) && s.WantsSignatures() {
					asked[s.Location] = true
					locs = append(locs, s.Location)
				}
			}
		}
		return locs
	}
}

// parseScope reads a registry, or a namespace or repository of one.
func parseScope(s string) (string, error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(s, dockerTransport), "/")
	host, path, _ := strings.Cut(bare, "/")
	probe := bare
	if path == "" {
		probe = host + "/x"
	}
	repository, version, ok := mirrors.Canonical(probe)
	if !ok || strings.Contains(path, "@") || version != ":latest" || strings.Contains(path, ":") {
		return "", fmt.Errorf("%q is no registry, namespace or repository, such as registry.example.com:5000/team", text.Cut(s, maxShown))
	}
	if path == "" {
		return strings.TrimSuffix(repository, "/x"), nil
	}
	return repository, nil
}
