package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

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

// write writes doc as JSON or YAML. YAML has no escape outside of quotes, so that a
// document with characters that do not print is written as JSON, which is YAML too.
func (o *output) write(w io.Writer, doc any) error {
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	safe := append(escaped(data), '\n')
	if o.format == "yaml" && len(safe) == len(data)+1 {
		if safe, err = yaml.JSONToYAML(data); err != nil {
			return err
		}
	}
	_, err = w.Write(safe)
	return err
}

// escaped returns JSON with an escape for each character that does not print, all of
// which stand in strings. encoding/json leaves those beyond ASCII as they are: the
// single character for ESC [, and marks that turn the direction of writing.
func escaped(data []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(data) {
		switch {
		case r == '\n' || text.IsPrintable(r) || r == utf8.RuneError:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}
