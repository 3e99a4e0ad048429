package mirrors

import (
	"fmt"
	"regexp"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// MaxEntries is the largest number of entries for which a Set is judged. The generator takes
// time quadratic in the number of sources, and fewer fit on nodes (MaxEncoded) unless they are
// nearly empty.
const MaxEntries = 10_000

// MaxMirrors is how many mirrors a source may have, in all objects together. A node
// tries them one after the other, and each costs a request for each image.
const MaxMirrors = 256

// maxLocation is four times what containers/image allows a repository's name to have
// (reference.RepositoryNameTotalLengthMax). Longer ones take its regular expressions
// seconds each.
const maxLocation = 1024

// The formats of a source and of a mirror, as the CRDs of ITMS and IDMS and MCO
// have them. ICSP has no such pattern, so that MCO checks again.
const (
	hostLabel = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	pathPart  = `[a-z0-9]+(?:(?:(?:[._]|__|[-]*)[a-z0-9]+)+)?`
	mirrorPat = `^(` + hostLabel + `(?:(?:\.` + hostLabel + `)+)?(?::[0-9]+)?)(?:(?:/` + pathPart + `)+)?$`
	sourcePat = `^\*(?:\.` + hostLabel + `)+$|` + mirrorPat
)

var (
	validMirror = regexp.MustCompile(mirrorPat)
	validSource = regexp.MustCompile(sourcePat)
)

// validate restates the checks that MCO makes before it generates anything
// (validateRegistriesConfScopes in its container-runtime-config controller).
// Where MCO stops at the first error, validate returns all: an error that a repair uncovers
// would look new.
func validate(s Set) []Reason {
	entries := s.Entries()
	reasons := slices.Concat(
		validateScopes("insecureRegistries", s.Registries.InsecureRegistries),
		validateScopes("blockedRegistries", s.Registries.BlockedRegistries),
		validateScopes("allowedRegistries", s.Registries.AllowedRegistries),
	)
	for _, e := range entries {
		reasons = append(reasons, validateEntry(e)...)
	}
	return append(reasons, conflictingPolicies(entries)...)
}

// tooMuch lists what exceeds the limits above. Evaluating it would take minutes: an API
// server admits objects of 3 MiB, and the CRDs set no bounds.
func tooMuch(entries []Entry) []Reason {
	if len(entries) > MaxEntries {
		return []Reason{amount("entries", len(entries), fmt.Sprintf("%d entries in all mirror objects together are more than can be judged (%d)", len(entries), MaxEntries))}
	}
	var reasons []Reason
	mirrors := map[string]int{}
	for _, e := range entries {
		mirrors[e.Source] += len(e.Mirrors)
		for _, location := range append([]string{e.Source}, e.Mirrors...) {
			if len(location) > maxLocation {
				reasons = append(reasons, amount(location, len(location), fmt.Sprintf("a source or mirror of %s is longer than any name of a repository: %q... has %d bytes",
					NameOf(e.Object), location[:64], len(location))))
			}
		}
	}
	for source, n := range mirrors {
		if n > MaxMirrors {
			reasons = append(reasons, amount(source, n, fmt.Sprintf("source %.*q has %d mirrors, more than can be judged (%d)", maxLocation, source, n, MaxMirrors)))
		}
	}
	return reasons
}

func amount(of string, n int, text string) Reason {
	reason := newReason(TooMuch, of, text)
	reason.Amount = n
	return reason
}

func validateScopes(field string, scopes []string) []Reason {
	var reasons []Reason
	for _, scope := range scopes {
		if !registries.IsValidRegistriesConfScope(scope) {
			reasons = append(reasons, newReason(InvalidEntry, field+" "+scope, fmt.Sprintf("invalid entry %q in %s of Image cluster", scope, field), imageCluster))
		}
	}
	return reasons
}

// imageCluster is the offender that holds the registry lists.
const imageCluster = "Image " + clusterName

func validateEntry(e Entry) []Reason {
	var reasons []Reason
	name := NameOf(e.Object)
	if !validSource.MatchString(e.Source) {
		reasons = append(reasons, newReason(InvalidSource, e.Source, fmt.Sprintf("invalid format for source %q in %s", e.Source, name), name))
	}
	for _, mirror := range e.Mirrors {
		if !validMirror.MatchString(mirror) {
			reasons = append(reasons, newReason(InvalidMirror, e.Source+" "+mirror, fmt.Sprintf("invalid format for mirror %q of source %q in %s", mirror, e.Source, name), name))
		}
	}
	if e.Policy == configv1.NeverContactSource && slices.Contains(e.Mirrors, e.Source) {
		reasons = append(reasons, newReason(OwnMirror, e.Source, fmt.Sprintf("source %q of %s is NeverContactSource and among its own mirrors", e.Source, name), name))
	}
	return reasons
}

// conflictingPolicies finds sources with both policies. An entry counts even if
// it has no mirrors, and one that says nothing counts as AllowContactingSource.
func conflictingPolicies(entries []Entry) []Reason {
	never, allow := map[string][]string{}, map[string][]string{} // objects by source
	for _, e := range entries {
		side := allow
		if e.Policy == configv1.NeverContactSource {
			side = never
		}
		side[e.Source] = append(side[e.Source], NameOf(e.Object))
	}
	var reasons []Reason
	for source, by := range never {
		if others := allow[source]; len(others) > 0 {
			reasons = append(reasons, newReason(PolicyConflict, source,
				fmt.Sprintf("source %q is NeverContactSource in %s but AllowContactingSource in %s", source, enumerate(by), enumerate(others)),
				slices.Concat(by, others)...))
		}
	}
	return reasons
}

// enumerate names at most three of names, each once, and counts the others.
func enumerate(names []string) string {
	return text.Names(slices.Compact(slices.Sorted(slices.Values(names))), 3)
}
