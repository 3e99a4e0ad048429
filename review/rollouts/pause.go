package rollouts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// One changes a pool, unless somebody else has changed spec.paused since it was read.
func (p Pauser) One(ctx context.Context, name string, dryRun []string) error {
	pool, err := p.Pools.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	patch, err := PausePatch(pool, p.Paused)
	if err != nil {
		return err
	}
	_, err = p.Pools.Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{DryRun: dryRun, FieldManager: "mirrorset-guard"})
	if apierrors.IsInvalid(err) {
		return fmt.Errorf("somebody else has changed it meanwhile: %w", err)
	}
	return err
}

// A patchStep is an operation of RFC 6902.
type patchStep struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// PausePatch returns the patch that sets spec.paused if it still is what it was when pool was
// read: the opposite. A pool that a person wrote may lack the field, which is null to a test.
func PausePatch(pool *unstructured.Unstructured, paused bool) ([]byte, error) {
	const path = "/spec/paused"
	was, found, err := unstructured.NestedBool(pool.Object, "spec", "paused")
	switch {
	case err != nil:
		return nil, err
	case was == paused:
		return nil, errors.New("somebody else has changed it meanwhile")
	}
	test := patchStep{Op: "test", Path: path}
	if found {
		test.Value = was
	}
	return json.Marshal([]patchStep{test, {"add", path, paused}})
}
