package rollout

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// poolOf is the pool that a row is about.
var poolOf = regexp.MustCompile("\\(`([a-z]+)`\\)$")

// TestRemediesTable: the table of README.md says of each pool of TestRemedies what the test wants.
func TestRemediesTable(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(readme), "\n| kind (pool) |")
	text, _, ended := strings.Cut(text, "\n\n")
	if !found || !ended {
		t.Fatal("README.md has no table of kinds")
	}
	words := map[string]string{} // simulation, cause and rounds, by pool
	for _, line := range strings.Split(text, "\n")[2:] {
		row := strings.Split(strings.Trim(line, "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		pool := poolOf.FindStringSubmatch(row[0])
		if len(row) != 5 || pool == nil || words[pool[1]] != "" {
			t.Fatalf("%q", line)
		}
		words[pool[1]] = strings.Join([]string{row[1], row[2], row[4]}, ", ")
	}
	kinds := 0
	for _, s := range stallings {
		for _, k := range s.kinds {
			kinds++
			if want := fmt.Sprintf("%s, `%s`, %d", k.foreseen, k.cause, k.rounds); words[k.pool] != want {
				t.Errorf("pool %s: the table says %q, the test wants %q", k.pool, words[k.pool], want)
			}
		}
	}
	if len(words) != kinds {
		t.Errorf("the table has %d kinds, the test %d", len(words), kinds)
	}
}
