package rollout

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
)

// pauseOptions are the choices of the commands rollout pause and rollout resume.
type pauseOptions struct {
	world rolloutWorld
	pause bool
	yes   bool
}

// newRolloutPause returns the command that pauses pools, or the one that resumes them.
func newRolloutPause(pause bool) *cobra.Command {
	o := pauseOptions{pause: pause}
	cmd := &cobra.Command{
		Use:   "resume POOL...",
		Short: "Let pools update their nodes again, after showing the consequences",
		Long: `resume sets spec.paused of MachineConfigPools to false, and changes nothing else. It
first shows which changes wait for their nodes, whether they are drained and how long it
takes, and asks for confirmation; --yes confirms in advance. All pools are checked before any is changed.

Exit code 0: done, or nothing was to be done. 2: not done, or not for all pools.`,
		Example: `  mirrorset-guard rollout resume worker`,
		Args: func(cmd *cobra.Command, pools []string) error {
			if len(pools) == 0 {
				return fmt.Errorf("which pools? %s %s; %s status lists them", cmd.Parent().CommandPath(), cmd.Use, cmd.Parent().CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, pools []string) error {
			return o.run(cmd.Context(), pools, cli.StreamsOf(cmd))
		},
	}
	if pause {
		cmd.Use, cmd.Short, cmd.Example = "pause POOL...", "Keep pools from updating more nodes", `  mirrorset-guard rollout pause worker infra`
		cmd.Long = `pause sets spec.paused of MachineConfigPools to true, and changes nothing else. It first
shows which nodes stay as they are and until when they can do without new certificates,
and asks for confirmation; --yes confirms in advance. All pools are checked before any is changed.

Exit code 0: done, or nothing was to be done. 2: not done, or not for all pools.`
	}
	o.world.cluster.AddFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	return cmd
}

// errUnchanged ends a command that has changed nothing: there is no such pool, or the answer was not yes.
var errUnchanged = errors.New("nothing was changed")

func (o *pauseOptions) run(ctx context.Context, names []string, s cli.Streams) error {
	view, err := o.world.read(ctx, s)
	if err != nil {
		return err
	}
	defer view.Close()
	slices.Sort(names)
	pools, err := o.toChange(view.Cluster.Pools, slices.Compact(names), s.Out)
	if err != nil || len(pools) == 0 {
		return err
	}
	client, err := dynamic.NewForConfig(view.Config)
	if err != nil {
		return err
	}
	changer := rollouts.Pauser{Pools: client.Resource(mcfgv1.GroupVersion.WithResource("machineconfigpools")), Paused: o.pause}
	if err := changer.All(ctx, pools, []string{metav1.DryRunAll}); err != nil {
		return fmt.Errorf("%w; %w", err, errUnchanged)
	}
	var means answer.Answer
	for _, name := range pools {
		means.Add(answer.List{Title: o.verb() + " pool " + name + ":", Items: answer.Indented(status.IfPaused(view.Input, name, o.pause))})
	}
	fmt.Fprint(s.Out, means.Text(cli.LookOf(s.Out)))
	if err := o.confirm(s); err != nil {
		return err
	}
	if err := changer.All(ctx, pools, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%sd: %s\n", o.verb(), text.Line(strings.Join(pools, ", ")))
	return err
}

func (o *pauseOptions) verb() string {
	if o.pause {
		return "Pause"
	}
	return "Resume"
}

// toChange returns those of names that are not in the state asked for. The error names those
// that there are not.
func (o *pauseOptions) toChange(pools []*mcfgv1.MachineConfigPool, names []string, w io.Writer) ([]string, error) {
	if err := noPool(names, pools); err != nil {
		return nil, fmt.Errorf("%w; %w", err, errUnchanged)
	}
	is := "is not paused"
	if o.pause {
		is = "is paused already"
	}
	var change []string
	for _, name := range names {
		i := slices.IndexFunc(pools, func(p *mcfgv1.MachineConfigPool) bool { return p.Name == name })
		if pools[i].Spec.Paused != o.pause {
			change = append(change, name)
		} else {
			fmt.Fprintf(w, "Pool %s %s: nothing to change.\n", text.Line(name), is)
		}
	}
	return change, nil
}

// confirm asks, unless --yes has answered.
func (o *pauseOptions) confirm(s cli.Streams) error {
	if o.yes {
		return nil
	}
	if file, ok := s.In.(*os.File); ok && !isTerminal(file) {
		return fmt.Errorf("standard input is not a terminal; confirm with --yes: %w", errUnchanged)
	}
	return asked(s, o.verb())
}

// isTerminal takes any character device for a terminal. One that is not, such as /dev/null, gives
// no answer.
func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// asked returns nil if the answer is yes.
func asked(s cli.Streams, verb string) error {
	fmt.Fprintf(s.Out, "%s? [y/N] ", verb)
	answer, err := bufio.NewReader(s.In).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	case "":
		if err != nil {
			return fmt.Errorf("no answer; confirm with --yes: %w", errUnchanged)
		}
	}
	return errUnchanged
}
