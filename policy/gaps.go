package policy

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A Gap is a part of the cluster that is not known as it is now: it may have images, or say where nodes pull them from, and for
// which platforms.
type Gap struct {
	// Source is what could not be read, as a person types it: "pods".
	Source string
	// Kind is that of its objects, as Consumer.Kind has it: NodeKind, PoolKind or MachineConfigKind where they say what nodes
	// do, any other where they name images.
	Kind string
	// Detail is for people: since when and why, in one line.
	Detail string
	// Unread is set if the source was available but could not be read, such as a document
	// of a dump.
	Unread bool
	// Excused is set if a change is judged without it: it may not be read, and the guard's absence would do more harm. Every
	// other answer is held to it.
	Excused bool
	// Remedy is what helps where that is not to repair a document; "" otherwise.
	Remedy string
}

// The kinds of objects that say what nodes do.
const (
	NodeKind          = "Node"
	PoolKind          = "MachineConfigPool"
	MachineConfigKind = "MachineConfig"
)

// IsOfNodes reports whether g is about what nodes do, whichever images they pull.
func (g Gap) IsOfNodes() bool {
	return g.Kind == NodeKind || g.Kind == PoolKind || g.Kind == MachineConfigKind
}

// String says in a line what the gap hides, and why.
func (g Gap) String() string {
	if g.IsOfNodes() {
		return g.Source + ": " + g.Detail
	}
	return "images named by " + g.Source + ": " + g.Detail
}

// GapNames is String for a few of gaps, and the number of the others.
func GapNames(gaps []Gap) string { return text.Names(convert.Each(gaps, Gap.String), MaxGaps) }

// Decisive returns those of gaps by which a change is judged.
func Decisive(gaps []Gap) []Gap {
	return slices.DeleteFunc(slices.Clone(gaps), func(g Gap) bool { return g.Excused })
}

// ReadMachineConfigs is the Remedy where a MachineConfig would say what nodes have.
const ReadMachineConfigs = "give check the MachineConfigs as well (oc get machineconfigs -o yaml), or the guard the right to read them"

// MaxGaps is how many gaps are named: mostly the API server is down, and all have the same
// reason.
const MaxGaps = 3
