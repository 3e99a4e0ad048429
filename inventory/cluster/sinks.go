package cluster

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A holderSink enters the Holders of one kind in an Index.
type holderSink struct {
	index *images.Index
	kind  string
}

// Put implements follow.Sink.
func (s holderSink) Put(t *follow.Object) { s.index.Put(s.holder(t)) }

// Remove implements follow.Sink.
func (s holderSink) Remove(namespace, name string) { s.index.Delete(s.kind, namespace, name) }

// None implements follow.Sink.
func (s holderSink) None(error) { s.index.Replace(s.kind, nil) }

// Replace implements follow.Sink.
func (s holderSink) Replace(all []*follow.Object) {
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

// An accountSink enters service accounts in an Index.
type accountSink struct{ index *images.Index }

// Put implements follow.Sink.
func (s accountSink) Put(t *follow.Object) {
	s.index.PutAccount(t.Namespace, t.Name, t.Value.(images.Account))
}

// Remove implements follow.Sink.
func (s accountSink) Remove(namespace, name string) { s.index.DeleteAccount(namespace, name) }

// None implements follow.Sink.
func (s accountSink) None(error) { s.Replace(nil) }

// Replace implements follow.Sink.
func (s accountSink) Replace(all []*follow.Object) {
	named := make(map[types.NamespacedName]images.Account, len(all))
	for _, t := range all {
		named[types.NamespacedName{Namespace: t.Namespace, Name: t.Name}] = t.Value.(images.Account)
	}
	s.index.ReplaceAccounts(named)
}

// A streamSink enters ImageStreams in an Index, besides the images that they name.
type streamSink struct{ index *images.Index }

// Put implements follow.Sink.
func (s streamSink) Put(t *follow.Object) {
	s.index.PutStream(t.Namespace, t.Name, t.Value.(*images.Stream))
}

// Remove implements follow.Sink.
func (s streamSink) Remove(namespace, name string) { s.index.PutStream(namespace, name, nil) }

// None implements follow.Sink.
func (s streamSink) None(error) { s.Replace(nil) }

// Replace implements follow.Sink.
func (s streamSink) Replace(all []*follow.Object) {
	streams := make(map[types.NamespacedName]*images.Stream, len(all))
	for _, t := range all {
		streams[types.NamespacedName{Namespace: t.Namespace, Name: t.Name}] = t.Value.(*images.Stream)
	}
	s.index.ReplaceStreams(streams)
}

// An objectSink enters one object in an Index that has others of its kind.
type objectSink struct {
	holderSink
	object types.NamespacedName
}

// None implements follow.Sink.
func (s objectSink) None(error) { s.Replace(nil) }

// Replace implements follow.Sink.
func (s objectSink) Replace(all []*follow.Object) {
	if len(all) == 0 {
		s.Remove(s.object.Namespace, s.object.Name)
	}
	for _, t := range all {
		s.Put(t)
	}
}

// A podSink enters pods in a Table. Those that have ended are nil.
type podSink struct{ pods *workloads.Table }

// Put implements follow.Sink.
func (s podSink) Put(o *follow.Object) {
	if p := o.Value.(*rollout.Pod); p != nil {
		s.pods.Put(p)
		return
	}
	s.pods.Remove(o.Namespace, o.Name)
}

// Remove implements follow.Sink.
func (s podSink) Remove(namespace, name string) { s.pods.Remove(namespace, name) }

// None implements follow.Sink.
func (s podSink) None(error) { s.Replace(nil) }

// Replace implements follow.Sink.
func (s podSink) Replace(all []*follow.Object) {
	s.pods.Replace(func(yield func(*rollout.Pod) bool) {
		for _, o := range all {
			if !yield(o.Value.(*rollout.Pod)) {
				return
			}
		}
	})
}
