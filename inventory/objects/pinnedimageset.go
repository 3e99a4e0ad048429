package objects

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// TrimPinnedImageSet returns a PinnedImageSet with only its images, the labels by which pools select it, its
// generation, which MachineConfigNodes name, and when it was created or its deletion began.
func TrimPinnedImageSet(s *mcfgv1.PinnedImageSet) *mcfgv1.PinnedImageSet {
	t := &mcfgv1.PinnedImageSet{ObjectMeta: names(s), Spec: s.Spec}
	t.Labels, t.Generation, t.CreationTimestamp, t.DeletionTimestamp = s.Labels, s.Generation, s.CreationTimestamp, s.DeletionTimestamp
	return t
}
