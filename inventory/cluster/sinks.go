package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
)

// A holderSink enters the Holders of one kind in an Index.
type holderSink struct {
	index *images.Index
	kind  string
}

func (s holderSink) put(t *trimmed)                { s.index.Put(s.holder(t)) }
func (s holderSink) remove(namespace, name string) { s.index.Delete(s.kind, namespace, name) }
func (s holderSink) none(error)                    { s.index.Replace(s.kind, nil) }

func (s holderSink) replace(all []*trimmed) {
	s.index.ReplaceSeq(s.kind, func(yield func(images.Holder) bool) {
		for _, t := range all {
			if !yield(s.holder(t)) {
				return
			}
		}
	})
}

func (s holderSink) holder(t *trimmed) images.Holder {
	return images.Holder{Kind: s.kind, Namespace: t.Namespace, Name: t.Name, References: t.value.(images.Packed).References()}
}

// An accountSink enters service accounts in an Index.
type accountSink struct{ index *images.Index }

func (s accountSink) put(t *trimmed)                { s.index.PutAccount(t.Namespace, t.Name, t.value.(bool)) }
func (s accountSink) remove(namespace, name string) { s.index.DeleteAccount(namespace, name) }
func (s accountSink) none(error)                    { s.replace(nil) }

func (s accountSink) replace(all []*trimmed) {
	named := make(map[types.NamespacedName]bool, len(all))
	for _, t := range all {
		named[types.NamespacedName{Namespace: t.Namespace, Name: t.Name}] = t.value.(bool)
	}
	s.index.ReplaceAccounts(named)
}

// A streamSink enters ImageStreams in an Index, besides the images that they name.
type streamSink struct{ index *images.Index }

func (s streamSink) put(t *trimmed)                { s.index.PutStream(t.Namespace, t.Name, t.value.(*images.Stream)) }
func (s streamSink) remove(namespace, name string) { s.index.PutStream(namespace, name, nil) }
func (s streamSink) none(error)                    { s.replace(nil) }

func (s streamSink) replace(all []*trimmed) {
	streams := make(map[types.NamespacedName]*images.Stream, len(all))
	for _, t := range all {
		streams[types.NamespacedName{Namespace: t.Namespace, Name: t.Name}] = t.value.(*images.Stream)
	}
	s.index.ReplaceStreams(streams)
}

// An objectSink enters one object in an Index that has others of its kind.
type objectSink struct {
	holderSink
	object types.NamespacedName
}

func (s objectSink) none(error) { s.replace(nil) }

func (s objectSink) replace(all []*trimmed) {
	if len(all) == 0 {
		s.remove(s.object.Namespace, s.object.Name)
	}
	for _, t := range all {
		s.put(t)
	}
}

// A table holds what is left of the objects of one kind. The zero value is
// empty and ready.
type table[T any] struct {
	mu   sync.Mutex
	rows map[types.NamespacedName]T
}

func (t *table[T]) put(o *trimmed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows == nil {
		t.rows = map[types.NamespacedName]T{}
	}
	t.rows[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o.value.(T)
}

func (t *table[T]) remove(namespace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, types.NamespacedName{Namespace: namespace, Name: name})
}

func (t *table[T]) none(error) { t.replace(nil) }

func (t *table[T]) replace(all []*trimmed) {
	rows := make(map[types.NamespacedName]T, len(all))
	for _, o := range all {
		rows[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o.value.(T)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = rows
}

// sorted returns the rows in the order of compare.
func (t *table[T]) sorted(compare func(a, b T) int) []T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Values(t.rows), compare)
}

// named returns the row of a cluster-scoped object, the zero T if there is none.
func (t *table[T]) named(name string) T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[types.NamespacedName{Name: name}]
}

// The global pull secret: the credentials of the nodes.
const (
	pullSecretNamespace = "openshift-config"
	pullSecretName      = "pull-secret"
)

// A secretSink passes the global pull secret on to whoever wants it, at first
// and when it has changed, and keeps only what it needs to tell a change.
type secretSink struct {
	tell func(dockerconfigjson []byte, err error)
	last string // what was told last, "" for nothing yet
}

// secretContent is what is left of the pull secret.
type secretContent struct {
	data []byte
	err  error
}

func trimSecret(o runtime.Object) any {
	data := o.(*corev1.Secret).Data[corev1.DockerConfigJsonKey]
	if len(data) == 0 {
		return secretContent{err: fmt.Errorf("secret %s/%s has no %s",
			pullSecretNamespace, pullSecretName, corev1.DockerConfigJsonKey)}
	}
	return secretContent{data: data}
}

func (s *secretSink) put(t *trimmed) { s.report(t.value.(secretContent)) }

func (s *secretSink) remove(string, string) { s.replace(nil) }

func (s *secretSink) replace(all []*trimmed) {
	if len(all) == 0 {
		s.none(errors.New("there is no such secret"))
		return
	}
	s.put(all[0])
}

func (s *secretSink) none(reason error) {
	s.report(secretContent{err: fmt.Errorf("reading secret %s/%s: %w", pullSecretNamespace, pullSecretName, reason)})
}

func (s *secretSink) report(c secretContent) {
	now := "data " + string(c.data)
	if c.err != nil {
		now = "error " + c.err.Error()
	}
	if now == s.last {
		return
	}
	s.last = now
	s.tell(c.data, c.err)
}
