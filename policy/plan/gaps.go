package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// unreadApplied is the gap where MCO rejects the configuration in force, as rejected says: nodes have what was applied
// before, and err says why that is not known.
func unreadApplied(rejected *mirrors.Rejection, err error) policy.Gap {
	state := "the Machine Config Operator rejects the configuration in force"
	if IsTooMuch(rejected) {
		state = "the configuration in force is too large to be judged"
	}
	return policy.Gap{
		Source: "machineconfigs", Kind: policy.MachineConfigKind, Unread: true, Remedy: policy.ReadMachineConfigs,
		Detail: fmt.Sprintf("%s, and what nodes have could not be learned from MachineConfig %s: %v", state, mirrors.GeneratedRegistries, err),
	}
}

// An Unseen is the worst that a change may do to images missing from the inventory.
type Unseen int

const (
	// UnseenUntouched means that no route changes, whatever the image.
	UnseenUntouched Unseen = iota
	// UnseenKept means that each image is still looked for at every place where it is
	// today, no more is required of it there, and no source gets its first mirror.
	UnseenKept
	// UnseenFallback means that each image is still looked for at every place where
	// it is today, after a mirror that is the first of its source.
	UnseenFallback
	// UnseenMoved means that a place is no longer asked; or that, where only mirrors are
	// left, it is asked only after a new one: nodes stop at a mirror that has something else.
	// Or that nodes ask for signatures where they did not, or for other ones.
	UnseenMoved
)

// unseenIn says what c, whose resolution is r, does to images that are not known.
func unseenIn(c policy.Change, r resolution) Unseen {
	switch {
	case r.After == nil: // nothing of it reaches a node, or it cannot be judged
		return UnseenUntouched
	case r.before == nil, r.unreadable: // unknown from where
		return UnseenMoved
	case len(c.ChangedCAs()) > 0: // any image may come from there
		return UnseenMoved
	}
	return unseen(c, r)
}

// unseen says what c does to images that are not known, whether it brings entries or
// takes them away. It asks for the routes of references that stand for them: below each
// scope that either table knows, and below none, in each namespace that has a signature policy
// of its own, and in none of those.
func unseen(c policy.Change, r resolution) Unseen {
	worst := UnseenUntouched
	namespaces := append([]string{""}, r.ownPolicies()...)
	for ref := range standIns(c, r.before, r.After) {
		for _, namespace := range namespaces {
			from, to, changed, err := r.compare(ref, namespace)
			if err == nil && changed {
				worst = max(worst, unseenOn(from, to))
			}
		}
	}
	return worst
}

func unseenOn(before, after mirrors.Route) Unseen {
	switch {
	case before.Err != nil:
		return UnseenKept // it could not be pulled
	case after.Err != nil || slices.ContainsFunc(before.Open(), func(l mirrors.Location) bool { return !slices.Contains(after.Open(), l) }):
		return UnseenMoved
	case after.SourceBlocked() && hasNewInFront(before.Open(), after.Open()):
		return UnseenMoved
	case asksForMore(before.Sources, after.Sources):
		return UnseenMoved
	case len(before.Mirrors()) == 0 && len(after.Mirrors()) > 0:
		return UnseenFallback
	default:
		return UnseenKept
	}
}

// asksForMore reports whether nodes that get an image at a place of before may find it without
// the signatures that after has them look for, there or in front of it.
func asksForMore(before, after []mirrors.PullSource) bool {
	stopped := false
	for _, s := range after {
		if !s.Tried() {
			continue
		}
		was := slices.IndexFunc(before, func(b mirrors.PullSource) bool { return b.Tried() && b.Location == s.Location })
		switch {
		case was < 0:
			stopped = stopped || s.WantsSignatures()
		case stopped, !s.AsksNoMore(before[was]):
			return true
		}
	}
	return false
}

// hasNewInFront reports whether after has a new place in front of one that before has too.
func hasNewInFront(before, after []mirrors.Location) bool {
	first := slices.IndexFunc(after, func(l mirrors.Location) bool { return !slices.Contains(before, l) })
	return first >= 0 && slices.ContainsFunc(after[first:], func(l mirrors.Location) bool { return slices.Contains(before, l) })
}

// standIns returns references that stand for unknown images: a tag and a digest in each
// scope that could be a repository, and in a repository below it, and of a registry at another
// port of a scope that is a host, as registries.conf has that covered, too; and some that no
// scope covers, which stand for all others.
func standIns(c policy.Change, before, after *mirrors.Table) map[string]bool {
	refs := map[string]bool{}
	add := func(repository string) {
		refs[repository+":"+standIn] = true
		refs[repository+"@sha256:"+strings.Repeat("0", 64)] = true
	}
	add(standIn)
	add(standIn + ".invalid/" + standIn)
	add(standIn + ".invalid" + standInPort + "/" + standIn)
	for scope := range scopes(c, before, after) {
		scope = strings.Replace(scope, "*", standIn, 1) // only ever its first label
		add(scope + "/" + standIn)
		switch {
		case strings.Contains(scope, "/"):
			add(scope)
		case !strings.Contains(scope, ":"):
			add(scope + standInPort + "/" + standIn)
		}
	}
	return refs
}

// standIn is a name that no image has, nor a narrower scope.
const standIn = "images-that-nobody-knows"

// standInPort is one that no registry has.
const standInPort = ":64999"

// scopes returns the scopes that the tables, and the registry lists behind them, name, and
// those of signature policies that differ.
func scopes(c policy.Change, before, after *mirrors.Table) map[string]bool {
	scopes := map[string]bool{}
	for _, scope := range mirrors.CompareScopes(before, after).Scopes {
		scopes[scope] = true
	}
	for _, t := range []*mirrors.Table{before, after} {
		for _, r := range t.Config().Registries {
			scopes[r.Prefix] = true
		}
	}
	for _, s := range []mirrors.Set{c.Before, c.After} {
		for _, scope := range slices.Concat(s.Registries.AllowedRegistries, s.Registries.BlockedRegistries) {
			scopes[scope] = true
		}
	}
	maps.DeleteFunc(scopes, func(scope string, _ bool) bool { return scope == "" })
	return scopes
}
