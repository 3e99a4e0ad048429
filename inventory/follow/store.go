package follow

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// A store is the side of a Source that its Reflector writes to.
type store struct{ source *Source }

// Add implements cache.ReflectorStore.
func (s store) Add(o any) error {
	t, err := s.source.trimAny(o)
	if err != nil {
		return err
	}
	if s.source.wants(t.Name) {
		s.source.Sink.Put(t)
	}
	s.source.health.succeed()
	return nil
}

// Update implements cache.ReflectorStore.
func (s store) Update(o any) error { return s.Add(o) }

// Delete implements cache.ReflectorStore.
func (s store) Delete(o any) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return fmt.Errorf("an object of %s: %w", s.source.Name, err)
	}
	if s.source.wants(m.GetName()) {
		s.source.Sink.Remove(m.GetNamespace(), m.GetName())
	}
	s.source.health.succeed()
	return nil
}

// Replace implements cache.ReflectorStore. The source has synced with it.
func (s store) Replace(objects []any, _ string) error {
	all := make([]*Object, 0, len(objects))
	for _, o := range objects {
		t, err := s.source.trimAny(o)
		if err != nil {
			return err
		}
		if s.source.wants(t.Name) {
			all = append(all, t)
		}
	}
	s.source.Sink.Replace(all, nil)
	s.source.synced(nil)
	return nil
}

// Resync implements cache.ReflectorStore.
func (s store) Resync() error { return nil }

// Bookmark implements cache.ReflectorBookmarkStore: the server is there, without news.
func (s store) Bookmark(string) error {
	s.source.health.succeed()
	return nil
}

// Transformer implements cache.TransformingStore: a streamed list is trimmed as
// it comes in.
func (s store) Transformer() cache.TransformFunc {
	return func(o any) (any, error) { return s.source.trimAny(o) }
}

func (s *Source) trimAny(o any) (*Object, error) {
	object, ok := o.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("an object of %s has the type %T", s.Name, o)
	}
	return s.trim(object)
}

// trim returns the kept part of o, which may have been trimmed already.
func (s *Source) trim(o runtime.Object) (*Object, error) {
	if t, ok := o.(*Object); ok {
		return t, nil
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return nil, fmt.Errorf("an object of %s: %w", s.Name, err)
	}
	t := &Object{Namespace: m.GetNamespace(), Name: m.GetName(), resourceVersion: m.GetResourceVersion(), Value: o}
	if s.Trim != nil {
		t.Value = s.Trim(o)
	}
	return t, nil
}
