package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func streamsOf(cmd *cobra.Command) streams {
	return streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()}
}

// runs is the RunE of a command without arguments.
func runs(run func(context.Context, streams) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), streamsOf(cmd)) }
}

// An output is the format that -o chooses.
type output struct {
	format  string
	formats []string
}

// formats returns the choice among names, of which the first is the default.
func formats(names ...string) output { return output{format: names[0], formats: names} }

func (o *output) addFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.format, "output", "o", o.format, "format: "+strings.Join(o.formats, ", "))
}

func (o *output) validate() error {
	if !slices.Contains(o.formats, o.format) {
		return fmt.Errorf("--output %q: choose one of %s", o.format, strings.Join(o.formats, ", "))
	}
	return nil
}

// write writes doc as JSON or YAML; any other format is one that the command has forgotten. YAML has no escape outside of quotes, so that a
// document with characters that do not print is written as JSON, which is YAML too.
func (o *output) write(w io.Writer, doc any) error {
	if o.format != "json" && o.format != "yaml" {
		return fmt.Errorf("--output %s: this command cannot write it", o.format)
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	safe := append(text.JSON(data), '\n')
	if o.format == "yaml" && len(safe) == len(data)+1 {
		if safe, err = yaml.JSONToYAML(data); err != nil {
			return err
		}
	}
	_, err = w.Write(safe)
	return err
}
