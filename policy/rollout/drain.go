package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// check is one of MCO's rules that a drain for registries.conf can come from.
type check int

// The rules, in the order in which MCO goes by them.
const (
	searchAltered   check = iota // a search registry is gone or has another place
	registryRemoved              // an entry is gone, or has another prefix
	registryAltered              // prefix, location, blocked or insecure of an entry differ
	mirrorRemoved                // no mirror of the entry has the location any more
	mirrorAltered                // a mirror serves other pulls, and not only those by digest
	mirrorAdded                  // a mirror is new in an entry, and serves not only pulls by digest
	registryAdded                // an entry is new, and has a mirror that serves not only pulls by digest, or none
)

// reason is a cause for which MCO drains, as a clause; the zero reason is none. Scope is that of the entry in
// registries.conf, "" for the search registries.
type reason struct {
	check       check
	scope, text string
}

// DrainReasons returns why MCO drains a node whose registries.conf goes from before to
// after, as clauses, sorted by check and then by scope, at most one for a scope; none where it reloads
// CRI-O without a drain. It is isSafeContainerRegistryConfChanges (drain.go:182), which
// stops at its first reason.
//
// The function compares files, not what nodes make of them, and so is wrong both ways: it
// drains for changes that alter no pull, and a new block does not drain where the entry
// inherits digest mirrors.
func DrainReasons(before, after []byte) ([]string, error) {
	was, err := readConf(before)
	if err != nil {
		return nil, err
	}
	is, err := readConf(after)
	if err != nil {
		return nil, err
	}
	found := []reason{searchReason(was.UnqualifiedSearchRegistries, is.UnqualifiedSearchRegistries)}
	old, current := byScope(was.Registries), byScope(is.Registries)
	for scope := range old {
		if _, ok := current[scope]; !ok {
			found = append(found, reason{registryRemoved, scope, fmt.Sprintf("the entry for %s is gone", scope)})
		}
	}
	for scope, registry := range current {
		if prior, ok := old[scope]; ok {
			found = append(found, changedReason(scope, prior, registry))
		} else {
			found = append(found, addedReason(scope, registry))
		}
	}
	found = slices.DeleteFunc(found, func(r reason) bool { return r.text == "" })
	slices.SortFunc(found, func(a, b reason) int {
		return cmp.Or(cmp.Compare(a.check, b.check), strings.Compare(a.scope, b.scope))
	})
	return convert.Each(found, func(r reason) string { return r.text }), nil
}

func readConf(file []byte) (conf sysregistriesv2.V2RegistriesConf, err error) {
	if _, err = toml.Decode(string(file), &conf); err != nil {
		return conf, fmt.Errorf("%s: %w", mirrors.RegistriesConfPath, err)
	}
	return conf, nil
}

// byScope returns the registries by the key that MCO compares them by (drain.go:215). The last of
// several with one key counts.
func byScope(registries []sysregistriesv2.Registry) map[string]sysregistriesv2.Registry {
	scopes := make(map[string]sysregistriesv2.Registry, len(registries))
	for _, r := range registries {
		scopes[cmp.Or(r.Prefix, r.Location)] = r
	}
	return scopes
}

// searchReason is drain.go:205: appending to the list does no harm.
func searchReason(was, is []string) reason {
	for i, registry := range was {
		if i >= len(is) || is[i] != registry {
			return reason{searchAltered, "", fmt.Sprintf("the search registries change from %q to %q", strings.Join(was, ", "), strings.Join(is, ", "))}
		}
	}
	return reason{}
}

// changedReason is drain.go:247 for a registry that both files have. Order and insecure of mirrors are not looked at.
func changedReason(scope string, was, is sysregistriesv2.Registry) reason {
	if was.Prefix == is.Prefix && mirrors.SameEntry(&was, &is) { // else the second entry of a mirror that is listed twice would differ
		return reason{}
	}
	for _, field := range []struct{ name, was, is string }{
		{"prefix", was.Prefix, is.Prefix},
		{"location", was.Location, is.Location},
		{"blocked", strconv.FormatBool(was.Blocked), strconv.FormatBool(is.Blocked)},
		{"insecure", strconv.FormatBool(was.Insecure), strconv.FormatBool(is.Insecure)},
	} {
		if field.was != field.is {
			return reason{registryAltered, scope, fmt.Sprintf("%s of the entry for %s changes from %q to %q", field.name, scope, field.was, field.is)}
		}
	}
	for _, m := range was.Mirrors {
		if first(is.Mirrors, m.Location) == nil {
			return reason{mirrorRemoved, scope, fmt.Sprintf("mirror %s of %s is gone", m.Location, scope)}
		}
	}
	for _, m := range is.Mirrors {
		prior, digests := first(was.Mirrors, m.Location), m.PullFromMirror == sysregistriesv2.MirrorByDigestOnly
		switch {
		case prior == nil && !digests && !is.MirrorByDigestOnly:
			return reason{mirrorAdded, scope, fmt.Sprintf("mirror %s is added to %s for %s", m.Location, scope, pulls(m.PullFromMirror))}
		case prior != nil && !digests && m.PullFromMirror != prior.PullFromMirror:
			return reason{mirrorAltered, scope, alteredText(scope, was.Mirrors, *prior, m)}
		}
	}
	return reason{}
}

// alteredText says that a mirror serves other pulls than its first entry did. Where it is listed for digests and for tags, MCO
// compares both with the first of them, and any change of the entry drains.
func alteredText(scope string, before []sysregistriesv2.Endpoint, prior, m sysregistriesv2.Endpoint) string {
	was, is := pulls(prior.PullFromMirror), pulls(m.PullFromMirror)
	isSame := func(e sysregistriesv2.Endpoint) bool {
		return e.Location == m.Location && e.PullFromMirror == m.PullFromMirror
	}
	switch {
	case slices.ContainsFunc(before, isSame): // behind its twin with another type of pulls
		return fmt.Sprintf("the entry for %s changes, and lists mirror %s twice: MCO takes the one for %s for a change of the one for %s", scope, m.Location, is, was)
	case was == is: // the same in another spelling, which MCO compares
		return fmt.Sprintf("pull-from-mirror of mirror %s of %s changes from %q to %q", m.Location, scope, prior.PullFromMirror, m.PullFromMirror)
	default:
		return fmt.Sprintf("mirror %s of %s is for %s instead of %s", m.Location, scope, is, was)
	}
}

// pulls says in words what a pull-from-mirror stands for.
func pulls(from string) string {
	switch from {
	case "digest-only":
		return "digests"
	case "tag-only":
		return "tags"
	case "", "all":
		return "tags and digests"
	default:
		return fmt.Sprintf("%q", from)
	}
}

// first is searchRegistryMirror (drain.go:313): where a source lists a mirror for digests
// and for tags, the tags' is never found.
func first(endpoints []sysregistriesv2.Endpoint, location string) *sysregistriesv2.Endpoint {
	i := slices.IndexFunc(endpoints, func(e sysregistriesv2.Endpoint) bool { return e.Location == location })
	if i < 0 {
		return nil
	}
	return &endpoints[i]
}

// addedReason is allDigestOnlyMirror (drain.go:324) for a registry that only the later file has.
func addedReason(scope string, is sysregistriesv2.Registry) reason {
	if len(is.Mirrors) == 0 && !is.MirrorByDigestOnly {
		return reason{registryAdded, scope, fmt.Sprintf("the entry for %s is new and has no mirrors", scope)}
	}
	for _, m := range is.Mirrors {
		if m.PullFromMirror != sysregistriesv2.MirrorByDigestOnly {
			return reason{registryAdded, scope, fmt.Sprintf("the entry for %s is new, with mirror %s for %s", scope, m.Location, pulls(m.PullFromMirror))}
		}
	}
	return reason{}
}
