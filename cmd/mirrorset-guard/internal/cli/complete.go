package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// valuesAnnotation is what a flag has that takes one of a few values: these.
const valuesAnnotation = "mirrorset-guard.io/values"

// OneOf notes the values of a flag, for completion.
func OneOf(flags *pflag.FlagSet, name string, values ...string) {
	_ = flags.SetAnnotation(name, valuesAnnotation, values) // it has just been added
}

// fileFlags are completed with the names of files.
var fileFlags = []string{"filename", "from", "config", "kubeconfig", "registry-ca", "pull-secret", "wait-for", "tls-dir", "client-ca"}

// addCompletions has the flags of cmd, and of the commands below it, completed. Files are completed only
// where a flag says so.
func addCompletions(cmd *cobra.Command) {
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if complete := completionOf(f); complete != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // it is there
		}
	})
	for _, below := range cmd.Commands() {
		addCompletions(below)
	}
}

// completionOf returns what may follow a flag; shells leave out what does not go on as the word begins. Values that depend on a cluster or a
// dump are not completed.
func completionOf(f *pflag.Flag) cobra.CompletionFunc {
	values := f.Annotations[valuesAnnotation]
	switch {
	case values != nil:
		return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if f.Value.Type() == "stringArray" && strings.Contains(begun, "=") { // FORMAT=FILE
				return nil, cobra.ShellCompDirectiveDefault
			}
			return values, cobra.ShellCompDirectiveNoFileComp
		}
	case slices.Contains(fileFlags, f.Name):
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	case f.Name == "context":
		return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return contexts(cmd), cobra.ShellCompDirectiveNoFileComp
		}
	default:
		return nil
	}
}

// contexts are those of the kubeconfig that the flags of cmd name.
func contexts(cmd *cobra.Command) []string {
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	loading.ExplicitPath = cmd.Flags().Lookup("kubeconfig").Value.String()
	config, err := loading.Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}
