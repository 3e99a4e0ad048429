package rights

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var asksForRight = regexp.MustCompile("oc (auth can-i [^`\n]*--as system:serviceaccount:[a-z:-]+)")

// testRunbooks: with the rights of the manifests, whatever a runbook has somebody ask about them
// is answered with yes.
func (s *stage) testRunbooks(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "runbooks", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range asksForRight.FindAllStringSubmatch(string(text), -1) {
			command := strings.ReplaceAll(found[1], "KIND", "pods")
			out, err := s.cluster.Kubectl(t.Context(), "", strings.Fields(command)...)
			if lines := strings.Fields(out); err != nil || lines[len(lines)-1] != "yes" {
				t.Errorf("%s: %s: %v\n%s", filepath.Base(file), command, err, out)
			}
			asked++
		}
	}
	if asked < 7 {
		t.Errorf("%d questions were found: these are not all", asked)
	}
}
