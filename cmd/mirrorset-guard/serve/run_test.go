package serve

import (
	"context"
	"io"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/inspect"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	guardtest "github.com/mirrorset-guard/mirrorset-guard/test/guard"
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

// newGuardWith returns the server of the command serve with flags.
func newGuardWith(t *testing.T, api *rest.Config, log logr.Logger, flags ...string) *guard {
	t.Helper()
	var o serveOptions
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.addFlags(set)
	if err := set.Parse(flags); err != nil {
		t.Fatal(err)
	}
	g, err := newGuard(api, &o, log)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// runGuard runs the command serve with flags until the test ends, on free ports.
func runGuard(t *testing.T, api *rest.Config, log logr.Logger, flags ...string) *guard {
	t.Helper()
	g := newGuardWith(t, api, log, append([]string{
		"--webhook-bind-address", guardtest.FreeAddress(t), "--health-probe-bind-address", guardtest.FreeAddress(t), "--metrics-bind-address", guardtest.FreeAddress(t), "--shutdown-delay", "0s",
	}, flags...)...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return g
}
