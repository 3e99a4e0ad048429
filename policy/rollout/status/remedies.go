package status

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
func in(namespace string) string { return "oc -n " + arg(namespace) + " " }

// arg returns a name as an argument in a command that people copy to a shell: a dump may hold
// any name.
func arg(name string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._:/@", r)
	}
	if name != "" && !strings.HasPrefix(name, "-") && !strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return name
	}
	return "'" + strings.ReplaceAll(text.Line(name), "'", `'\''`) + "'"
}

// mayWorsen reports whether r says of itself that it may make things worse, or is a last resort.
func mayWorsen(r Remedy) bool {
	return strings.HasPrefix(r.Effect, "may make it worse") || strings.HasPrefix(r.Effect, "last resort")
}

// worstLast puts remedies last that may make it worse, in their order.
func worstLast(remedies []Remedy) []Remedy {
	slices.SortStableFunc(remedies, func(a, b Remedy) int { return rollout.FalseFirst(mayWorsen(a), mayWorsen(b)) })
	return remedies
}
