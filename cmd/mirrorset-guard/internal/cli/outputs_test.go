package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestTargets: several formats, of which one may go to standard output.
func TestTargets(t *testing.T) {
	for args, want := range map[string]string{
		"":                              "table",
		"-o json":                       "json",
		"-o json=a.json":                "json>a.json",
		"-o table -o json=a.json":       "json>a.json table",
		"-o json=a.json -o junit=b.xml": "json>a.json junit>b.xml",
		"-o json=a=b":                   "json>a=b",
		"-o pdf":                        `--output "pdf": choose one of table, json, junit`,
		"-o pdf=a":                      `--output "pdf": choose one of table, json, junit`,
		"-o json=":                      `--output "json=": want FORMAT=FILE`,
		"-o json -o junit":              "--output json and junit: only one can go to standard output; name a file for the other one, as in --output junit=FILE",
		"-o json=a -o junit=./a":        "--output: two formats are to be written to ./a",
	} {
		o := SeveralFormats("table", "json", "junit")
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(flags)
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		targets, err := o.Targets()
		var got []string
		for _, target := range targets {
			got = append(got, strings.TrimSuffix(target.Format+">"+target.File, ">"))
		}
		if text := strings.Join(got, " "); err != nil && err.Error() != want || err == nil && text != want {
			t.Errorf("%q: %q, %v; want %q", args, text, err, want)
		}
	}
}

// TestPrint: a file is there as a whole, or is as it was.
func TestPrint(t *testing.T) {
	dir := t.TempDir()
	target := Target{Output: Output{Format: "json"}, File: filepath.Join(dir, "report.json")}
	text := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, _ = io.WriteString(w, text)
			return err
		}
	}
	if err := target.Print(t.Context(), nil, text("good", nil)); err != nil {
		t.Fatal(err)
	}
	err := target.Print(t.Context(), nil, text("half", errors.New("no")))
	if want := "--output json=" + target.File + ": no"; fmt.Sprint(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
	data, err := os.ReadFile(target.File)
	if err != nil || string(data) != "good" {
		t.Errorf("%q, %v", data, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	target.File = filepath.Join(dir, "none", "report.json")
	if err := target.Print(t.Context(), nil, text("good", nil)); err == nil || !strings.HasPrefix(err.Error(), "--output json="+target.File+": ") {
		t.Errorf("no such folder: %v", err)
	}
}
