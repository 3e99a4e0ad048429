package cluster

import (
	"cmp"
	"context"
	"path"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// pinnedSets returns the PinnedImageSets, in the version that the cluster serves: the fields are the same. A
// cluster that serves neither has none. Where they may not be read, which Notes says of the source that follows
// them, all that a change pins is new.
func (r mirrorReader) pinnedSets(ctx context.Context) ([]mirrors.Object, error) {
	sets, err := listed[mcfgv1.PinnedImageSet](ctx, r, pinnedSets)
	if err == nil && len(sets) == 0 {
		sets, err = listed[mcfgv1.PinnedImageSet](ctx, r, formerPinnedSets)
	}
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	return sets, err
}

// PinnedSetGVK returns the kind PinnedImageSet in the version that the cluster serves: the former one if that is all.
func (c *Inventory) PinnedSetGVK(ctx context.Context) (schema.GroupVersionKind, error) {
	current, err := c.mirrors.serves(ctx, pinnedSets)
	if err != nil || current {
		return mirrors.PinnedSetGVK, err
	}
	if former, err := c.mirrors.serves(ctx, formerPinnedSets); err != nil || !former {
		return mirrors.PinnedSetGVK, err
	}
	return mirrors.PinnedSetFormerGVK, nil
}

// servesAny reports whether the API server has a resource in any version.
func (r mirrorReader) servesAny(ctx context.Context, resource schema.GroupResource) (bool, error) {
	if resource.Group == "" {
		return true, nil // every API server has that
	}
	var group metav1.APIGroup
	err := r.get(ctx, "/apis/"+resource.Group, nil, &group)
	for _, v := range group.Versions {
		served, failed := r.serves(ctx, "/apis/"+v.GroupVersion+"/"+resource.Resource)
		if served {
			return true, nil
		}
		err = cmp.Or(err, failed)
	}
	return false, err
}

// serves reports whether the API server has a collection at folder.
func (r mirrorReader) serves(ctx context.Context, folder string) (bool, error) {
	var served metav1.APIResourceList
	err := r.get(ctx, path.Dir(folder), nil, &served)
	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == path.Base(folder) }), err
}
