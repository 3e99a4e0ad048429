// Package app is the whole program but for its process: main runs it, and so do tests.
package app

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/inspect"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/serve"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/sync"
)

// Run runs the command that argv, as in os.Args, asks for, and returns its exit code. It ends early
// with ctx.
func Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) int {
	commands := slices.Concat([]*cobra.Command{serve.New(), rollout.New(), sync.New(), config.NewCommand(), newVersion()}, inspect.Commands())
	return cli.Run(ctx, argv, stdin, stdout, stderr, commands...)
}
