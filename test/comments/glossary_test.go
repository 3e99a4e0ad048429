package comments

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGlossary: one row for each term. The rows are in an order of thought, not sorted.
func TestGlossary(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "design.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{} // the line of each term
	inGlossary := false
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "## ") {
			inGlossary = line == "## Glossary"
		}
		cells := strings.Split(line, "|")
		if !inGlossary || len(cells) < 3 || strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[1]) == "term" {
			continue
		}
		if len(cells) != 4 || strings.TrimSpace(cells[2]) == "" {
			t.Errorf("%s:%d: a row has a term and its meaning", path, i+1)
		}
		for term := range strings.SplitSeq(cells[1], ",") {
			term = strings.TrimSpace(term)
			if before, twice := rows[term]; twice {
				t.Errorf("%s:%d: %q has a row already, in line %d; call one of the two something else", path, i+1, term, before)
			}
			rows[term] = i + 1
		}
	}
	if len(rows) < 60 {
		t.Errorf("only %d terms were found in %s", len(rows), path)
	}
}
