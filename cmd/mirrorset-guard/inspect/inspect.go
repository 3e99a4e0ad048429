// Package inspect has the commands that look at a cluster or a dump of one, and at what a change would
// do to it: check and its kin, explain, render, inventory and snapshot.
package inspect

import "github.com/spf13/cobra"

// Commands returns them.
func Commands() []*cobra.Command {
	return []*cobra.Command{newCheck(), newPlan(), newPin(), newRelease(), newDeletion(), newKeep(), newExplain(), newRender(), newInventory(), newSnapshot()}
}
