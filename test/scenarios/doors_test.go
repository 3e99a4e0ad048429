package scenarios

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

// A door is a way to ask for a review.
type door struct {
	name string
	ask  func(*testing.T, *Scenario) Answer
}

// TestScenarios tells every story at the doors that are in this process: the pure policy, which is given
// what the story says of registries, the command check, and the webhook over HTTPS.
func TestScenarios(t *testing.T) {
	all, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			if *golden.Update {
				if _, invalid := s.Invalid(); !invalid {
					writeWant(t, &s, askPolicy(t, &s).String())
				}
				return
			}
			t.Parallel()
			h := newHouse(t)
			if fields, invalid := s.Invalid(); invalid {
				testInvalid(t, &s, fields, refuser{"crd", refusalByCode}, refuser{"check", h.refusalByCheck})
				return
			}
			h.stock(t, &s)
			doors := []door{{"policy", askPolicy}, {"check", h.askCheck}, {"webhook", h.askWebhook}}
			if !s.Sendable() {
				doors = doors[:2]
			}
			testDoors(t, &s, doors...)
		})
	}
}

func testDoors(t *testing.T, s *Scenario, doors ...door) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			if got := d.ask(t, s).String(); got != s.Want {
				t.Errorf("got:\n%s\nwant:\n%s", got, s.Want)
			}
		})
	}
}

func writeWant(t *testing.T, s *Scenario, got string) {
	t.Helper()
	path := filepath.Join("testdata", s.Name+".txtar")
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
	got = Unfill(got, names)
	archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
	if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
