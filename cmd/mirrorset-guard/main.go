// Command mirrorset-guard refuses changes of OpenShift mirror sets that would
// break image pulls: as an admission webhook (serve), before the change (check),
// and as an explanation of where nodes pull from (explain, inventory). It shows how far
// the rollout of a change is and what holds it up (rollout), and what was decided in the
// past (audit, replay).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes, as kubectl diff has them: a difference is 1, trouble is more.
const (
	exitAdmitted = 0
	exitDenied   = 1
	exitTrouble  = 2
)

// errDenied ends a command whose answer was written, and was no.
var errDenied = errors.New("denied")

// run is main without the process: the tests start it with their own streams.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// What a registry answers, and names in a dump, are strangers' words.
	stderr = text.Writer(stderr)
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitAdmitted
	case errors.Is(err, errDenied):
		return exitDenied
	default:
		fmt.Fprintf(stderr, "mirrorset-guard: %v\n", err)
		return exitTrouble
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "mirrorset-guard",
		Short: "Refuse changes of OpenShift mirror sets that would break image pulls",
		Long: `mirrorset-guard knows every image a cluster may have to pull, computes with the
nodes' own code where each would be pulled from under a changed mirror
configuration, asks the registries whether they hold it, and says no before the
change takes the cluster down.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		// Else controller-runtime complains after 30 s, with a stack trace.
		PersistentPreRun: func(*cobra.Command, []string) { log.SetLogger(logr.Discard()) },
	}
	root.AddCommand(newServe(), newCheck(), newExplain(), newRender(), newInventory(), newRollout(), newSnapshot(), newConfig(), newAudit(), newReplay(), newVersion())
	return root
}
