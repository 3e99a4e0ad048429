package config

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
)

// NewCommand returns the command config.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Validate a configuration file, and say what may be in one",
		Long: `config is about the file that serve and check read with --config: one YAML document,
` + v1alpha1.Kind + ` of ` + v1alpha1.APIVersion + `.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "validate FILE",
		Short: "Report every mistake in a configuration file (- for standard input)",
		Long: `validate reports every mistake in the configuration file.

Exit code 0: the file is good. 2: it has mistakes, or cannot be read.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE: func(cmd *cobra.Command, args []string) error { return validateConfig(args[0], cmd) },
	}, &cobra.Command{
		Use:   "defaults",
		Short: "Print a file that sets everything to its default",
		Args:  cobra.NoArgs,
		RunE:  writes(func() ([]byte, error) { return Default().YAML() }),
	}, &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of configuration files",
		Args:  cobra.NoArgs,
		RunE:  writes(SchemaJSON),
	})
	return cmd
}

// writes is the RunE of a command that writes what make returns.
func writes(make func() ([]byte, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		data, err := make()
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(data)
		return err
	}
}

func validateConfig(path string, cmd *cobra.Command) error {
	var c Configuration
	var err error
	if path == "-" {
		path = "standard input"
		c, err = readFrom(path, cmd.InOrStdin())
	} else {
		c, err = Read(path)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is a good configuration; its mode is %s\n", path, c.Mode)
	return err
}
