package cluster

import (
	"context"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// pinnedSets returns the PinnedImageSets, in the version that the cluster serves: the fields are the same. A
// cluster that serves neither has none.
func (r mirrorReader) pinnedSets(ctx context.Context) ([]mirrors.Object, error) {
	sets, err := readAll[mcfgv1.PinnedImageSet](ctx, r, pinnedSets)
	if err == nil && len(sets) == 0 {
		sets, err = readAll[mcfgv1.PinnedImageSet](ctx, r, formerPinnedSets)
	}
	return asObjects(sets), err
}
