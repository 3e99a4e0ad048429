package mirrors

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containers/image/v5/pkg/sysregistriesv2"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// A Difference describes one entry in which two files differ.
type Difference struct {
	// File is the path of the file, "" for registries.conf and its drop-ins. AttachmentsPath
	// stands for all files of its folder.
	File string
	// Scope is that of the entry, "unqualified-search-registries", or "all other images" for
	// the default of policy.json and registries.d.
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
			all = append(all, Difference{Scope: scope, Objects: was[scope], MachineConfig: is[scope]})
		}
	}
	const search = "unqualified-search-registries"
	if o, m := objects.UnqualifiedSearchRegistries, machineConfig.UnqualifiedSearchRegistries; !slices.Equal(o, m) {
		all = append(all, Difference{Scope: search, Objects: strings.Join(o, ", "), MachineConfig: strings.Join(m, ", ")})
	}
	return all
}

// MayBeSpared reports whether MCO may make s into the entry that nodes have, because it leaves out of
// blockedRegistries the unknown entry that would block the release image. Where it is known, s makes no
// other entries than MCO (blockedRegistries).
func (s Set) MayBeSpared(d Difference) bool {
	if payloadRepository(s.Payload) != "" || len(s.Registries.BlockedRegistries) == 0 {
		return false
	}
	if d.File != "" {
		return true // the repository of the release image is then allowed in policy.json
	}
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

// PolicyDifferences compares what mirror objects and what the files that nodes were given say
// of images that may run: policy.json, those of namespaces with an ImagePolicy, and
// registries.d. They are sorted by file and scope.
func PolicyDifferences(objects, machineConfig *Table) []Difference {
	all := convert.Each(policyfile.Differences(objects.trust, machineConfig.trust), func(d policyfile.Difference) Difference { return Difference(d) })
	slices.SortStableFunc(all, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Scope, b.Scope))
	})
	return all
}
