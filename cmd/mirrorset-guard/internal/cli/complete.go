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

// flagValues are the completions of flags that take a name. Flags of one name mean the same wherever
// they are. Values that depend on a cluster or a dump are not completed.
var flagValues = map[string]cobra.CompletionFunc{
	"context": complete(contexts),
}

// completeFiles completes the names of files.
func completeFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

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

func completionOf(f *pflag.Flag) cobra.CompletionFunc {
	values := f.Annotations[valuesAnnotation]
	fixed := func(*cobra.Command) []string { return values }
	switch {
	case values != nil && f.Name == "output" && f.Value.Type() == "stringArray":
		return completeOutputs(fixed)
	case values != nil:
		return complete(fixed)
	case slices.Contains(fileFlags, f.Name):
		return completeFiles
	default:
		return flagValues[f.Name]
	}
}

// A lister lists what an argument may be.
type lister func(*cobra.Command) []string

// contexts are those of the kubeconfig that the flags of cmd name.
func contexts(cmd *cobra.Command) []string {
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	loading.ExplicitPath = cmd.Flags().Lookup("kubeconfig").Value.String()
	config, err := loading.Load()
	if err != nil {
		return nil
	}
	return slices.Collect(maps.Keys(config.Contexts))
}

// begun returns those that begin so.
func (l lister) begun(cmd *cobra.Command, so string) []cobra.Completion {
	var found []cobra.Completion
	for _, s := range l(cmd) {
		if strings.HasPrefix(s, so) {
			found = append(found, s)
		}
	}
	slices.Sort(found)
	return found
}

// complete completes one of those that list lists.
func complete(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return list.begun(cmd, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeOutputs completes FORMAT, and FILE after FORMAT=.
func completeOutputs(formats lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if strings.Contains(begun, "=") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return formats.begun(cmd, begun), cobra.ShellCompDirectiveNoFileComp
	}
}
