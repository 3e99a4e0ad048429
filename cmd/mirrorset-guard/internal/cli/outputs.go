package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
)

// Outputs are the formats that -o chooses where there may be several, each but one in a file of its
// own.
type Outputs struct {
	formats []string
	chosen  []string
}

// SeveralFormats returns the choice among names; the first is the default.
func SeveralFormats(names ...string) Outputs { return Outputs{formats: names} }

// AddFlags adds the flags.
func (o *Outputs) AddFlags(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&o.chosen, "output", "o", nil, "format: "+strings.Join(o.formats, ", ")+"; FORMAT=FILE writes it to a file, and -o may be given several times (default "+o.formats[0]+")")
	OneOf(flags, "output", o.formats...)
}

// A Target is one format, and where it goes.
type Target struct {
	Output
	// File is the file's path, "" for standard output.
	File string
}

// Targets returns what was chosen, what goes to standard output last. The error names the flag that is
// wrong.
func (o *Outputs) Targets() ([]Target, error) {
	chosen := o.chosen
	if len(chosen) == 0 {
		chosen = o.formats[:1]
	}
	var targets, last []Target
	plain := ""
	for _, choice := range chosen {
		format, file, named := strings.Cut(choice, "=")
		t := Target{Output: Output{Format: format, formats: o.formats}, File: file}
		if err := t.Validate(); err != nil {
			return nil, err
		}
		switch {
		case named && file == "":
			return nil, fmt.Errorf("--output %q: want FORMAT=FILE", choice)
		case !named && plain != "":
			return nil, fmt.Errorf("--output %s and %s: only one can go to standard output; name a file for the other one, as in --output %s=FILE", plain, format, format)
		case !named:
			plain, last = format, []Target{t}
			continue
		}
		if slices.ContainsFunc(targets, func(other Target) bool { return filepath.Clean(other.File) == filepath.Clean(t.File) }) {
			return nil, fmt.Errorf("--output: two formats are to be written to %s", t.File)
		}
		targets = append(targets, t)
	}
	return append(targets, last...), nil
}

// An Answer holds the result of a command in each format that its user may choose.
type Answer struct {
	// Answer returns it for people and pipelines: as text (table), Markdown, a page (html) and JUnit's XML.
	Answer func() *answer.Answer
	// Page is what a page says beside it.
	Page answer.Page
	// Document returns it as JSON and YAML.
	Document func() any
	// Formats write it in formats that only this command has.
	Formats map[string]func(io.Writer) error
}

// Print prints an answer that was found under ctx in each format.
func Print(ctx context.Context, s Streams, targets []Target, a Answer) error {
	for _, t := range targets {
		if err := t.Print(ctx, s.Out, func(w io.Writer) error { return t.print(w, s.Program, a) }); err != nil {
			return err
		}
	}
	return nil
}

func (t *Target) print(w io.Writer, program Program, a Answer) error {
	if write := a.Formats[t.Format]; write != nil {
		return write(w)
	}
	var printed string
	var err error
	switch t.Format {
	case "table":
		printed = program.In(a.Answer().Text(LookOf(w)))
	case "markdown":
		printed = a.Answer().Markdown()
	case "html":
		printed, err = a.Answer().HTML(a.Page)
	case "junit":
		printed, err = a.Answer().JUnit()
	default:
		return t.Write(w, a.Document())
	}
	if err == nil {
		_, err = io.WriteString(w, printed)
	}
	return err
}

// Print has write write to the target what was found out under ctx, unless that was interrupted.
func (t Target) Print(ctx context.Context, stdout io.Writer, write func(io.Writer) error) error {
	if err := Interrupted(ctx); err != nil {
		return err
	}
	if t.File == "" {
		return write(stdout)
	}
	if err := WriteFile(t.File, 0o644, write); err != nil { // as a shell's > would
		return fmt.Errorf("--output %s=%s: %w", t.Format, t.File, err)
	}
	return nil
}

// WriteFile writes a file whole or not at all: it is written beside its place and renamed.
func WriteFile(name string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it was renamed, or else is of no use
	if err := errors.Join(write(f), f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
