package scenarios

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
)

// askSnapshot asks for a review based on a dump of the story's cluster. It sees the same
// registries as the cluster's own guard.
func (w *world) askSnapshot(t *testing.T, s *Scenario) Answer {
	var dump bytes.Buffer
	if err := snapshot.Write(t.Context(), &dump, w.images, w.trust.Settings()); err != nil {
		t.Fatal(err)
	}
	inventory, err := snapshot.ReadFrom(bytes.NewReader(dump.Bytes()), "the dump")
	if err != nil {
		t.Fatal(err)
	}
	edit, err := s.Edit()
	if err != nil {
		t.Fatal(err)
	}
	record, err := w.reviewer(s, inventory).Review(t.Context(), edit, s.As)
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(record)
}

// testSnapshotCommand writes a dump with the command, from the API server, and has
// check judge the change by the dump and by the cluster. The outputs must be
// identical except for the time taken.
func testSnapshotCommand(t *testing.T, w *world, all []Scenario) {
	for _, name := range []string{"02_story_source_of_everything_never", "18_never_without_mirrors_is_no_rule", "30_tag_drift", "37_mirror_in_the_cluster", "38_blocked_registry"} {
		t.Run(name, func(t *testing.T) {
			s := find(t, all, name)
			w.arrange(t, s)
			dir := t.TempDir()
			change, dump := filepath.Join(dir, "change.yaml"), filepath.Join(dir, "dump.json")
			if err := os.WriteFile(change, []byte(s.Change[0]), 0o600); err != nil {
				t.Fatal(err)
			}
			commanded := func(want int, args ...string) string {
				out, code := w.command(t, s, args...)
				if code != want {
					t.Errorf("%q: exit code %d, want %d", args, code, want)
				}
				return out
			}
			commanded(0, "snapshot", "--kubeconfig", w.cluster.Kubeconfig, "-f", dump)
			code := 0
			if !askPolicy(t, s).Allowed {
				code = 1
			}
			live := commanded(code, "check", "-f", change, "-o", "table", "--kubeconfig", w.cluster.Kubeconfig)
			dumped := commanded(code, "check", "-f", change, "-o", "table", "--from", dump)
			if diff := cmp.Diff(withoutNotes(live), withoutNotes(dumped)); diff != "" {
				t.Errorf("-cluster +snapshot:\n%s", diff)
			}
		})
	}
}

func find(t *testing.T, all []Scenario, name string) *Scenario {
	t.Helper()
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	t.Fatalf("there is no story %s", name)
	return nil
}

// withoutNotes removes the remarks about where the pull secret was looked for.
func withoutNotes(report string) string {
	var kept bytes.Buffer
	for line := range bytes.Lines([]byte(report)) {
		if !bytes.HasPrefix(line, []byte("Note: ")) {
			kept.Write(line)
		}
	}
	return kept.String()
}
