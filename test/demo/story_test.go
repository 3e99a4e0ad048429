package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/manual"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
)

// TestStory runs the demo's story and discards its output. Then it types the commands that the demo
// proposes to type.
func TestStory(t *testing.T) {
	registries.Need(t)
	binary := filepath.Join(t.TempDir(), "mirrorset-guard")
	if err := cluster.BuildRelease(binary); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s, err := setUp(t.Context(), binary, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	defer s.tearDown()
	err = s.tell(t.Context())
	log, _ := os.ReadFile(s.logs.Name())
	if err != nil {
		t.Errorf("%v\n%s\nlog of the guard:\n%s", err, out.Bytes(), log)
	}
	testManual(t, out.String())
	if err := s.renderConfigs(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, trial := range s.trials() {
		if out, exit := s.try(t.Context(), trial); exit != trial.exit || !strings.Contains(out, trial.says) || strings.Contains(out, "not known") {
			t.Errorf("%s: exit code %d, want %d, and %q:\n%s", trial.command, exit, trial.exit, trial.says, out)
		}
	}
	for line := range bytes.Lines(log) { // this cluster lacks most of what is optional
		if bytes.Contains(line, []byte("could not find the requested resource")) && bytes.Contains(line, []byte(`"level":"error"`)) {
			t.Errorf("what the cluster does not serve is logged as an error: %s", line)
		}
	}
}

// testManual: what pages show of the story is what happens in it.
func testManual(t *testing.T, transcript string) {
	t.Helper()
	pages, err := manual.Pages(repo.Root())
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, p := range pages {
		for _, b := range p.Blocks {
			if b.World != "test/demo TestStory" {
				continue
			}
			shown++
			if err := b.FindIn(transcript); err != nil {
				t.Error(err)
			}
		}
	}
	if shown < 4 {
		t.Errorf("only %d blocks of the manual are from the story", shown)
	}
}
