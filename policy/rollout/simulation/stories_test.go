package simulation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/proof"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

// Three workers; MCO takes them in the order of their numbers.
const three = "pool worker\nnode w1 worker\nnode w2 worker\nnode w3 worker\n"

// TestStories holds what is said of the scenes in testdata to what stands there below each. "show" asks for another part of
// the result than its stalls: steps, obstacles; or has all courses explored as well.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range archive.Files {
			story := &archive.Files[i]
			t.Run(filepath.Base(file)+"/"+story.Name, func(t *testing.T) {
				before, want, ok := strings.Cut(string(story.Data), "=>\n")
				if !ok {
					t.Fatal("the scene does not end with =>")
				}
				show, told := "", before
				if rest, shown := strings.CutPrefix(before, "show "); shown {
					show, told, _ = strings.Cut(rest, "\n")
				}
				got := tell(t, scene(told), show)
				if *golden.Update {
					story.Data = []byte(before + "=>\n" + got)
				} else if got != want {
					t.Errorf("go test ./policy/rollout/simulation -run TestStories -update writes it; got\n%swant\n%s", got, want)
				}
			})
		}
		if *golden.Update {
			if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func tell(t *testing.T, s scene, show string) string {
	t.Helper()
	in := s.input(t)
	got := Run(in)
	switch show {
	case "":
		return said(got) + "\n"
	case "steps":
		return lines(got.Steps) + "\n"
	case "obstacles":
		return lines(got.Obstacles) + "\n"
	case "explored":
		stalls, ok := newModel(in).explore(400_000)
		w := scheduling.NewCluster(in)
		predicted, proved := len(got.Stalls) > 0, len(proof.New(w).BlockedBudgets(scheduling.Assumption{Images: w.Images})) == 0
		if !ok || predicted != stalls || proved == stalls {
			t.Errorf("explored: %t; a course stalls: %t, and it is said to: %t; proved not to: %t", ok, stalls, predicted, proved)
		}
		return said(got) + fmt.Sprintf("\na course stalls: %t\n", stalls)
	default:
		t.Fatalf("unknown: show %s", show)
		return ""
	}
}

// said is a result in words, with what its first stall is put down to.
func said(r Result) string {
	switch {
	case len(r.Stalls) == 0 && len(r.Waiting) > 0:
		return "cannot finish: " + text.Names(r.Waiting, namesShown)
	case len(r.Stalls) == 0:
		return "finishes"
	}
	line := r.Stalls[0].String()
	if more := len(r.Stalls) - 1; more > 0 {
		line += fmt.Sprintf("; and %s more", text.Count(more, "stall"))
	}
	if r.Stalls[0].ByImage {
		line += " [image]"
	}
	return line
}
