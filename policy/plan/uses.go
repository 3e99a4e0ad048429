package plan

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An EntryUse is the use that the cluster makes of an entry which the change adds.
type EntryUse struct {
	mirrors.Entry
	// Covers is set if an image is below the source, in use or not.
	Covers bool
	// served is set if one of them has a mirror, or other rules judge it; others are the number of those that have
	// none, as they are pulled the way that the entry's kind does not serve, and ref is one of them.
	served bool
	Others int
	Ref    string
}

// IsUnserved reports whether all images that u covers are pulled in the way that its kind does not serve.
func (u *EntryUse) IsUnserved() bool { return !u.served && u.Others > 0 }

// Unserved returns the entries that the change adds for images in use that are all pulled the way that the
// entry's kind does not serve: by tag, and it is for digests, or by digest, and it is for tags.
func Unserved(p ChangePlan) []mirrors.Entry {
	var entries []mirrors.Entry
	for _, u := range p.Uses() {
		if u.IsUnserved() {
			entries = append(entries, u.Entry)
		}
	}
	return entries
}

// Uses returns the uses of the entries that the change adds and that a node may notice; none if the new
// configuration has no routes.
func (p ChangePlan) Uses() []*EntryUse {
	if len(p.Added) == 0 || p.Routes[0].After == nil {
		return nil
	}
	var uses []*EntryUse
	bySource := map[string][]*EntryUse{}
	for _, e := range p.Added {
		if why, _ := WhyIdle(e); why == "" {
			// With NeverContactSource it blocks what it does not serve, which NoRoute tells.
			u := &EntryUse{Entry: e, served: e.Policy == configv1.NeverContactSource, Covers: strings.HasPrefix(e.Source, "*.")}
			uses, bySource[e.Source] = append(uses, u), append(bySource[e.Source], u)
		}
	}
	for img := range p.Known.Images.Touched(mirrors.ChangedScopes{Scopes: slices.Sorted(maps.Keys(bySource))}) {
		candidates, _ := p.Routes[0].After.Candidates(img.Ref)
		for _, ref := range candidates {
			for scope := range ScopesOver(ref) {
				for _, u := range bySource[scope] {
					u.Covers = true
				}
			}
		}
		if route, err := p.Routes[0].After.Route(img.Ref, ""); err == nil && p.IsInUse(img) {
			for _, u := range bySource[route.Entry] {
				u.count(img.Ref, route, p.reroutes(img.Ref))
			}
		}
	}
	return uses
}

// count adds an image whose route comes from u.
func (u *EntryUse) count(ref string, route mirrors.Route, rerouted bool) {
	if rerouted || route.Err != nil || len(route.Mirrors()) > 0 || policy.ServesPullType(u.Entry, ref) {
		u.served = true
		return
	}
	u.Others, u.Ref = u.Others+1, ref
}

func (p Plan) reroutes(ref string) bool {
	_, found := slices.BinarySearchFunc(p.Reroutes, ref, func(r evidence.Reroute, ref string) int { return strings.Compare(r.Image.Ref, ref) })
	return found
}

// IsInUse reports whether img is more than history or a guess.
func (p Plan) IsInUse(img policy.Image) bool {
	return !policy.OnlyHistory(img) && !p.Settings.MerelyGuessed(img)
}

// Misnamed returns the scopes of images in use, without mirrors, that have the last names of sources which nothing uses: their
// author may have meant these. Where an object covers something, as those that tools write in advance, more of a name has to be
// the same.
func (p ChangePlan) Misnamed(uses []*EntryUse) *NearMisses {
	useful, near := map[mirrors.Object]bool{}, &NearMisses{}
	for _, u := range uses {
		useful[u.Object] = useful[u.Object] || u.Covers
	}
	for _, u := range uses {
		if !u.Covers && !isOfOCMirror(u.Object) {
			near.Want(u.Source, useful[u.Object])
		}
	}
	near.LookAt(p.Known.Images, func(img policy.Image) bool { return p.IsInUse(img) && p.isUnmirrored(img) })
	return near
}

func (p Plan) isUnmirrored(img policy.Image) bool {
	route, err := p.Routes[0].After.Route(img.Ref, "")
	return err == nil && route.Err == nil && len(route.Mirrors()) == 0
}

// UnusedNote says how many of the entries that the change adds cover nothing that the cluster uses, "" if there
// are none. Tools write many in advance, which is no mistake.
func (p ChangePlan) UnusedNote() string {
	uses := p.Uses()
	unused := slices.DeleteFunc(slices.Clone(uses), func(u *EntryUse) bool { return u.Covers })
	if len(unused) == 0 {
		return ""
	}
	if len(uses) == 1 {
		return "the entry covers nothing that the cluster uses"
	}
	return fmt.Sprintf("%s of %s entries cover nothing that the cluster uses", text.Number(len(unused)), text.Number(len(uses)))
}

// NearMisses look for the meaning of names that nothing uses: used names with the same last part elsewhere. Tenants
// name images, and strangers send changes: comparisons and results are bounded. The zero value is ready.
type NearMisses struct {
	byName map[string]*nearMiss
	byLast map[string][]*nearMiss
}

type nearMiss struct {
	name   string
	strict bool
	found  []string
}

const (
	// MaxNear is how many names that may have been meant are told.
	MaxNear = 3
	// maxAlike is how many names of one last part are compared with used ones.
	maxAlike = 16
)

// Want has Look look for the meaning of the name of a repository or a namespace. Strict asks for the last two names in
// common, or for the host and one.
func (n *NearMisses) Want(name string, strict bool) {
	i := strings.LastIndexByte(name, '/')
	if m := n.byName[name]; m != nil {
		m.strict = m.strict && strict
		return
	}
	if i <= 0 || len(n.byLast[name[i:]]) >= maxAlike {
		return
	}
	if n.byName == nil {
		n.byName, n.byLast = map[string]*nearMiss{}, map[string][]*nearMiss{}
	}
	m := &nearMiss{name: name, strict: strict}
	n.byName[name], n.byLast[name[i:]] = m, append(n.byLast[name[i:]], m)
}

// Look looks at a reference that is used, if counts holds, which is asked only where that matters.
func (n *NearMisses) Look(ref string, counts func() bool) {
	for used := range ScopesOver(ref) {
		last := max(strings.LastIndexByte(used, '/'), 0)
		for _, m := range n.byLast[used[last:]] {
			if m.isNear(used) && counts() {
				m.found = append(m.found, used)
			}
		}
	}
}

// LookAt looks at the images for which counts holds.
func (n *NearMisses) LookAt(images policy.Images, counts func(policy.Image) bool) {
	if len(n.byName) == 0 {
		return
	}
	for img := range images.All() {
		n.Look(img.Ref, sync.OnceValue(func() bool { return counts(img) }))
	}
}

// Of returns what may have been meant by a name, three at most.
func (n *NearMisses) Of(name string) []string {
	if m := n.byName[name]; m != nil {
		return m.found
	}
	return nil
}

// isNear reports whether used, which has the last name of m, may have been meant, and is worth telling.
func (m *nearMiss) isNear(used string) bool {
	if len(m.found) >= MaxNear || used == m.name || slices.Contains(m.found, used) {
		return false
	}
	x, y := strings.Split(m.name, "/"), strings.Split(used, "/")
	return !m.strict || x[0] == y[0] || len(x) > 2 && len(y) > 2 && x[len(x)-2] == y[len(y)-2]
}

// ScopesOver returns the host, the namespaces and the repository of an image, the widest first; nothing for a
// short name.
func ScopesOver(ref string) iter.Seq[string] {
	repository, _ := mirrors.Repository(ref)
	return func(yield func(string) bool) {
		for end := 0; end < len(repository); {
			next := strings.IndexByte(repository[end+1:], '/')
			if next < 0 {
				yield(repository)
				return
			}
			if end += 1 + next; !yield(repository[:end]) {
				return
			}
		}
	}
}

// HubAPI is where docker.io has its API. Images may be named by it, and hardly ever are.
const HubAPI = "registry-1.docker.io"

// WhyIdle says why nodes would not notice an entry, "" if they may.
func WhyIdle(e mirrors.Entry) (why, remedy string) {
	h := mirrors.HostOf(e.Source)
	switch {
	case !e.HasMirror() && len(e.Mirrors) > 0:
		return "its only mirror is the source itself, so that the generator drops it, and its mirrorSourcePolicy too", "name another place as the mirror, or remove the entry"
	case !e.HasMirror():
		return "without a mirror the generator drops it, and its mirrorSourcePolicy too", "name a mirror, or remove the entry"
	case h == "index.docker.io":
		return "nodes know this registry as docker.io", "write docker.io"
	case e.Source == "docker.io" || strings.HasPrefix(e.Source, "*."):
		return "", ""
	case !strings.ContainsAny(h, ".:") && h != "localhost":
		return "nodes take " + h + " for a repository on docker.io", "write docker.io/library/" + e.Source + ", or the host with its domain"
	case h == "docker.io" && strings.Count(e.Source, "/") == 1 && !strings.HasSuffix(e.Source, "/library"):
		return "", "" // a namespace on Docker Hub; whether "docker.io/nginx" was meant as a repository cannot be told
	case h != strings.ToLower(h):
		return "images name the host in lower case", "write " + strings.ToLower(h)
	default:
		return "", ""
	}
}
