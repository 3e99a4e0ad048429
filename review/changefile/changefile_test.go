package changefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestChanges reads the changes in testdata: each a txtar with a comment that
// says why, the files of the change, and what comes of it: the names of the objects, and
// what is said on standard error. Objects are put, or deleted where a file is called
// delete.yaml.
func TestChanges(t *testing.T) {
	stories, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
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
			want, deletes, files := map[string]string{}, false, []string{}
			for _, f := range archive.Files {
				switch f.Name {
				case "objects", "stderr":
					want[f.Name] = string(f.Data)
					continue
				case "delete.yaml":
					deletes = true
				}
				path := filepath.Join(dir, f.Name)
				if err := os.WriteFile(path, f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
				files = append(files, path)
			}
			objects, stderr := read(t, deletes, files...)
			got := map[string]string{"objects": objects, "stderr": strings.ReplaceAll(stderr, dir+"/", "")}
			for _, section := range []string{"objects", "stderr"} {
				if diff := cmp.Diff(want[section], got[section]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", section, diff)
				}
			}
		})
	}
}

// read returns the objects that the change puts, or deletes, a line each; and what was left
// out, with the error, if there is one.
func read(t *testing.T, deletes bool, files ...string) (objects, stderr string) {
	t.Helper()
	r := Reader{Delete: deletes}
	for _, name := range files {
		if err := r.ReadPath(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range append(r.NotJudged(), r.inside...) {
		stderr += "mirrorset-guard: " + line + "\n"
	}
	if err := r.err(); err != nil {
		return "", stderr + "mirrorset-guard: " + err.Error() + "\n"
	}
	for _, o := range append(r.objects, r.deleted...) {
		objects += mirrors.NameOf(o) + "\n"
	}
	if edit, err := r.Edit(); objects != "" && (err != nil || edit.Err() != nil) || objects == "" && !errors.Is(err, ErrEmpty) {
		t.Errorf("the edit of %q: %v, %v", objects, err, edit.Err())
	}
	return objects, stderr
}

const harmless = `apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: other}
spec: {imageTagMirrors: [{source: quay.io/other, mirrors: [mirror.example.com/other]}]}
`

// TestChangeFolders: a folder that is named holds a part of the change.
func TestChangeFolders(t *testing.T) {
	folder, link, empty := t.TempDir(), filepath.Join(t.TempDir(), "link"), t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.yaml"), []byte(harmless), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	if objects, stderr := read(t, false, link); objects == "" || stderr != "" {
		t.Errorf("a link to a folder: objects %q, %s", objects, stderr)
	}
	want := "mirrorset-guard: " + empty + ": no .yaml, .yml or .json file in the folder\n"
	if _, stderr := read(t, false, folder, empty); stderr != want {
		t.Errorf("an empty folder: %s, want %s", stderr, want)
	}
}

// TestSeparators: documents are separated as kubectl separates them.
func TestSeparators(t *testing.T) {
	other := strings.Replace(harmless, "name: other", "name: second", 1)
	for _, tc := range []struct{ reason, text, objects, mistake string }{
		{"the usual", harmless + "---\n" + other, "ImageTagMirrorSet other\nImageTagMirrorSet second\n", ""},
		{"Windows", "\ufeff" + harmless + "--- # next\r\n\ufeff" + other, "ImageTagMirrorSet other\nImageTagMirrorSet second\n", ""},
		{"empty documents", "---\n---\n" + harmless + "---\n\n---\n", "ImageTagMirrorSet other\n", ""},
		{"an object on the line", harmless + "--- {kind: x}\n" + other, "", "invalid Yaml document separator: {kind: x}"},
		{"a dash too many", harmless + "----\n" + other, "", "invalid Yaml document separator: -"},
		{"none", "", "", ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var r Reader
			r.Read("it", strings.NewReader(tc.text))
			objects := ""
			for _, o := range append(r.objects, r.deleted...) {
				objects += mirrors.NameOf(o) + "\n"
			}
			if tc.mistake == "" && (objects != tc.objects || r.err() != nil) {
				t.Errorf("got %q, %v, want %q", objects, r.err(), tc.objects)
			}
			if err := r.err(); tc.mistake != "" && (err == nil || !strings.HasSuffix(err.Error(), tc.mistake)) {
				t.Errorf("got %v, want %q", err, tc.mistake)
			}
		})
	}
}

const imageHead = "apiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\n"

// TestEditOn: what an API server would refuse of a creation it may take of an update.
func TestEditOn(t *testing.T) {
	const (
		invalid = `{"apiVersion":"config.openshift.io/v1","kind":"Image","metadata":{"name":"cluster"},"spec":{"registrySources":{"blockedRegistries":["a.example.com:tag:1"]}}}`
		both    = `{"apiVersion":"config.openshift.io/v1","kind":"Image","metadata":{"name":"cluster"},"spec":{"registrySources":{"blockedRegistries":["a.example.com"],"allowedRegistries":["b.example.com"]}}}`
		mistake = "spec.registrySources.blockedRegistries[0]: Invalid value"
	)
	for _, tt := range []struct {
		reason, inForce, change, err string
	}{
		{"an old mistake that is not touched", invalid, "spec: {additionalTrustedCA: {name: cas}}\n", ""},
		{"an old mistake that is written again", invalid, "spec: {registrySources: {blockedRegistries: ['a.example.com:tag:1']}, additionalTrustedCA: {name: cas}}\n", ""},
		{"an old mistake in a list that is changed", invalid, "spec: {registrySources: {blockedRegistries: ['a.example.com:tag:1', b.example.com]}}\n", mistake},
		{"an old mistake that is mended", invalid, "spec: {registrySources: {blockedRegistries: [b.example.com]}}\n", ""},
		{"a new mistake", `{"apiVersion":"config.openshift.io/v1","kind":"Image","metadata":{"name":"cluster"},"spec":{}}`, "spec: {registrySources: {blockedRegistries: ['a.example.com:tag:1']}}\n", mistake},
		{"no object", "", "spec: {registrySources: {blockedRegistries: ['a.example.com:tag:1']}}\n", mistake},
		{"a rule about both lists, of which none is touched", both, "spec: {additionalTrustedCA: {name: cas}}\n", ""},
		{"a rule about both lists, of which one is", both, "spec: {registrySources: {allowedRegistries: [c.example.com]}}\n", "Only one of blockedRegistries or allowedRegistries may be set"},
		{"a field that is not known", invalid, "spec: {additionalTrustedCa: {name: cas}}\n", "unknown field"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var r Reader
			r.Read("it", strings.NewReader(imageHead+tt.change))
			edit, _, err := r.EditOn(func(o mirrors.Object) ([]byte, error) {
				if mirrors.NameOf(o) != "Image cluster" {
					t.Errorf("asked for %s", mirrors.NameOf(o))
				}
				if tt.inForce == "" {
					return nil, nil
				}
				return []byte(tt.inForce), nil
			})
			if tt.err == "" && (err != nil || edit.Err() != nil) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%v, want %q", err, tt.err)
			}
		})
	}
	var r Reader
	r.Read("it", strings.NewReader(harmless))
	if r.DependsOnCurrent() {
		t.Error("a mirror set that is valid depends on the one in force")
	}
	none := errors.New("none")
	if _, _, err := r.EditOn(func(mirrors.Object) ([]byte, error) { return nil, none }); !errors.Is(err, none) {
		t.Errorf("%v, want %v", err, none)
	}
}
