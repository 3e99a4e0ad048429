package cluster

import "k8s.io/apimachinery/pkg/runtime"

// alsoKeep lets s fill a second sink, with what trim leaves of its objects.
func (s *source) alsoKeep(trim func(runtime.Object) any, to sink) {
	first := s.trim
	s.trim = func(o runtime.Object) any { return both{first(o), trim(o)} }
	s.sink = tee{s.sink, to}
}

// both is what is left of an object for each sink of a tee.
type both struct{ first, second any }

// A tee passes objects on to two sinks.
type tee struct{ first, second sink }

func (t tee) put(o *trimmed) {
	first, second := split(o)
	t.first.put(first)
	t.second.put(second)
}

func (t tee) remove(namespace, name string) {
	t.first.remove(namespace, name)
	t.second.remove(namespace, name)
}

func (t tee) replace(all []*trimmed) {
	first, second := make([]*trimmed, len(all)), make([]*trimmed, len(all))
	for i, o := range all {
		first[i], second[i] = split(o)
	}
	t.first.replace(first)
	t.second.replace(second)
}

func (t tee) none(reason error) {
	t.first.none(reason)
	t.second.none(reason)
}

func split(o *trimmed) (first, second *trimmed) {
	a, b, values := *o, *o, o.value.(both)
	a.value, b.value = values.first, values.second
	return &a, &b
}
