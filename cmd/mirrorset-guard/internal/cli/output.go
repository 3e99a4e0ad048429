package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Program is what the user calls the program.
	Program Program
}

// Note writes a remark to standard error, after the program's name.
func (s Streams) Note(format string, args ...any) {
	fmt.Fprintf(s.Err, "%s: %s\n", cmp.Or(s.Program, ownName), s.Program.In(fmt.Sprintf(format, args...)))
}

// StreamsOf returns those of cmd.
func StreamsOf(cmd *cobra.Command) Streams {
	return Streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), Program(cmd.Root().DisplayName())}
}

// OpenInput opens a file that a flag names, or standard input for "-".
func OpenInput(name string, streams Streams) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(streams.In), nil
	}
	return os.Open(name)
}

// Runs is the RunE of a command without arguments.
func Runs(run func(context.Context, Streams) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), StreamsOf(cmd)) }
}

// An Output is the format that -o chooses.
type Output struct {
	Format  string
	formats []string
}

// Formats returns the choice among names; the first is the default.
func Formats(names ...string) Output { return Output{Format: names[0], formats: names} }

// AddFlags adds the flags.
func (o *Output) AddFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.Format, "output", "o", o.Format, "format: "+strings.Join(o.formats, ", "))
	OneOf(flags, "output", o.formats...)
}

// Validate returns an error for a format that there is not.
func (o *Output) Validate() error {
	if !slices.Contains(o.formats, o.Format) {
		return fmt.Errorf("--output %q: choose one of %s", o.Format, strings.Join(o.formats, ", "))
	}
	return nil
}

// Write writes doc as JSON or YAML; any other format is one that the command has forgotten. YAML has no
// escape outside of quotes, so a document with characters that do not print is written as JSON, which is
// YAML too.
func (o *Output) Write(w io.Writer, doc any) error {
	if o.Format != "json" && o.Format != "yaml" {
		return fmt.Errorf("--output %s: this command cannot write it", o.Format)
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	safe := append(text.JSON(data), '\n')
	if o.Format == "yaml" && len(safe) == len(data)+1 {
		if safe, err = yaml.JSONToYAML(data); err != nil {
			return err
		}
	}
	_, err = w.Write(safe)
	return err
}

// WriteLine writes doc as JSON in one line.
func WriteLine(w io.Writer, doc any) error {
	data, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text.JSON(data), '\n'))
	return err
}
