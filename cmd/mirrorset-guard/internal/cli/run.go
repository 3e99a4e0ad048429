// Package cli has what the commands share: how they are run, the flags by which a cluster, registries,
// a change and the rules are chosen, and how documents and lines are written.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Version is the version of the program, as main knows it.
var Version = "devel"

// Exit codes, as kubectl diff has them: a difference is 1, trouble is more.
const (
	ExitAdmitted = 0
	ExitDenied   = 1
	ExitTrouble  = 2
)

// ErrDenied ends a command whose answer was written, and was no.
var ErrDenied = errors.New("denied")

// Interrupted returns an error if ctx was ended from outside, as by Ctrl-C, and not by its time: the answers under way
// are unknown, and a report without them would be no answer.
func Interrupted(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return errors.New("interrupted; there is no answer")
	}
	return nil
}

// Run runs the program with these commands, and returns its exit code. argv is as in os.Args: the name
// it was called by decides whether it is a plugin of kubectl or oc. The tests start it with their own
// streams.
func Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer, commands ...*cobra.Command) int {
	// Answers of registries, and names in a dump, are strangers' words.
	stderr = text.Writer(stderr)
	called, err := callBy(argv[0])
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", called.program, err)
		return ExitTrouble
	}
	args := argv[1:]
	if called.completes {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	root := newRoot(called.program, commands)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return ExitAdmitted
	case errors.Is(err, ErrDenied):
		return ExitDenied
	default:
		fmt.Fprintf(stderr, "%s: %s\n", called.program, called.program.In(err.Error()))
		return ExitTrouble
	}
}

func newRoot(program Program, commands []*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   ownName,
		Short: "Refuse changes of OpenShift mirror sets that would break image pulls",
		Long: `This program knows every image a cluster may have to pull, computes with the
nodes' own code where each would be pulled from under a changed mirror
configuration, asks the registries whether they hold it, and says no before the
change takes the cluster down.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: string(program)},
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			log.SetLogger(logr.Discard()) // else controller-runtime complains after 30 s, with a stack trace
			return refuseEmpty(cmd, args)
		},
	}
	root.AddCommand(commands...)
	if program != ownName {
		root.CompletionOptions.DisableDefaultCmd = true // its scripts are about a command of that name
	}
	program.words(root)
	addCompletions(root)
	return root
}
