package cluster

import (
	"slices"
	"sync/atomic"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
)

// progressResources are those of rolloutResources that show how far a rollout is. The others
// show why it does not move, and are by far the larger.
var progressResources = []string{
	workloads.Nodes, workloads.Pools, workloads.Machines, workloads.Infrastructures, workloads.Operators, workloads.Versions,
	"machineconfignodes", "pinnedimagesets", "controllerconfigs",
}

// isOfProgress reports whether s shows how far a rollout is.
func (c *Inventory) isOfProgress(s *source) bool {
	return s == c.drainSource || slices.Contains(progressResources, schema.ParseGroupResource(s.Name).Resource)
}

// notFollowed returns the resources of a rollout that are left out on purpose: their objects are
// not known either.
func (c *Inventory) notFollowed() []string {
	if !c.onlyProgress {
		return nil
	}
	var names []string
	for _, r := range rolloutResources {
		if !slices.Contains(progressResources, r.Resource) {
			names = append(names, r.Resource)
		}
	}
	return names
}

// mirrorResources are what the mirror configuration is made from, apart from MachineConfigs.
var mirrorResources = []schema.GroupVersionResource{
	resourceOf(configv1.GroupName, "v1", "imagetagmirrorsets"),
	resourceOf(configv1.GroupName, "v1", "imagedigestmirrorsets"),
	resourceOf("operator.openshift.io", "v1alpha1", "imagecontentsourcepolicies"),
	resourceOf(configv1.GroupName, "v1", "clusterimagepolicies"),
	resourceOf(configv1.GroupName, "v1", "imagepolicies"),
	resourceOf(configv1.GroupName, "v1", "images"),
}

// mirrorSources returns sources that count changes of mirrorResources and keep nothing of
// them: Mirrors reads them.
func (c *Inventory) mirrorSources(dyn dynamic.Interface) []*source {
	sources := make([]*source, len(mirrorResources))
	for i, r := range mirrorResources {
		s := optional(dyn, r)
		s.Trim = func(runtime.Object) any { return nil }
		s.Sink = &counter{changes: &c.mirrorChanges}
		sources[i] = s
	}
	return sources
}

// MirrorChanges returns a number that grows when an object changes that Mirrors reads,
// MachineConfigs apart. It needs Options.OnlyProgress.
func (c *Inventory) MirrorChanges() uint64 { return c.mirrorChanges.Load() }

// ProgressChanges returns a number that grows when something changes of ProgressObjects.
func (c *Inventory) ProgressChanges() uint64 { return c.progressChanges.Load() }

// countProgress makes ProgressChanges count.
func (c *Inventory) countProgress() {
	for _, s := range c.sources {
		if c.isOfProgress(s) {
			s.Sink = &counter{Sink: s.Sink, changes: &c.progressChanges}
		}
	}
}

// A counter counts changes of the objects that it passes on to a Sink, if there is one.
type counter struct {
	follow.Sink
	changes *atomic.Uint64
	none    bool // was said last
}

// Put implements follow.Sink.
func (c *counter) Put(o *follow.Object) {
	if c.Sink != nil {
		c.Sink.Put(o)
	}
	c.count(false)
}

// Remove implements follow.Sink.
func (c *counter) Remove(namespace, name string) {
	if c.Sink != nil {
		c.Sink.Remove(namespace, name)
	}
	c.count(false)
}

// Replace implements follow.Sink. A lasting lack is not a change.
func (c *counter) Replace(all []*follow.Object, lacking error) {
	if c.Sink != nil {
		c.Sink.Replace(all, lacking)
	}
	if lacking == nil || !c.none {
		c.count(lacking != nil)
	}
}

func (c *counter) count(none bool) {
	c.none = none
	c.changes.Add(1)
}
