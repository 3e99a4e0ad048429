package follow

import "k8s.io/apimachinery/pkg/runtime"

// AlsoKeep lets s fill a second Sink, with what trim leaves of its objects.
func (s *Source) AlsoKeep(trim func(runtime.Object) any, sink Sink) {
	first := s.Trim
	s.Trim = func(o runtime.Object) any { return both{first(o), trim(o)} }
	s.Sink = tee{s.Sink, sink}
}

// A both holds an object as trimmed for each Sink of a tee.
type both struct{ first, second any }

// A tee passes objects on to two Sinks.
type tee struct{ first, second Sink }

func (t tee) Put(o *Object) {
	first, second := split(o)
	t.first.Put(first)
	t.second.Put(second)
}

func (t tee) Remove(namespace, name string) {
	t.first.Remove(namespace, name)
	t.second.Remove(namespace, name)
}

func (t tee) Replace(all []*Object, lacking error) {
	first, second := make([]*Object, len(all)), make([]*Object, len(all))
	for i, o := range all {
		first[i], second[i] = split(o)
	}
	t.first.Replace(first, lacking)
	t.second.Replace(second, lacking)
}

func split(o *Object) (first, second *Object) {
	a, b, values := *o, *o, o.Value.(both)
	a.Value, b.Value = values.first, values.second
	return &a, &b
}
