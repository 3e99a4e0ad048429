package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Tables and lists are written in lines of at most tableWidth characters, which fit a terminal, a
// ticket and a printed page. The text below a heading is indented by margin.
const (
	TableWidth = 100
	Margin     = 2
)

// WriteLines writes lines, each after so many spaces.
func WriteLines(w io.Writer, lines []string, indent int) {
	for _, line := range lines {
		fmt.Fprintf(w, "%s%s\n", strings.Repeat(" ", indent), line)
	}
}

// Wrapped breaks s, without what does not print, at spaces, and breaks a word that is too
// long for a line where it can be read best. Lines after the first are indented by two.
func Wrapped(s string, width int) []string {
	const hang = "  "
	var lines []string
	line := ""
	for _, word := range strings.Fields(text.Lines(s)) {
		if strings.TrimSpace(line) != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), hang
		}
		if strings.TrimSpace(line) != "" {
			line += " "
		}
		line += word
		for len(line) > width {
			cut := breakAt(line, width)
			lines, line = append(lines, line[:cut]), hang+line[cut:]
		}
	}
	return append(lines, line)
}

// breakAt returns where to break a line without spaces: before a separator of
// references in its second half, or else at its width.
func breakAt(line string, width int) int {
	if cut := strings.LastIndexAny(line[:width], "/@:"); cut > width/2 {
		return cut
	}
	cut := width
	for !utf8.RuneStart(line[cut]) {
		cut--
	}
	return cut
}

// InFile names an entry of a file, "" for registries.conf.
func InFile(file, scope string) string {
	if file == "" {
		return scope
	}
	return file + ": " + scope
}

// MaxDifferences is how many differences are printed: the advice below them stays on the screen.
const MaxDifferences = 6

// OrNone returns words to be printed, or that there is no entry.
func OrNone(words string) string {
	if words == "" {
		return "(no entry)"
	}
	return text.Line(words)
}
