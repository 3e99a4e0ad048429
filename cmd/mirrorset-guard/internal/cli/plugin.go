package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newPluginCompletion returns the command completion of a plugin: kubectl and oc complete the arguments
// of a plugin with what a program of another name prints (k8s.io/kubectl,
// pkg/cmd/plugin/plugin_completion.go).
func newPluginCompletion(program Program) *cobra.Command {
	tool, name, _ := strings.Cut(string(program), " ")
	file := tool + "_complete-" + name
	return &cobra.Command{
		Use:   "completion",
		Short: "Print the program by which " + tool + " completes what follows " + string(program),
		Long: fmt.Sprintf(`completion prints a script. As a file %s in the PATH,
%s's own completion asks it for what may follow "%s".`, file, tool, program),
		Example: fmt.Sprintf("  %s completion > %s && chmod +x %s && sudo mv %s /usr/local/bin/", program, file, file, file),
		Args:    NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "#!/bin/sh\nexec %s %s \"$@\" 2>/dev/null\n", program, cobra.ShellCompRequestCmd)
			return err
		},
	}
}
