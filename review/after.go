package review

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// An edited is an inventory with other mirror objects.
type edited struct {
	Inventory
	edit mirrors.Edit
}

var (
	_ GapSource  = edited{}
	_ SiteSource = edited{}
	_ NoteSource = edited{}
)

// Mirrors implements Inventory.
func (r edited) Mirrors(ctx context.Context) (mirrors.Set, error) {
	set, err := r.Inventory.Mirrors(ctx)
	return r.edit.Apply(set), err
}

// Gaps implements GapSource.
func (r edited) Gaps() []policy.Gap {
	if source, ok := r.Inventory.(GapSource); ok {
		return source.Gaps()
	}
	return nil
}

// Nodes implements SiteSource.
func (r edited) Nodes() []*corev1.Node {
	if source, ok := r.Inventory.(SiteSource); ok {
		return source.Nodes()
	}
	return nil
}

// EndingNamespaces implements SiteSource.
func (r edited) EndingNamespaces() map[string]bool {
	if source, ok := r.Inventory.(SiteSource); ok {
		return source.EndingNamespaces()
	}
	return nil
}

// Notes implements NoteSource.
func (r edited) Notes() []string {
	if source, ok := r.Inventory.(NoteSource); ok {
		return source.Notes()
	}
	return nil
}

// An editedRollout is one whose rollouts are known.
type editedRollout struct{ edited }

// Rollout implements RolloutSource.
func (r editedRollout) Rollout() rollout.Cluster {
	return r.Inventory.(RolloutSource).Rollout()
}

// Rendered implements RolloutSource.
func (r editedRollout) Rendered(ctx context.Context, name string) (*rollout.Rendered, error) {
	return r.Inventory.(RolloutSource).Rendered(ctx, name)
}

// After returns an inventory as it would be after an edit.
func After(inventory Inventory, edit mirrors.Edit) Inventory {
	r := edited{inventory, edit}
	if _, ok := inventory.(RolloutSource); ok {
		return editedRollout{r}
	}
	return r
}
