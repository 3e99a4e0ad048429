package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestChanges reads the changes in testdata/changes: each a txtar with a comment that
// says why, the files of the change, and what comes of it: the names of the objects, and
// what is said on standard error. Objects are put, or deleted where a file is called
// delete.yaml.
func TestChanges(t *testing.T) {
	stories, err := filepath.Glob(filepath.Join("testdata", "changes", "*.txtar"))
	if err != nil || len(stories) == 0 {
		t.Fatalf("no changes: %v", err)
	}
	for _, story := range stories {
		t.Run(strings.TrimSuffix(filepath.Base(story), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(story)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			want, c := map[string]string{}, change{}
			for _, f := range archive.Files {
				switch f.Name {
				case "objects", "stderr":
					want[f.Name] = string(f.Data)
					continue
				case "delete.yaml":
					c.delete = true
				}
				path := filepath.Join(dir, f.Name)
				if err := os.WriteFile(path, f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
				c.files = append(c.files, path)
			}
			objects, stderr := readChange(t, c)
			got := map[string]string{"objects": objects, "stderr": strings.ReplaceAll(stderr, dir+"/", "")}
			for _, section := range []string{"objects", "stderr"} {
				if diff := cmp.Diff(want[section], got[section]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", section, diff)
				}
			}
		})
	}
}

// readChange returns the objects that the change adds to nothing, or takes from all that
// it names, a line each; and standard error with the error, if there is one.
func readChange(t *testing.T, c change) (objects, stderr string) {
	t.Helper()
	var errs bytes.Buffer
	r := changeReader{stderr: &errs, delete: c.delete}
	for _, name := range c.files {
		if err := r.argument(name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.err(); err != nil {
		return "", errs.String() + "mirrorset-guard: " + err.Error() + "\n"
	}
	for _, o := range r.objects {
		objects += mirrors.NameOf(o) + "\n"
	}
	return objects, errs.String()
}

// TestChangeFolders: a folder that is named holds a part of the change.
func TestChangeFolders(t *testing.T) {
	folder, link, empty := t.TempDir(), filepath.Join(t.TempDir(), "link"), t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.yaml"), []byte(harmless), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	if objects, stderr := readChange(t, change{files: []string{link}}); objects == "" || stderr != "" {
		t.Errorf("a link to a folder: objects %q, %s", objects, stderr)
	}
	want := "mirrorset-guard: " + empty + ": no .yaml, .yml or .json file in the folder\n"
	if _, stderr := readChange(t, change{files: []string{folder, empty}}); stderr != want {
		t.Errorf("an empty folder: %s, want %s", stderr, want)
	}
}
