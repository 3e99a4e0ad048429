package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
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
// they are.
var flagValues = map[string]cobra.CompletionFunc{
	"context":   complete(contexts),
	"namespace": complete(namespaces),
	"pool":      complete(pools),
	"registry":  complete(registries),
	"rule":      completeLists(rules),
}

// CompleteImages completes images of the cluster or dump, any number of them.
var CompleteImages = complete(imagesInUse)

// CompletePools completes MachineConfigPools, any number of them.
var CompletePools = complete(pools)

// CompleteFiles completes the names of files.
func CompleteFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// addCompletions has the flags of cmd, and of the commands below it, completed. What is not said to be a
// file is none.
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
	fixed := func(_ *cobra.Command, into *candidates) { into.add(values...) }
	switch {
	case values != nil && f.Name == "output" && f.Value.Type() == "stringArray":
		return completeOutputs(fixed)
	case values != nil && f.Value.Type() == "stringSlice":
		return completeLists(fixed)
	case values != nil:
		return complete(fixed)
	case slices.Contains(fileFlags, f.Name):
		return CompleteFiles
	default:
		return flagValues[f.Name]
	}
}

// A lister lists what an argument may be.
type lister func(*cobra.Command, *candidates)

// complete completes one of those that list lists, but for those that are arguments already.
func complete(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		found := listed(cmd, list, begun)
		return slices.DeleteFunc(found, func(s string) bool { return slices.Contains(args, s) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeLists completes the last of those that are separated by commas.
func completeLists(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndexByte(begun, ',')+1]
		found := listed(cmd, list, begun[len(before):])
		for i := range found {
			found[i] = before + found[i]
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeOutputs completes FORMAT, and FILE after FORMAT=.
func completeOutputs(formats lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if strings.Contains(begun, "=") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return listed(cmd, formats, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

func rules(_ *cobra.Command, into *candidates) { into.add(policy.RuleIDs()...) }

// Completes reports whether the program was called for completions; argv is as in os.Args.
func Completes(argv []string) bool {
	called, err := callBy(argv[0])
	return err == nil && (called.completes || isCompletion(argv[1:]))
}

// isCompletion reports whether args ask for completions.
func isCompletion(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}
