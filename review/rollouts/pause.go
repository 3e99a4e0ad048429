package rollouts

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// A Pauser pauses pools, or resumes them: it sets spec.paused, and nothing else.
type Pauser struct {
	Pools  dynamic.ResourceInterface
	Paused bool
}

// All changes the pools one after the other. The error says which of them were changed.
func (p Pauser) All(ctx context.Context, pools, dryRun []string) error {
	for i, name := range pools {
		if err := p.One(ctx, name, dryRun); err != nil {
			err = fmt.Errorf("pool %s: %w", name, err)
			if i > 0 && len(dryRun) == 0 {
				return fmt.Errorf("%w; changed before that: %s", err, strings.Join(pools[:i], ", "))
			}
			return err
		}
	}
	return nil
}

// One changes a pool, unless somebody else has done so already.
func (p Pauser) One(ctx context.Context, name string, dryRun []string) error {
	pool, err := p.Pools.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	was, _, err := unstructured.NestedBool(pool.Object, "spec", "paused")
	switch {
	case err != nil:
		return err
	case was == p.Paused:
		return errors.New("somebody else has changed it meanwhile")
	}
	_, err = p.Pools.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"paused":%t}}`, p.Paused), metav1.PatchOptions{DryRun: dryRun, FieldManager: "mirrorset-guard"})
	return err
}
