package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A holderSink enters the Holders of one kind in an Index.
type holderSink struct {
	index *images.Index
	kind  string
}

func (s holderSink) Put(t *follow.Object) { s.index.Put(s.holder(t)) }

func (s holderSink) Remove(namespace, name string) { s.index.Delete(s.kind, namespace, name) }

func (s holderSink) Replace(all []*follow.Object, _ error) {
	s.index.ReplaceSeq(s.kind, func(yield func(images.Holder) bool) {
		for _, t := range all {
			if !yield(s.holder(t)) {
				return
			}
		}
	})
}

func (s holderSink) holder(t *follow.Object) images.Holder {
	return images.Holder{Kind: s.kind, Namespace: t.Namespace, Name: t.Name, References: t.Value.(images.Packed).References()}
}

// one returns the Sink of one object in an Index that has others of its kind.
func (s holderSink) one(object types.NamespacedName) follow.Sink {
	return follow.One(func(value any, _ error) {
		if value == nil {
			s.Remove(object.Namespace, object.Name)
			return
		}
		s.Put(&follow.Object{Namespace: object.Namespace, Name: object.Name, Value: value})
	})
}

// An indexSink enters objects other than images and pods by their names.
type indexSink[T any] struct {
	put     func(namespace, name string, value T)
	remove  func(namespace, name string)
	replace func(map[types.NamespacedName]T)
}

// streamSink enters ImageStreams in an Index, besides the images that they name.
func streamSink(index *images.Index) follow.Sink {
	remove := func(namespace, name string) { index.PutStream(namespace, name, nil) }
	return indexSink[*images.Stream]{index.PutStream, remove, index.ReplaceStreams}
}

func (s indexSink[T]) Put(t *follow.Object) { s.put(t.Namespace, t.Name, t.Value.(T)) }

func (s indexSink[T]) Remove(namespace, name string) { s.remove(namespace, name) }

func (s indexSink[T]) Replace(all []*follow.Object, _ error) { s.replace(follow.ByName[T](all)) }

// A keptSink enters objects of one kind in a Store.
type keptSink struct {
	store *objects.Store
	kind  objects.Kind
}

func (s keptSink) trim(o runtime.Object) any { return s.kind.Trim(o) }

func (s keptSink) Put(o *follow.Object) { s.store.Put(s.kind, o.Value.(metav1.Object)) }

func (s keptSink) Remove(namespace, name string) { s.store.Remove(s.kind, namespace, name) }

func (s keptSink) Replace(all []*follow.Object, _ error) {
	s.store.Replace(s.kind, convert.Each(all, func(o *follow.Object) metav1.Object { return o.Value.(metav1.Object) }))
}

// A podSink enters pods in a Table. Those that have ended are nil.
type podSink struct{ pods *workloads.Table }

func (s podSink) Put(o *follow.Object) {
	if p := o.Value.(*rollout.Pod); p != nil {
		s.pods.Put(p)
		return
	}
	s.pods.Remove(o.Namespace, o.Name)
}

func (s podSink) Remove(namespace, name string) { s.pods.Remove(namespace, name) }

func (s podSink) Replace(all []*follow.Object, _ error) {
	s.pods.Replace(func(yield func(*rollout.Pod) bool) {
		for _, o := range all {
			if !yield(o.Value.(*rollout.Pod)) {
				return
			}
		}
	})
}
