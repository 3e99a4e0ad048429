package config_test

import (
	"context"
	"io"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
)

// run runs the program with the command config.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Run(ctx, append([]string{"mirrorset-guard"}, args...), stdin, stdout, stderr, config.NewCommand())
}
