package review

import (
	"context"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An edited is an inventory with other mirror objects.
type edited struct {
	Inventory
	edit mirrors.Edit
}

// Mirrors implements Inventory.
func (r edited) Mirrors(ctx context.Context) (mirrors.Set, error) {
	set, err := r.Inventory.Mirrors(ctx)
	return r.edit.Apply(set), err
}

// After returns an inventory as it would be after an edit.
func After(inventory Inventory, edit mirrors.Edit) Inventory { return edited{inventory, edit} }
