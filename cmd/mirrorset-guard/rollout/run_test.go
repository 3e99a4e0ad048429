package rollout

import (
	"context"
	"io"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/inspect"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// run runs the program with the commands that these tests need.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Run(ctx, append([]string{"mirrorset-guard"}, args...), stdin, stdout, stderr, append(inspect.Commands(), New())...)
}

// invoke runs a command in this process.
func invoke(t testing.TB, stdin string, args ...string) clitest.Outcome {
	t.Helper()
	return clitest.Invoke(t, run, stdin, args...)
}
