package cluster

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

// mirrorSources returns sources that count changes of mirror objects and keep nothing of
// them: Mirrors reads them.
func (c *Inventory) mirrorSources(dyn dynamic.Interface) []*source {
	return convert.Each(mirrorKinds, func(k mirrorKind) *source {
		s := custom(dyn, k.collection(), "")
		s.Trim = func(runtime.Object) any { return nil }
		s.Sink = &counter{Sink: follow.One(func(any, error) {}), changes: &c.mirrorChanges}
		return s
	})
}

// MirrorChanges returns a number that grows when an object changes that Mirrors reads,
// MachineConfigs apart. It needs Options.OnlyProgress.
func (c *Inventory) MirrorChanges() uint64 { return c.mirrorChanges.Load() }

// ProgressChanges returns a number that grows when something changes of ProgressObjects.
func (c *Inventory) ProgressChanges() uint64 { return c.progressChanges.Load() }

// A counter counts changes of the objects that it passes on to a Sink.
type counter struct {
	follow.Sink
	changes *atomic.Uint64
	none    bool // was said last
}

func (c *counter) Put(o *follow.Object) {
	c.Sink.Put(o)
	c.count(false)
}

func (c *counter) Remove(namespace, name string) {
	c.Sink.Remove(namespace, name)
	c.count(false)
}

// Replace implements follow.Sink. A lasting lack is not a change.
func (c *counter) Replace(all []*follow.Object, lacking error) {
	c.Sink.Replace(all, lacking)
	if lacking == nil || !c.none {
		c.count(lacking != nil)
	}
}

func (c *counter) count(none bool) {
	c.none = none
	c.changes.Add(1)
}
