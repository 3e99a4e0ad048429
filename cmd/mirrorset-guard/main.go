// Command mirrorset-guard refuses changes of OpenShift mirror sets that would
// break image pulls: as an admission webhook (serve), before the change (check),
// and as an explanation of where nodes pull from (explain, inventory). It shows how far
// the rollout of a change is and what holds it up (rollout).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/app"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
)

// version is set by the linker (-X main.version=v1.2.3).
var version = "devel"

func main() {
	cli.Version = version
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := app.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
