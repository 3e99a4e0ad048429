// Package intern lets equal values share their memory.
package intern

import (
	"runtime"
	"sync"
	"weak"
)

// A Pool holds values by a key of their equal parts, each for as long as it is used elsewhere. The zero
// value is empty and ready. It is safe for concurrent use.
type Pool[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]weak.Pointer[V]
}

// Get returns the value of key: the one that is in use or, if there is none, what newValue
// returns. It must not be changed. newValue must not call p.
func (p *Pool[K, V]) Get(key K, newValue func() *V) *V {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.values[key].Value(); v != nil {
		return v
	}
	if p.values == nil {
		p.values = map[K]weak.Pointer[V]{}
	}
	v := newValue()
	p.values[key] = weak.Make(v)
	runtime.AddCleanup(v, p.forget, key)
	return v
}

// forget removes key, unless there is a new value for it.
func (p *Pool[K, V]) forget(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.values[key].Value() == nil {
		delete(p.values, key)
	}
}
