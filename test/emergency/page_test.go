package emergency

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
)

// A page is the blocks of commands on docs/emergency.md.
type page struct {
	blocks map[string][]string // by heading, in order
	run    map[string]bool     // the blocks that were carried out
}

func readPage(t *testing.T) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repo.Root(), "docs", "emergency.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{blocks: map[string][]string{}, run: map[string]bool{}}
	var heading string
	var block *strings.Builder
	var indent string
	for line := range strings.Lines(string(text)) {
		fence, found := strings.CutSuffix(line, "```\n")
		isFence := found && strings.TrimSpace(fence) == ""
		switch {
		case isFence && block == nil:
			block, indent = new(strings.Builder), fence
		case isFence:
			p.blocks[heading] = append(p.blocks[heading], block.String())
			block = nil
		case block != nil:
			block.WriteString(strings.TrimPrefix(line, indent))
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	return p
}

// block returns the nth block below a heading, which is then taken to be carried out.
func (p *page) block(t *testing.T, heading string, n int) string {
	t.Helper()
	if n >= len(p.blocks[heading]) {
		t.Fatalf("the page has no block %d below %q", n+1, heading)
	}
	b := p.blocks[heading][n]
	p.run[b] = true
	return b
}

// missed returns the blocks that were not carried out.
func (p *page) missed() []string {
	var missed []string
	for _, blocks := range p.blocks {
		for _, b := range blocks {
			if !p.run[b] {
				missed = append(missed, b)
			}
		}
	}
	return missed
}
