package mirrors

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// Tables are the tables of one Set, each computed on first use and then kept: for a Set from
// which many changes start. They are safe for concurrent use.
type Tables struct {
	set    Set
	mu     sync.Mutex
	tables map[tableKey]func() (*Table, error)
}

type tableKey struct {
	pool string
	by   int
}

// How a table is computed.
const (
	checked = iota
	unchecked
	applied
)

// NewTables returns the Tables of s, whose objects must not change afterwards.
func NewTables(s Set) *Tables {
	return &Tables{set: s, tables: map[tableKey]func() (*Table, error){}}
}

// Of reports whether t are the Tables of a Set equal to s.
func (t *Tables) Of(s Set) bool { return t.set.Equal(s) }

// Resolve is Resolve for the nodes of a pool.
func (t *Tables) Resolve(pool string) (*Table, error) { return t.table(pool, checked, Resolve) }

// ResolveUnchecked is ResolveUnchecked for the nodes of a pool.
func (t *Tables) ResolveUnchecked(pool string) (*Table, error) {
	return t.table(pool, unchecked, ResolveUnchecked)
}

// ResolveApplied is ResolveApplied for the nodes of a pool.
func (t *Tables) ResolveApplied(pool string) (*Table, error) {
	return t.table(pool, applied, ResolveApplied)
}

func (t *Tables) table(pool string, by int, resolve func(Set) (*Table, error)) (*Table, error) {
	t.mu.Lock()
	key := tableKey{pool, by}
	table, ok := t.tables[key]
	if !ok {
		table = sync.OnceValues(func() (*Table, error) { return resolve(t.set.At(pool)) })
		t.tables[key] = table
	}
	t.mu.Unlock()
	return table()
}

// Equal reports whether s and other hold the same: the same objects under the same names
// with the same specs, in the same order, and everything else.
func (s Set) Equal(other Set) bool {
	return slices.EqualFunc(s.Objects, other.Objects, sameObject) &&
		slices.EqualFunc(s.Policies, other.Policies, sameObject) && slices.EqualFunc(s.Pinned, other.Pinned, sameObject) &&
		reflect.DeepEqual(s.Registries, other.Registries) &&
		s.Payload == other.Payload && slices.Equal(s.ImportFrom, other.ImportFrom) && s.TrustedCA == other.TrustedCA && s.CAsUnknown == other.CAsUnknown &&
		maps.Equal(s.CAs, other.CAs) && s.Applied.equal(other.Applied) &&
		slices.EqualFunc(s.Files, other.Files, func(a, b File) bool { return a.MachineConfig == b.MachineConfig && a.Role == b.Role && sameFile(a, b) }) &&
		s.Pool == other.Pool
}

func sameObject(a, b Object) bool {
	return a == b || NameOf(a) == NameOf(b) && SameSpec(a, b)
}

func (a *Applied) equal(b *Applied) bool {
	if a == nil || b == nil {
		return a == b
	}
	return maps.EqualFunc(a.Files, b.Files, bytes.Equal)
}
