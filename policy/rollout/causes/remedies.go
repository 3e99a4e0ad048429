package causes

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Remedy is a command, with its effect.
type Remedy struct {
	Command string
	Effect  string
	// ReadOnly says that the command shows something, and changes nothing.
	ReadOnly bool
}

// look is a Remedy that changes nothing.
func look(command, effect string) Remedy {
	return Remedy{command, effect + "; nothing is changed", true}
}

// act is a Remedy that changes something.
func act(command, effect string) Remedy { return Remedy{Command: command, Effect: effect} }

// in begins a command about an object in a namespace.
func in(namespace string) string { return "oc -n " + text.Argument(namespace) + " " }

// mayWorsen reports whether r says of itself that it may make things worse, or is a last resort.
func mayWorsen(r Remedy) bool {
	return strings.HasPrefix(r.Effect, "may make it worse") || strings.HasPrefix(r.Effect, "last resort")
}

// worstLast puts remedies last that may make it worse, in their order.
func worstLast(remedies []Remedy) []Remedy {
	slices.SortStableFunc(remedies, func(a, b Remedy) int { return rollout.FalseFirst(mayWorsen(a), mayWorsen(b)) })
	return remedies
}
