package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
)

// refuseEmpty refuses a flag or an argument that is given without a text, as by a variable of a shell that is not set: without
// it the command would do something else, or the same to another cluster.
func refuseEmpty(cmd *cobra.Command, given []string) error {
	if cmd.DisableFlagParsing {
		return nil // completion, of a word that has not been begun
	}
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if list, ok := f.Value.(pflag.SliceValue); f.Changed && (f.Value.Type() == "string" && f.Value.String() == "" || ok && slices.Contains(list.GetSlice(), "")) {
			err = fmt.Errorf("--%s: it is empty; is a variable of the shell not set?", f.Name)
		}
	})
	if slices.Contains(given, "") {
		err = fmt.Errorf("%s: an argument is empty; is a variable of the shell not set?", cmd.CommandPath())
	}
	return err
}

// NoArgs refuses arguments, and says where one probably belongs: behind -f.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	belongs := ""
	if cmd.Flags().ShorthandLookup("f") != nil {
		belongs = fmt.Sprintf("; is it the value of -f: -f %s?", args[0])
	}
	return fmt.Errorf("%s takes no argument, and was given %q%s", cmd.CommandPath(), args[0], belongs)
}

// OneArg wants one argument, which is what.
func OneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) > 1 {
			return fmt.Errorf("%s takes one argument, and was given %d: %q", cmd.CommandPath(), len(given), given)
		}
		return SomeArgs(what)(cmd, given)
	}
}

// SomeArgs wants arguments, which are what.
func SomeArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) == 0 {
			return fmt.Errorf("%s wants %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// Apart refuses others beside flag, as they would have no effect. Then it looks at the arguments.
func Apart(args cobra.PositionalArgs, flag string, others ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		for _, other := range others {
			if cmd.Flags().Changed(flag) && cmd.Flags().Changed(other) {
				return fmt.Errorf("%s has no effect beside %s: leave one of them out", spelled(cmd, other), spelled(cmd, flag))
			}
		}
		return args(cmd, given)
	}
}

// spelled returns a flag as people write it.
func spelled(cmd *cobra.Command, flag string) string {
	if f := cmd.Flags().Lookup(flag); f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + flag
}

// ReleaseError is nil where the answer about a release is yes.
func ReleaseError(r *readiness.Readiness) error {
	switch r.State() {
	case readiness.Ready:
		return nil
	case readiness.NotReady:
		return ErrDenied
	default:
		return fmt.Errorf("%s: not all could be determined", r.Title())
	}
}

// AboutRelease says which release there is no answer about.
func AboutRelease(asked string, err error) error {
	return fmt.Errorf("release %s: %w", text.Line(text.Cut(asked, maxRelease)), err)
}

// maxRelease is more than a reference has.
const maxRelease = 300
