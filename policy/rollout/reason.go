package rollout

import (
	"fmt"
	"path"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Check is one of MCO's rules that a drain can come from.
type Check int

// The rules, in the order in which MCO goes by them. Those of registries.conf are read only
// where no policy asks for a drain before.
const (
	// NoPolicy: no NodeDisruptionPolicy covers the file, and the node reboots.
	NoPolicy Check = iota + 1
	// PolicyReboots and PolicyDrains: the policy of the file says Reboot, or Drain.
	PolicyReboots
	PolicyDrains
	// SearchAltered: a search registry is gone or has another place.
	SearchAltered
	// RegistryRemoved: an entry is gone, or has another prefix.
	RegistryRemoved
	// RegistryAltered: prefix, location, blocked or insecure of an entry differ.
	RegistryAltered
	// MirrorRemoved: no mirror of the entry has the location any more.
	MirrorRemoved
	// MirrorAltered: a mirror serves other pulls, and not only those by digest.
	MirrorAltered
	// MirrorAdded: a mirror is new in an entry, and serves not only pulls by digest.
	MirrorAdded
	// RegistryAdded: an entry is new, and has a mirror that serves not only pulls by digest,
	// or none.
	RegistryAdded
)

// Reason is a cause for which MCO drains.
type Reason struct {
	Check Check
	// Path is the file that differs.
	Path string
	// Scope is that of the entry in registries.conf, "" for the search registries and for
	// other files.
	Scope string
	// Mirror is the location of a mirror of that entry, where one decides. RegistryAdded has
	// none where the entry has no mirrors.
	Mirror string
	// Field is which part of the entry differs, for RegistryAltered: "prefix", "location",
	// "blocked" or "insecure".
	Field string
	// From and To are the value before and after: of the field, of the mirror's
	// pull-from-mirror, or the lists of search registries.
	From, To string
	// Twin is set where the mirror served those pulls before as well: it is listed for
	// digests and for tags, and MCO compares both with the first of them. Any change of the
	// entry drains then.
	Twin bool
}

// String returns the reason as a clause ("registry quay.io is new, ...").
func (r Reason) String() string {
	switch r.Check {
	case NoPolicy:
		return fmt.Sprintf("no NodeDisruptionPolicy covers %s, which makes nodes reboot", r.Path)
	case PolicyReboots:
		return fmt.Sprintf("the NodeDisruptionPolicy for %s says Reboot", r.Path)
	case PolicyDrains:
		return fmt.Sprintf("the NodeDisruptionPolicy for %s says Drain", r.Path)
	case SearchAltered:
		return fmt.Sprintf("the search registries change from %q to %q", r.From, r.To)
	case RegistryRemoved:
		return fmt.Sprintf("the entry for %s is gone", r.Scope)
	case RegistryAltered:
		return fmt.Sprintf("%s of the entry for %s changes from %q to %q", r.Field, r.Scope, r.From, r.To)
	case MirrorRemoved:
		return fmt.Sprintf("mirror %s of %s is gone", r.Mirror, r.Scope)
	case MirrorAltered:
		return r.altered()
	case MirrorAdded:
		return fmt.Sprintf("mirror %s is added to %s for %s", r.Mirror, r.Scope, pulls(r.To))
	case RegistryAdded:
		if r.Mirror == "" {
			return fmt.Sprintf("the entry for %s is new and has no mirrors", r.Scope)
		}
		return fmt.Sprintf("the entry for %s is new, with mirror %s for %s", r.Scope, r.Mirror, pulls(r.To))
	default:
		return fmt.Sprintf("check %d of %s", r.Check, path.Base(mirrors.RegistriesConfPath))
	}
}

func (r Reason) altered() string {
	if r.Twin {
		return fmt.Sprintf("the entry for %s changes, and lists mirror %s twice: MCO takes the one for %s for a change of the one for %s",
			r.Scope, r.Mirror, pulls(r.To), pulls(r.From))
	}
	if pulls(r.To) == pulls(r.From) { // the same in another spelling, which MCO compares
		return fmt.Sprintf("pull-from-mirror of mirror %s of %s changes from %q to %q", r.Mirror, r.Scope, r.From, r.To)
	}
	return fmt.Sprintf("mirror %s of %s is for %s instead of %s", r.Mirror, r.Scope, pulls(r.To), pulls(r.From))
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
