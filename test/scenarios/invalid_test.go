package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/crd"
)

// A refuser is a door where an API server's own checks count: its code, the command (exit code 2), or
// kubectl.
type refuser struct {
	name string
	ask  func(*testing.T, *Scenario) string
}

// testInvalid tries a change at doors. Each has to name every field.
func testInvalid(t *testing.T, s *Scenario, fields []string, doors ...refuser) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			got := d.ask(t, s)
			for _, field := range fields {
				if !strings.Contains(got, field) {
					t.Errorf("%s is not named in\n%s", field, got)
				}
			}
		})
	}
}

func refusalByCode(t *testing.T, s *Scenario) string {
	var all []string
	for _, text := range s.objects() {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(data, &meta); err != nil {
			t.Fatal(err)
		}
		for _, err := range crd.Validate(meta.GroupVersionKind(), data, nil) {
			all = append(all, err.Error())
		}
	}
	return strings.Join(all, "\n")
}

func (h *house) refusalByCheck(t *testing.T, s *Scenario) string {
	dir := t.TempDir()
	dump := h.dump(t, s, dir)
	var files []string
	for i, text := range s.Change {
		file := filepath.Join(dir, fmt.Sprintf("change%d.yaml", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, "-f", file)
	}
	out, errs, code := run(t, slices.Concat([]string{"check", "--from", dump}, files)...)
	if code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	return out + errs
}

// refusalByAPIServer does a dry run, object by object: kubectl's --validate sends none of
// them if the first is refused.
func (w *world) refusalByAPIServer(t *testing.T, s *Scenario) string {
	var all []string
	for _, text := range s.objects() {
		out, err := w.cluster.Kubectl(t.Context(), text, "create", "--dry-run=server", "--validate=strict", "-f", "-", "--as="+stageHand, "--as-group=system:masters")
		if err == nil {
			t.Errorf("the API server takes\n%s", text)
		}
		all = append(all, out)
	}
	return strings.Join(all, "\n")
}
