package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Filled refuses a flag that is given without a text, as by a variable of a shell that is not set: without it the
// command would do something else. Then it looks at the arguments.
func Filled(args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		var err error
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if list, ok := f.Value.(pflag.SliceValue); f.Changed && (f.Value.Type() == "string" && f.Value.String() == "" || ok && slices.Contains(list.GetSlice(), "")) {
				err = fmt.Errorf("--%s: it is empty; is a variable of the shell not set?", f.Name)
			}
		})
		if err != nil {
			return err
		}
		return args(cmd, given)
	}
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
