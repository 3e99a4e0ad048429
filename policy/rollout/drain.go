package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// DrainReasons returns why MCO drains a node whose registries.conf goes from before to
// after, sorted by check and then by scope, at most one for a scope; none where it reloads
// CRI-O without a drain. It is isSafeContainerRegistryConfChanges (drain.go:182), which
// stops at its first reason.
//
// The function compares files, not what nodes make of them, and so is wrong both ways: it
// drains for changes that alter no pull, and a new block does not drain where the entry
// inherits digest mirrors.
func DrainReasons(before, after []byte) ([]Reason, error) {
	was, err := readConf(before)
	if err != nil {
		return nil, err
	}
	is, err := readConf(after)
	if err != nil {
		return nil, err
	}
	reasons := searchReasons(was.UnqualifiedSearchRegistries, is.UnqualifiedSearchRegistries)
	old, current := byScope(was.Registries), byScope(is.Registries)
	for scope := range old {
		if _, ok := current[scope]; !ok {
			reasons = append(reasons, Reason{Check: RegistryRemoved, Scope: scope})
		}
	}
	for scope, registry := range current {
		var found *Reason
		if prior, ok := old[scope]; ok {
			found = changedReason(prior, registry)
		} else {
			found = addedReason(registry)
		}
		if found != nil {
			found.Scope = scope
			reasons = append(reasons, *found)
		}
	}
	for i := range reasons {
		reasons[i].Path = mirrors.RegistriesConfPath
	}
	slices.SortFunc(reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(a.Check, b.Check), strings.Compare(a.Scope, b.Scope))
	})
	return reasons, nil
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

// searchReasons is drain.go:205: appending to the list does no harm.
func searchReasons(was, is []string) []Reason {
	for i, registry := range was {
		if i >= len(is) || is[i] != registry {
			return []Reason{{Check: SearchAltered, From: strings.Join(was, ", "), To: strings.Join(is, ", ")}}
		}
	}
	return nil
}

// changedReason is drain.go:247 for a registry that both files have, nil where it does not
// ask for a drain. Order and insecure of mirrors are not looked at.
func changedReason(was, is sysregistriesv2.Registry) *Reason {
	if sameRegistry(was, is) {
		return nil
	}
	for _, field := range []struct{ name, was, is string }{
		{"prefix", was.Prefix, is.Prefix},
		{"location", was.Location, is.Location},
		{"blocked", strconv.FormatBool(was.Blocked), strconv.FormatBool(is.Blocked)},
		{"insecure", strconv.FormatBool(was.Insecure), strconv.FormatBool(is.Insecure)},
	} {
		if field.was != field.is {
			return &Reason{Check: RegistryAltered, Field: field.name, From: field.was, To: field.is}
		}
	}
	for _, m := range was.Mirrors {
		if first(is.Mirrors, m.Location) == nil {
			return &Reason{Check: MirrorRemoved, Mirror: m.Location}
		}
	}
	for _, m := range is.Mirrors {
		prior, digests := first(was.Mirrors, m.Location), m.PullFromMirror == sysregistriesv2.MirrorByDigestOnly
		switch {
		case prior == nil && !digests && !is.MirrorByDigestOnly:
			return &Reason{Check: MirrorAdded, Mirror: m.Location, To: m.PullFromMirror}
		case prior != nil && !digests && m.PullFromMirror != prior.PullFromMirror:
			return &Reason{
				Check: MirrorAltered, Mirror: m.Location, From: prior.PullFromMirror, To: m.PullFromMirror,
				Twin: listed(was.Mirrors, m.Location, m.PullFromMirror),
			}
		}
	}
	return nil
}

// sameRegistry is reflect.DeepEqual, except that an empty list of mirrors is none: no rule of
// changedReason is about that. It matters where a mirror is listed twice: its second entry would differ
// from the first even in an unchanged registry.
func sameRegistry(a, b sysregistriesv2.Registry) bool {
	return a.Prefix == b.Prefix && a.Endpoint == b.Endpoint && a.Blocked == b.Blocked &&
		a.MirrorByDigestOnly == b.MirrorByDigestOnly && slices.Equal(a.Mirrors, b.Mirrors)
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

// listed reports whether a mirror was there with the same type of pulls before, behind its
// twin with another.
func listed(endpoints []sysregistriesv2.Endpoint, location, pulls string) bool {
	return slices.ContainsFunc(endpoints, func(e sysregistriesv2.Endpoint) bool {
		return e.Location == location && e.PullFromMirror == pulls
	})
}

// addedReason is allDigestOnlyMirror (drain.go:324) for a registry that only the later file
// has.
func addedReason(is sysregistriesv2.Registry) *Reason {
	if len(is.Mirrors) == 0 {
		if is.MirrorByDigestOnly {
			return nil
		}
		return &Reason{Check: RegistryAdded}
	}
	for _, m := range is.Mirrors {
		if m.PullFromMirror != sysregistriesv2.MirrorByDigestOnly {
			return &Reason{Check: RegistryAdded, Mirror: m.Location, To: m.PullFromMirror}
		}
	}
	return nil
}
