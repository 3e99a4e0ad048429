package cluster

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

// A table is a follow.Sink that holds the trimmed objects of one kind. The zero value is empty and ready.
type table[T any] struct {
	mu   sync.Mutex
	rows map[types.NamespacedName]T
}

func (t *table[T]) Put(o *follow.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows == nil {
		t.rows = map[types.NamespacedName]T{}
	}
	t.rows[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o.Value.(T)
}

func (t *table[T]) Remove(namespace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, types.NamespacedName{Namespace: namespace, Name: name})
}

func (t *table[T]) Replace(all []*follow.Object, _ error) {
	rows := byObject[T](all)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = rows
}

// byObject returns the values of objects by their names.
func byObject[T any](all []*follow.Object) map[types.NamespacedName]T {
	values := make(map[types.NamespacedName]T, len(all))
	for _, o := range all {
		values[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o.Value.(T)
	}
	return values
}

// sorted returns the rows in the order of compare.
func (t *table[T]) sorted(compare func(a, b T) int) []T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Values(t.rows), compare)
}

// all returns the rows in no order.
func (t *table[T]) all() []T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.rows))
}

// named returns the row of a cluster-scoped object, the zero T if there is none.
func (t *table[T]) named(name string) T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[types.NamespacedName{Name: name}]
}
