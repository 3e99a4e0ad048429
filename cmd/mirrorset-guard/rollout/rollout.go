// Package rollout has the commands about the rollouts of a cluster: status, verify, diagnose, watch,
// pause and resume.
package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
)

// New returns the command rollout.
func New() *cobra.Command {
	cmd := newRolloutStatus("rollout")
	cmd.Short = "Show how far a rollout has come, and pause or resume pools"
	cmd.AddCommand(newRolloutStatus("status"), newRolloutVerify(), newRolloutDiagnose(), newWatchOptions().command(), newRolloutPause(true), newRolloutPause(false))
	return cmd
}

// withoutArguments refuses arguments, and helps with a command that is spelled otherwise.
func withoutArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	names := convert.Each(cmd.Commands(), func(c *cobra.Command) string { return c.Name() })
	cmd.SuggestionsMinimumDistance = 2 // as cobra suggests by itself
	suggested := cmd.SuggestionsFor(args[0])
	switch {
	case len(suggested) > 0:
		return fmt.Errorf("%s has no command %q; did you mean %s?", cmd.CommandPath(), args[0], strings.Join(suggested, " or "))
	case len(names) > 0:
		return fmt.Errorf("%s has no command %q: there are %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
	default:
		return fmt.Errorf("%s takes no arguments, but got %q", cmd.CommandPath(), args[0])
	}
}

// A rolloutWorld is a cluster or a dump of one, read only where a rollout depends on it.
type rolloutWorld struct {
	cluster cli.ClusterFlags
	from    string
}

func (w *rolloutWorld) addFlags(flags *pflag.FlagSet) {
	w.cluster.AddFlags(flags)
	flags.StringVar(&w.from, "from", "", "read the cluster from a dump: a must-gather, a YAML or JSON file, a folder of manifests, or - (standard input)")
}

// noPool is an error that names those of names that no pool has; nil if there are none.
func noPool(names []string, pools []*mcfgv1.MachineConfigPool) error {
	all := convert.Each(pools, func(p *mcfgv1.MachineConfigPool) string { return p.Name })
	var unknown []string
	for _, name := range names {
		if !slices.Contains(all, name) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("no pool %s: there are %s", strings.Join(unknown, ", "), text.Line(strings.Join(all, ", ")))
}

// read reads the world. It is to be closed.
func (w *rolloutWorld) read(ctx context.Context, io cli.Streams) (*environment.Rollout, error) {
	if w.from != "" {
		dump, err := cli.ReadDump(w.from, io, snapshot.Options{})
		if err != nil {
			return nil, err
		}
		return environment.RolloutOfDump(ctx, dump)
	}
	config, err := w.cluster.Config()
	if err != nil {
		return nil, err
	}
	return environment.OpenRollout(ctx, config, io.Err)
}
