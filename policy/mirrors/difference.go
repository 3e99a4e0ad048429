package mirrors

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
)

// A Difference describes one entry in which two files differ.
type Difference struct {
	// Scope is that of the entry, or "unqualified-search-registries".
	Scope string
	// Objects is the entry that the mirror objects make, MachineConfig the one that nodes were
	// given, both in words; "" if there is none.
	Objects, MachineConfig string
}

// Differences compares the file that mirror objects make with the one that nodes were given,
// entry by entry, as the runtime reads them. They are sorted by scope.
func Differences(objects, machineConfig sysregistriesv2.V2RegistriesConf) []Difference {
	var all []Difference
	was, is := entriesByScope(objects), entriesByScope(machineConfig)
	scopes := maps.Clone(was)
	maps.Copy(scopes, is)
	for _, scope := range slices.Sorted(maps.Keys(scopes)) {
		if was[scope] != is[scope] {
			all = append(all, Difference{scope, was[scope], is[scope]})
		}
	}
	const search = "unqualified-search-registries"
	if o, m := objects.UnqualifiedSearchRegistries, machineConfig.UnqualifiedSearchRegistries; !slices.Equal(o, m) {
		all = append(all, Difference{search, strings.Join(o, ", "), strings.Join(m, ", ")})
	}
	return all
}

// IsSparedPayload reports whether d may be intended: MCO leaves out of blockedRegistries
// whatever would block the release image, if that has no mirror
// (getValidBlockedAndAllowedRegistries).
func (d Difference) IsSparedPayload(s Set) bool {
	isListed := slices.ContainsFunc(s.Registries.BlockedRegistries, func(listed string) bool { return sameScope(listed, d.Scope) })
	return isListed && strings.HasPrefix(d.Objects, blockedWord) && !strings.HasPrefix(d.MachineConfig, blockedWord)
}

// entriesByScope puts each entry into words that are equal if and only if a node treats both
// entries alike.
func entriesByScope(conf sysregistriesv2.V2RegistriesConf) map[string]string {
	entries := map[string]string{}
	for _, r := range conf.Registries {
		scope := strings.TrimRight(r.Prefix, "/")
		if scope == "" {
			scope = strings.TrimRight(r.Location, "/")
		}
		entries[scope] = entryInWords(scope, r)
	}
	return entries
}

// blockedWord begins the words for a blocked entry.
const blockedWord = "blocked"

func entryInWords(scope string, r sysregistriesv2.Registry) string {
	var words []string
	if r.Blocked {
		words = append(words, blockedWord)
	}
	if r.Insecure {
		words = append(words, "insecure")
	}
	if location := strings.TrimRight(r.Location, "/"); location != "" && location != scope {
		words = append(words, "location "+location)
	}
	for _, m := range r.Mirrors {
		words = append(words, mirrorInWords(m, r.MirrorByDigestOnly))
	}
	if len(words) == 0 {
		return "no setting"
	}
	return strings.Join(words, ", ")
}

// mirrorInWords describes MCO's old way to say that all mirrors of an entry are for digests
// like the new one.
func mirrorInWords(m sysregistriesv2.Endpoint, digestOnly bool) string {
	kind := "all pulls"
	switch {
	case digestOnly || m.PullFromMirror == sysregistriesv2.MirrorByDigestOnly:
		kind = "digests"
	case m.PullFromMirror == sysregistriesv2.MirrorByTagOnly:
		kind = "tags"
	}
	if m.Insecure {
		kind += ", insecure"
	}
	return fmt.Sprintf("mirror %s (%s)", strings.TrimRight(m.Location, "/"), kind)
}
