package follow

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// A Table is a Sink that holds the trimmed objects of one kind. The zero value is empty and ready. It is safe for concurrent use.
type Table[T any] struct {
	// Changed is called after each change. It may be nil.
	Changed func()

	mu   sync.Mutex
	rows map[types.NamespacedName]T
}

func (t *Table[T]) change(do func()) {
	t.mu.Lock()
	do()
	t.mu.Unlock()
	if t.Changed != nil {
		t.Changed()
	}
}

// Put implements Sink.
func (t *Table[T]) Put(o *Object) {
	t.change(func() {
		if t.rows == nil {
			t.rows = map[types.NamespacedName]T{}
		}
		t.rows[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o.Value.(T)
	})
}

// Remove implements Sink.
func (t *Table[T]) Remove(namespace, name string) {
	t.change(func() { delete(t.rows, types.NamespacedName{Namespace: namespace, Name: name}) })
}

// Replace implements Sink.
func (t *Table[T]) Replace(all []*Object, _ error) {
	rows := ByName[T](all)
	t.change(func() { t.rows = rows })
}

// ByName returns the values of objects by their names.
func ByName[T any](all []*Object) map[types.NamespacedName]T {
	values := make(map[types.NamespacedName]T, len(all))
	for _, o := range all {
		values[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o.Value.(T)
	}
	return values
}

// All returns the rows in no order.
func (t *Table[T]) All() []T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.rows))
}

// Named returns the row of a cluster-scoped object, the zero T if there is none.
func (t *Table[T]) Named(name string) T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[types.NamespacedName{Name: name}]
}
