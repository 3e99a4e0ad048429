// Command mirrorset-guard refuses changes of OpenShift mirror sets that would
// break image pulls: as an admission webhook (serve), before the change (check),
// and as an explanation of where nodes pull from (explain, inventory). It shows how far
// the rollout of a change is and what holds it up (rollout).
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/inspect"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/serve"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/sync"
)

func main() {
	cli.Version = version
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process.
func run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) int {
	commands := slices.Concat([]*cobra.Command{serve.New(), rollout.New(), sync.New(), config.NewCommand(), newVersion()}, inspect.Commands())
	return cli.Run(ctx, argv, stdin, stdout, stderr, commands...)
}
