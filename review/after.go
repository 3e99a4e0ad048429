package review

import (
	"context"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An editedInventory is an inventory with other mirror objects.
type editedInventory struct {
	Inventory
	edit mirrors.Edit
}

// Mirrors implements Inventory.
func (r editedInventory) Mirrors(ctx context.Context) (mirrors.Set, error) {
	set, err := r.Inventory.Mirrors(ctx)
	return r.edit.Apply(set), err
}

// After returns an inventory as it would be after an edit.
func After(inventory Inventory, edit mirrors.Edit) Inventory { return editedInventory{inventory, edit} }
