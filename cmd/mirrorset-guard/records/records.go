// Package records has the commands that read records of decisions: audit and replay.
package records

import "github.com/spf13/cobra"

// Commands returns them.
func Commands() []*cobra.Command { return []*cobra.Command{newAudit(), newReplay()} }
