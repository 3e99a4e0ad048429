package mirroring

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

const digest = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// TestBeside: a line of oc-mirror stands beside the finding about its image, under whatever name it was
// copied from; the rest is counted.
func TestBeside(t *testing.T) {
	for _, tt := range []struct{ reason, line, detail, note string }{
		{"the image", "error mirroring image docker://quay.io/a/b:v1 error: no space", "oc-mirror could not copy it: no space (mirroring_errors_2.txt)", "oc-mirror could not copy 1 image by mirroring_errors_2.txt"},
		{"with a time and a level", "2026/08/04 10:00:00 [ERROR] : [Worker] error mirroring image quay.io/a/b:v1 error: no: space", "oc-mirror could not copy it: no: space (mirroring_errors_2.txt)", "1 image"},
		{"with operators", "error mirroring image quay.io/a/b:v1 (Operator bundles: [x (y)] - Operators: [z]) error: gone", "oc-mirror could not copy it: gone (mirroring_errors_2.txt)", "1 image"},
		{"from its cache, by the digest", "error mirroring image docker://localhost:55000/c/d" + digest + " error: gone", "oc-mirror could not copy it: gone (mirroring_errors_2.txt)", "1 image"},
		{"another image", "error mirroring image quay.io/other:v1 error: gone", "", "; no finding is about quay.io/other:v1"},
		{"no line of an error", "something else", "", ""},
		{"a very long line", "error mirroring image quay.io/a/b:v1 error: " + strings.Repeat("x", 2*maxLine), "oc-mirror could not copy it: xxx", "1 image"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"logs/mirroring_errors_1.txt": "error mirroring image quay.io/a/b:v1 error: earlier\n", "logs/mirroring_errors_2.txt": tt.line + "\n", "cluster-resources/x.yaml": ""} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, of := range []string{"cluster-resources", "cluster-resources/x.yaml"} {
				record := review.Record{Verdict: policy.Verdict{Findings: []policy.Finding{{Image: policy.Image{Ref: "quay.io/a/b:v1"}}, {Image: policy.Image{Ref: "quay.io/c/d" + digest}}, {}}}}
				if err := Beside(&record, []string{filepath.Join(dir, of)}); err != nil {
					t.Fatal(err)
				}
				var details []string
				for _, f := range record.Verdict.Findings {
					details = append(details, f.Detail...)
				}
				if got := strings.Join(details, "\n"); !strings.HasPrefix(got, tt.detail) || tt.detail == "" && got != "" {
					t.Errorf("details %q, want %q", got, tt.detail)
				}
				if got := strings.Join(record.Notes, "\n"); !strings.Contains(got, tt.note) || tt.note == "" && got != "" {
					t.Errorf("notes %q, want %q", got, tt.note)
				}
			}
		})
	}
}

// TestManyFailures: a run that failed as a whole is not read in full, and says so.
func TestManyFailures(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"logs", "cluster-resources"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	for i := range maxFailures + 10 {
		fmt.Fprintf(&b, "error mirroring image quay.io/a/b:v%d error: gone\n", i)
	}
	if err := os.WriteFile(filepath.Join(dir, "logs", "mirroring_errors_1.txt"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var record review.Record
	if err := Beside(&record, []string{"-", filepath.Join(dir, "none"), dir}); err != nil {
		t.Fatal(err)
	}
	if len(record.Notes) != 1 || !strings.HasPrefix(record.Notes[0], "oc-mirror could not copy at least 10,000 images by mirroring_errors_1.txt; no finding is about quay.io/a/b:v0, ") {
		t.Errorf("notes %q", record.Notes)
	}
}

// TestNotBeside: a file that lies beside a working directory, or in another folder of it, has nothing to do with its runs.
func TestNotBeside(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"working-dir/logs/mirroring_errors_1.txt", "working-dir/cluster-resources/x.yaml", "working-dir/other/x.yaml", "working-dir/x.yaml", "all.yaml"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("error mirroring image quay.io/a/b:v1 error: gone\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for of, want := range map[string]int{"working-dir/cluster-resources/x.yaml": 1, "working-dir": 1, ".": 1, "working-dir/other/x.yaml": 0, "working-dir/x.yaml": 0, "all.yaml": 0} {
		var record review.Record
		if err := Beside(&record, []string{filepath.Join(dir, of)}); err != nil || len(record.Notes) != want {
			t.Errorf("%s: %q (%v), want %d notes", of, record.Notes, err, want)
		}
	}
}
