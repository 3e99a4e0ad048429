package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// TestStory tells the story of the demo to nobody.
func TestStory(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "mirrorset-guard")
	t.Setenv("GORACE", "halt_on_error=1")
	if err := cluster.BuildGuard(binary); err != nil {
		t.Fatal(err)
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
