package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryBlockIsHeldToSomething: a block of code is run, or read by what it is for, or says why
// neither is done. There is no fourth kind.
func TestEveryBlockIsHeldToSomething(t *testing.T) {
	blocks := 0
	for _, p := range pages(t) {
		for _, b := range p.Blocks {
			blocks++
			if problem := b.problem(); problem != "" {
				t.Errorf("%s:%d: %s\n%s", b.Page, b.Line, problem, firstLine(b.Text))
			}
		}
	}
	if blocks < 75 {
		t.Errorf("only %d blocks were found", blocks)
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// problem says what a block lacks, "" for nothing.
func (b Block) problem() string {
	switch {
	case b.World != "" && b.Reason != "" && b.Without == "":
		return "say which commands are not run: <!-- run: WORLD; not run: WORD, REASON -->"
	case b.World != "" && b.isElsewhere():
		return elsewhereProblem(b.World)
	case b.World == installed:
		return ""
	case b.World != "":
		if _, err := os.Stat(filepath.Join("testdata", b.World+".txtar")); err != nil {
			return fmt.Sprintf("there is no world %q", b.World)
		}
		return ""
	case b.Reason != "" || b.isDocument():
		return ""
	default:
		return "a test runs it (<!-- run: WORLD -->), or it says why none does (<!-- not run: REASON -->)"
	}
}

// elsewhere is a world that is a test of another package: "test/image TestTwoBuilds".
var elsewhere = regexp.MustCompile(`^((?:[a-z-]+/)+[a-z-]+) (Test\w+)$`)

func (b Block) isElsewhere() bool { return elsewhere.MatchString(b.World) }

// elsewhereProblem says what is wrong with the name of a test, "" for nothing.
func elsewhereProblem(world string) string {
	name := elsewhere.FindStringSubmatch(world)
	files, err := filepath.Glob(filepath.Join(top, name[1], "*_test.go"))
	if err != nil {
		return err.Error()
	}
	for _, file := range files {
		if source, err := os.ReadFile(file); err == nil && strings.Contains(string(source), "func "+name[2]+"(") {
			return ""
		}
	}
	return fmt.Sprintf("there is no test %s in %s", name[2], name[1])
}
