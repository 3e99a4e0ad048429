package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An entryUse is the use that the cluster makes of an entry which the change adds.
type entryUse struct {
	mirrors.Entry
	// covers is set if an image is below the source, in use or not.
	covers bool
	// served is set if one of them has a mirror, or other rules judge it; others are the number of those that have
	// none, as they are pulled the way that the entry's kind does not serve, and ref is one of them.
	served bool
	others int
	ref    string
}

// isUnserved reports whether all images that u covers are pulled in the way that its kind does not serve.
func (u *entryUse) isUnserved() bool { return !u.served && u.others > 0 }

// Unserved returns the entries that the change adds for images in use that are all pulled the way that the
// entry's kind does not serve: by tag, and it is for digests, or by digest, and it is for tags.
func Unserved(p ChangePlan) []mirrors.Entry {
	var entries []mirrors.Entry
	for _, u := range p.uses() {
		if u.isUnserved() {
			entries = append(entries, u.Entry)
		}
	}
	return entries
}

// uses returns the uses of the entries that the change adds and that a node may notice; none if the new
// configuration has no routes.
func (p ChangePlan) uses() []*entryUse {
	if len(p.Added) == 0 || p.routes[0].after == nil {
		return nil
	}
	var uses []*entryUse
	bySource := map[string][]*entryUse{}
	for _, e := range p.Added {
		if why, _ := whyIdle(e); why == "" {
			// With NeverContactSource it blocks what it does not serve, which NoRoute tells.
			u := &entryUse{Entry: e, served: e.Policy == configv1.NeverContactSource, covers: strings.HasPrefix(e.Source, "*.")}
			uses, bySource[e.Source] = append(uses, u), append(bySource[e.Source], u)
		}
	}
	for img := range p.known.Images.touched(mirrors.ChangedScopes{Scopes: slices.Sorted(maps.Keys(bySource))}) {
		candidates, _ := p.routes[0].after.Candidates(img.Ref)
		for _, ref := range candidates {
			for scope := range scopesOver(ref) {
				for _, u := range bySource[scope] {
					u.covers = true
				}
			}
		}
		if route, err := p.routes[0].after.Route(img.Ref, ""); err == nil && p.isInUse(img) {
			for _, u := range bySource[route.Entry] {
				u.count(img.Ref, route, p.reroutes(img.Ref))
			}
		}
	}
	return uses
}

// count adds an image whose route comes from u.
func (u *entryUse) count(ref string, route mirrors.Route, rerouted bool) {
	if rerouted || route.Err != nil || len(route.Mirrors()) > 0 || servesPullType(u.Entry, ref) {
		u.served = true
		return
	}
	u.others, u.ref = u.others+1, ref
}

func (p Plan) reroutes(ref string) bool {
	_, found := slices.BinarySearchFunc(p.Reroutes, ref, func(r Reroute, ref string) int { return strings.Compare(r.Image.Ref, ref) })
	return found
}

func (p Plan) isInUse(img Image) bool { return !onlyHistory(img) && !p.settings.merelyGuessed(img) }

// misnamed returns the scopes of images in use, without mirrors, that have the last names of sources which nothing uses: their
// author may have meant these. Where an object covers something, as those that tools write in advance, more of a name has to be
// the same.
func (p ChangePlan) misnamed(uses []*entryUse) *NearMisses {
	useful, near := map[mirrors.Object]bool{}, &NearMisses{}
	for _, u := range uses {
		useful[u.Object] = useful[u.Object] || u.covers
	}
	for _, u := range uses {
		if !u.covers && !isOfOCMirror(u.Object) {
			near.Want(u.Source, useful[u.Object])
		}
	}
	near.lookAt(p.known.Images, func(img Image) bool { return p.isInUse(img) && p.isUnmirrored(img) })
	return near
}

func (p Plan) isUnmirrored(img Image) bool {
	route, err := p.routes[0].after.Route(img.Ref, "")
	return err == nil && route.Err == nil && len(route.Mirrors()) == 0
}

// UnusedNote says how many of the entries that the change adds cover nothing that the cluster uses, "" if there
// are none. Tools write many in advance, which is no mistake.
func (p ChangePlan) UnusedNote() string {
	uses := p.uses()
	unused := slices.DeleteFunc(slices.Clone(uses), func(u *entryUse) bool { return u.covers })
	if len(unused) == 0 {
		return ""
	}
	if len(uses) == 1 {
		return "the entry covers nothing that the cluster uses"
	}
	return fmt.Sprintf("%s of %s entries cover nothing that the cluster uses", text.Number(len(unused)), text.Number(len(uses)))
}
