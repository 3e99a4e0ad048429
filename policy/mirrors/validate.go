package mirrors

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/runtime-utils/pkg/registries"
)

// A Rejection is why nothing of a Set would be applied. MCO does not degrade on
// it and says nothing in any status: it logs the reason, tries again for ever,
// and stops applying every later ITMS, IDMS, ICSP and image.config change.
type Rejection struct {
	// Reasons are whole sentences without a full stop, each one once, sorted.
	Reasons []string
	// TooMuch is set where it is the guard that cannot judge so much. MCO may well
	// apply it.
	TooMuch bool
}

// Error implements error.
func (r *Rejection) Error() string { return strings.Join(r.Reasons, "; ") }

// MaxEntries is how many entries a Set may have to be judged. The generator takes
// time quadratic in the number of sources; a rendered MachineConfig of 1.5 MiB,
// over which a pool degrades, holds about as many.
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
// Where MCO stops at the first, validate returns all.
func validate(s Set) []string {
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

// tooMuch says what nobody in his right mind configures, and what would take the guard
// minutes. An API server admits objects of 3 MiB, and the CRDs set no bounds.
func tooMuch(entries []Entry) []string {
	if len(entries) > MaxEntries {
		return []string{fmt.Sprintf("%d entries in all mirror objects together are more than can be judged (%d)", len(entries), MaxEntries)}
	}
	var reasons []string
	mirrors := map[string]int{}
	for _, e := range entries {
		mirrors[e.Source] += len(e.Mirrors)
		for _, location := range append([]string{e.Source}, e.Mirrors...) {
			if len(location) > maxLocation {
				reasons = append(reasons, fmt.Sprintf("a source or mirror of %s is longer than any name of a repository: %q... has %d bytes",
					NameOf(e.Object), location[:64], len(location)))
			}
		}
	}
	for source, n := range mirrors {
		if n > MaxMirrors {
			reasons = append(reasons, fmt.Sprintf("source %.*q has %d mirrors, more than can be judged (%d)", maxLocation, source, n, MaxMirrors))
		}
	}
	return reasons
}

func validateScopes(field string, scopes []string) []string {
	var reasons []string
	for _, scope := range scopes {
		if !registries.IsValidRegistriesConfScope(scope) {
			reasons = append(reasons, fmt.Sprintf("invalid entry %q in %s of Image cluster", scope, field))
		}
	}
	return reasons
}

func validateEntry(e Entry) []string {
	var reasons []string
	if !validSource.MatchString(e.Source) {
		reasons = append(reasons, fmt.Sprintf("invalid format for source %q in %s", e.Source, NameOf(e.Object)))
	}
	for _, mirror := range e.Mirrors {
		if !validMirror.MatchString(mirror) {
			reasons = append(reasons, fmt.Sprintf("invalid format for mirror %q of source %q in %s", mirror, e.Source, NameOf(e.Object)))
		}
	}
	if e.Policy == configv1.NeverContactSource && slices.Contains(e.Mirrors, e.Source) {
		reasons = append(reasons, fmt.Sprintf("source %q of %s is NeverContactSource and among its own mirrors", e.Source, NameOf(e.Object)))
	}
	return reasons
}

// conflictingPolicies finds sources with both policies. An entry counts even if
// it has no mirrors, and one that says nothing counts as AllowContactingSource.
func conflictingPolicies(entries []Entry) []string {
	type sides struct{ never, allow []string }
	bySource := map[string]*sides{}
	for _, e := range entries {
		side := bySource[e.Source]
		if side == nil {
			side = &sides{}
			bySource[e.Source] = side
		}
		if e.Policy == configv1.NeverContactSource {
			side.never = append(side.never, NameOf(e.Object))
		} else {
			side.allow = append(side.allow, NameOf(e.Object))
		}
	}
	var reasons []string
	for source, side := range bySource {
		if len(side.never) > 0 && len(side.allow) > 0 {
			reasons = append(reasons, fmt.Sprintf("source %q is NeverContactSource in %s but AllowContactingSource in %s",
				source, enumerate(side.never), enumerate(side.allow)))
		}
	}
	return reasons
}

// enumerate names at most three of names, each once.
func enumerate(names []string) string {
	const limit = 3
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > limit {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
	}
	return strings.Join(names, ", ")
}
