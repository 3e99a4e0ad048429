package cluster

import (
	"context"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// pinnedSets returns the PinnedImageSets, in the version that the cluster serves: the fields are the same. A
// cluster that serves neither has none. Where they may not be read, which Notes says of the source that follows
// them, all that a change pins is new.
func (r mirrorReader) pinnedSets(ctx context.Context) ([]mirrors.Object, error) {
	sets, err := readAll[mcfgv1.PinnedImageSet](ctx, r, pinnedSets)
	if err == nil && len(sets) == 0 {
		sets, err = readAll[mcfgv1.PinnedImageSet](ctx, r, formerPinnedSets)
	}
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	return asObjects(sets), err
}
