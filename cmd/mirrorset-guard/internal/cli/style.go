package cli

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
)

// LookOf returns the look of text on w: in colours where it is a terminal that has them, unless NO_COLOR
// (https://no-color.org) or CLICOLOR=0 say otherwise. CLICOLOR_FORCE asks for them anywhere. Its lines fit a terminal, a ticket
// and a printed page.
func LookOf(w io.Writer) answer.Look {
	return answer.Look{Colours: hasColours(isTerminal(w), os.Getenv), Width: 100}
}

// isTerminal reports whether w is a terminal that knows control sequences.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	kind := os.Getenv("TERM")
	return ok && term.IsTerminal(int(file.Fd())) && kind != "" && kind != "dumb"
}

func hasColours(terminal bool, env func(string) string) bool {
	switch forced := env("CLICOLOR_FORCE"); {
	case env("NO_COLOR") != "":
		return false
	case forced != "" && forced != "0":
		return true
	default:
		return terminal && env("CLICOLOR") != "0"
	}
}
