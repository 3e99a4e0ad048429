package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A side is the configuration before a change, or after it, with the knowledge
// of who said what.
type side struct {
	set     mirrors.Set
	table   *mirrors.Table
	entries map[string]sysregistriesv2.Registry // by scope
}

// newSide resolves set, which the error calls which.
func newSide(set mirrors.Set, which string) (side, error) {
	table, err := mirrors.Resolve(set)
	if isTooMuch(err) {
		return side{}, fmt.Errorf("the configuration %s is larger than what can be judged: %w", which, err)
	}
	if err != nil {
		return side{}, fmt.Errorf("RejectedByMCO: the configuration %s is invalid, so that no node would get it: %s", which, text.Line(err.Error()))
	}
	s := side{set: set, table: table, entries: map[string]sysregistriesv2.Registry{}}
	for _, r := range table.Config().Registries {
		s.entries[r.Prefix] = r
	}
	return s, nil
}

// isTooMuch tells a configuration that the guard cannot judge from one that the Machine
// Config Operator rejects.
func isTooMuch(err error) bool {
	var r *mirrors.Rejection
	return errors.As(err, &r) && r.TooMuch
}

// A step is one place on a node's way to an image.
type step struct {
	mirrors.PullSource
	// serves is set for a mirror of the entry that a node passes over, and says
	// what it is for: "tags" or "digests".
	serves string
}

// steps returns the places of route, which is that of ref alone, and between them
// the mirrors of its entry that a node passes over.
func (s side) steps(ref string, route mirrors.Route) []step {
	var steps []step
	rest := route.Sources
	for _, m := range s.entries[route.Entry].Mirrors {
		if serves := otherPullType(m, ref); serves != "" {
			passed := mirrors.PullSource{Location: mirrors.Location{Ref: s.rewrite(ref, route.Entry, m)}, Mirror: true}
			steps = append(steps, step{passed, serves})
			continue
		}
		steps = append(steps, step{PullSource: rest[0]})
		rest = rest[1:]
	}
	for _, source := range rest {
		steps = append(steps, step{PullSource: source})
	}
	return steps
}

// otherPullType says what m serves, if that is not the kind of pull that ref, a
// candidate of a table, is. Candidates have either a tag or a digest.
func otherPullType(m sysregistriesv2.Endpoint, ref string) string {
	digested := strings.Contains(ref, "@")
	switch {
	case m.PullFromMirror == sysregistriesv2.MirrorByTagOnly && digested:
		return "tags"
	case m.PullFromMirror == sysregistriesv2.MirrorByDigestOnly && !digested:
		return "digests"
	default:
		return ""
	}
}

// rewrite returns what ref would be at m if m served its kind of pull, or just
// the location of m where that would be no reference.
func (s side) rewrite(ref, entry string, m sysregistriesv2.Endpoint) string {
	named, err := reference.ParseNamed(ref)
	if err != nil {
		return m.Location
	}
	alone := s.entries[entry]
	alone.Mirrors = []sysregistriesv2.Endpoint{{Location: m.Location}}
	pulls, err := alone.PullSourcesFromReference(named)
	if err != nil {
		return m.Location
	}
	return pulls[0].Reference.String()
}

// entryText says which entry of registries.conf decides, who made it, and whose
// mirrors it has where they are not its own.
func (s side) entryText(scope string) string {
	if scope == "" {
		return "no entry of registries.conf covers it"
	}
	if maker := s.table.Maker(scope); maker != "" {
		return fmt.Sprintf("entry %s, made by a file of MachineConfig %s", scope, maker)
	}
	makers := namesOf(s.entriesFor(scope))
	for _, list := range s.imageLists() {
		if slices.ContainsFunc(list.scopes, func(listed string) bool { return sameScope(listed, scope) }) {
			makers = append(makers, list.name)
		}
	}
	text := fmt.Sprintf("entry %s, made by %s", scope, namedUpTo(makers, maxMakers))
	if wider := s.inheritedFrom(scope); wider != "" {
		text += fmt.Sprintf("; mirrors inherited from %s, made by %s", wider, namedUpTo(namesOf(s.entriesFor(wider)), maxMakers))
	}
	return text
}

// maxMakers is how many objects are named for one entry: more do not help to
// find the one that is to be changed.
const maxMakers = 4

func namedUpTo(names []string, limit int) string {
	if more := len(names) - limit; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), more)
	}
	return strings.Join(names, ", ")
}

// entriesFor returns the entries that made what registries.conf has for scope. One
// without any mirror but its source is ignored together with its policy
// (runtime-utils, mirrorsContainsARealMirror).
func (s side) entriesFor(scope string) []mirrors.Entry {
	return slices.DeleteFunc(s.set.Entries(), func(e mirrors.Entry) bool { return e.Source != scope || !e.HasMirror() })
}

// namesOf returns the objects of entries, each once, sorted.
func namesOf(entries []mirrors.Entry) []string {
	var names []string
	for _, e := range entries {
		names = append(names, mirrors.NameOf(e.Object))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// An imageList is a list in Image cluster that makes entries.
type imageList struct {
	name   string
	scopes []string
}

func (s side) imageLists() []imageList {
	return []imageList{
		{blockedList, s.set.Registries.BlockedRegistries},
		{insecureList, s.set.Registries.InsecureRegistries},
	}
}

const (
	blockedList  = "blockedRegistries of Image cluster"
	insecureList = "insecureRegistries of Image cluster"
)

// sameScope compares what an object says with a scope in registries.conf, which
// has no slash at its end.
func sameScope(listed, scope string) bool { return strings.TrimRight(listed, "/") == scope }

// inheritedFrom returns the wider source whose mirrors the entry for scope has,
// "" if they are its own or it has none. The generator goes through the sources
// of digest mirrors and then those of tag mirrors, each sorted, and the first that
// covers an entry without mirrors gives it all of its own.
func (s side) inheritedFrom(scope string) string {
	if len(s.entries[scope].Mirrors) == 0 || len(s.entriesFor(scope)) > 0 {
		return ""
	}
	for _, ofTags := range []bool{false, true} {
		for _, source := range s.mirroredSources(ofTags) {
			if source != scope && registries.ScopeIsNestedInsideScope(scope, source) {
				return source
			}
		}
	}
	return ""
}

// mirroredSources returns the sources that have tag mirrors, or digest mirrors,
// sorted.
func (s side) mirroredSources(ofTags bool) []string {
	var sources []string
	for _, e := range s.set.Entries() {
		if _, isTag := e.Object.(*configv1.ImageTagMirrorSet); isTag == ofTags && e.HasMirror() {
			sources = append(sources, e.Source)
		}
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// blockText says which entry blocks a place, and who wants it so.
func (s side) blockText(scope string) string {
	if maker := s.table.Maker(scope); maker != "" {
		return fmt.Sprintf("blocked by the entry %s (a file of MachineConfig %s)", scope, maker)
	}
	var by []string
	never := slices.DeleteFunc(s.entriesFor(scope), func(e mirrors.Entry) bool { return e.Policy != configv1.NeverContactSource })
	if len(never) > 0 {
		by = append(by, "NeverContactSource in "+namedUpTo(namesOf(never), maxMakers))
	}
	for _, listed := range s.set.Registries.BlockedRegistries {
		if sameScope(listed, scope) {
			by = append(by, blockedList)
			break
		}
		if registries.ScopeIsNestedInsideScope(scope, listed) {
			by = append(by, fmt.Sprintf("%s in %s", listed, blockedList))
			break
		}
	}
	return fmt.Sprintf("blocked by the entry %s (%s)", scope, strings.Join(by, "; "))
}
