// Package golden compares output with that of before, in files that -update writes anew.
package golden

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// Update is set if outputs are to be written instead of compared.
var Update = flag.Bool("update", false, "write what tests compare with: files in testdata, and what documents show")

// File holds got to a file.
func File(t testing.TB, path, got string) {
	t.Helper()
	Part(t, path, "", "", got)
}

// Part holds got to what stands in a file between two texts.
func Part(t testing.TB, path, begin, end, got string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !*Update {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(data), begin)
	want, after := rest, ""
	ends := end == ""
	if !ends {
		want, after, ends = strings.Cut(rest, end)
	}
	if !begins || !ends {
		t.Fatalf("%s has no part from %q to %q", path, begin, end)
	}
	if *Update {
		write(t, path, []byte(before+begin+got+end+after))
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is out of date; go test with -update writes it (-want +got):\n%s", path, diff)
	}
}

// Archive returns a function that holds a text to the one of a name in an archive.
func Archive(t testing.TB, path string) func(t testing.TB, name, got string) {
	t.Helper()
	archive := new(txtar.Archive)
	if !*Update {
		var err error
		if archive, err = txtar.ParseFile(path); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Cleanup(func() { write(t, path, txtar.Format(archive)) })
	}
	return func(t testing.TB, name, got string) {
		t.Helper()
		if got != "" && !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == name })
		switch {
		case *Update:
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got)})
		case i < 0:
			t.Errorf("%s has no %q; go test with -update writes it", path, name)
		default:
			if diff := cmp.Diff(string(archive.Files[i].Data), got); diff != "" {
				t.Errorf("%s, %s is out of date; go test with -update writes it (-want +got):\n%s", path, name, diff)
			}
		}
	}
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
