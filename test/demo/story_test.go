package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// TestStory tells the story of the demo to nobody.
func TestStory(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "mirrorset-guard")
	build := exec.Command("go", "build", "-o", binary, "./cmd/mirrorset-guard")
	build.Dir = cluster.Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the guard: %v\n%s", err, out)
	}
	var out bytes.Buffer
	s, err := setUp(t.Context(), binary, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	defer s.tearDown()
	if err := s.tell(t.Context()); err != nil {
		log, _ := os.ReadFile(s.logs.Name())
		t.Errorf("%v\n%s\nlog of the guard:\n%s", err, out.Bytes(), log)
	}
}
