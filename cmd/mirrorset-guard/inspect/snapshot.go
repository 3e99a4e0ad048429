package inspect

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// snapshotOptions are the choices of the command snapshot.
type snapshotOptions struct {
	world cli.WorldFlags
	file  string
}

func newSnapshot() *cobra.Command {
	var o snapshotOptions
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Write the parts of a cluster that a check needs to a file, for --from",
		Long: `snapshot writes the mirror configuration, the images with their consumers, the nodes'
architectures, and the objects that a rollout depends on: trimmed, identical for an
identical cluster, and without any secret. check, explain, render, inventory and
rollout read it with --from, anywhere and at any time.`,
		Example: `  mirrorset-guard snapshot -f cluster.json
  mirrorset-guard snapshot | gzip > cluster.json.gz`,
		Args: cli.NoArgs,
		RunE: cli.Runs(o.run),
	}
	o.world.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.file, "filename", "f", "-", "file to write; - is standard output")
	return cmd
}

func (o *snapshotOptions) run(ctx context.Context, s cli.Streams) error {
	w, err := o.world.Open(ctx, s)
	if err != nil {
		return err
	}
	defer w.Close()
	write := func(to io.Writer) error { return snapshot.Write(ctx, to, w.Cluster, w.TrustSettings()) }
	if o.file == "-" {
		err = write(s.Out)
	} else {
		err = cli.WriteFile(o.file, 0o600, write)
	}
	if gaps := w.Cluster.Gaps(); err == nil && len(gaps) > 0 {
		err = fmt.Errorf("the snapshot is written, and says to its readers what it lacks: %s", policy.GapNames(gaps))
	}
	return err
}
