package cli

import (
	"io"
	"os"
	"regexp"
	"strings"

	"golang.org/x/term"
)

// A Style paints text for a terminal. The zero value leaves it as it is.
type Style struct{ colours bool }

// StyleOf returns the style for w: colours where it is a terminal that has them, unless NO_COLOR
// (https://no-color.org) or CLICOLOR=0 say otherwise. CLICOLOR_FORCE asks for them anywhere.
func StyleOf(w io.Writer) Style {
	return styleFor(IsTerminal(w), os.Getenv)
}

// IsTerminal reports whether w is a terminal that knows control sequences.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	kind := os.Getenv("TERM")
	return ok && term.IsTerminal(int(file.Fd())) && kind != "" && kind != "dumb"
}

func styleFor(terminal bool, env func(string) string) Style {
	switch forced := env("CLICOLOR_FORCE"); {
	case env("NO_COLOR") != "":
		return Style{}
	case forced != "" && forced != "0":
		return Style{true}
	default:
		return Style{terminal && env("CLICOLOR") != "0"}
	}
}

// Colours reports whether text is painted.
func (s Style) Colours() bool { return s.colours }

// The colours, as every terminal has them (ECMA-48, 8.3.117).
const (
	bold, red, green, yellow, blue = "1", "31", "32", "33", "36"
	reset                          = "\x1b[0m"
)

func painted(s string, codes ...string) string {
	return "\x1b[" + strings.Join(codes, ";") + "m" + s + reset
}

// paints are the styles of lines: the first that fits paints its groups in parentheses.
var paints = []struct {
	line  *regexp.Regexp
	codes []string // nil for the colour of the severity
}{
	{regexp.MustCompile(`^(.* (?:is|are) refused.*)$`), []string{bold, red}},
	{regexp.MustCompile(`^(.* (?:is|are) admitted.*)$`), []string{bold, green}},
	{regexp.MustCompile(`^(Warnings:)$`), []string{bold, yellow}},
	{regexp.MustCompile(`^(\d+\. .*)$`), []string{bold}},
	{regexp.MustCompile(`^   ([A-Z][A-Za-z]+):`), nil},
	{regexp.MustCompile(`^ +- .*: (found)$`), []string{green}},
	{regexp.MustCompile(`^ +(To do:)`), []string{bold, blue}},
	{regexp.MustCompile(`^ +(Stalled:)`), []string{bold, red}},
	{regexp.MustCompile(`^ +(All nodes are updated\.)$`), []string{green}},
	{regexp.MustCompile(`^((?:Forecast|Note|Step by step[^:]*|What drains meet):)`), []string{bold}},
	{regexp.MustCompile(`^((?:POOL|IMAGE) .*)$`), []string{bold}},
	{regexp.MustCompile(`^((?:Pool|Node) .*)$`), []string{bold}},
	{regexp.MustCompile(`^\S+ +(running) `), []string{green}},
	{regexp.MustCompile(`^\S+ +(history) `), []string{blue}},
	{regexp.MustCompile(`^\S+ +([Dd]egraded) `), []string{red}},
	{regexp.MustCompile(`^\S+ +([Uu]pdating) `), []string{yellow}},
	{regexp.MustCompile(`^\S+ +([Uu]pdated) `), []string{green}},
	{regexp.MustCompile(`(?:mirror|source), tried[^:]*: (present)\b`), []string{green}},
	{regexp.MustCompile(`(?:mirror|source), tried[^:]*: (absent|mismatch|incomplete|unsigned|missigned)\b`), []string{red}},
	{regexp.MustCompile(`(?:mirror|source), tried[^:]*: (denied|unreachable|unknown|inconclusive)\b`), []string{yellow}},
	{regexp.MustCompile(`(?:mirror|source), (blocked by \S+(?: \S+)*)`), []string{yellow}},
	{regexp.MustCompile(`^(Nothing is held up\.)$`), []string{bold, green}},
	{regexp.MustCompile(`^ +(because) `), []string{yellow}},
}

// Paint returns text with colours, and changes no letter.
func (s Style) Paint(text string) string {
	if !s.colours {
		return text
	}
	severity := red
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line == "Warnings:" {
			severity = yellow
		}
		lines[i] = paintLine(line, severity)
	}
	return strings.Join(lines, "\n")
}

// Painted writes to w what print writes, in the style of w.
func Painted(w io.Writer, print func(io.Writer) error) error {
	style := StyleOf(w)
	if !style.Colours() {
		return print(w)
	}
	var b strings.Builder
	err := print(&b)
	if _, failed := io.WriteString(w, style.Paint(b.String())); err == nil {
		err = failed
	}
	return err
}

func paintLine(line, severity string) string {
	for _, p := range paints {
		at := p.line.FindStringSubmatchIndex(line)
		if at == nil {
			continue
		}
		codes := p.codes
		if codes == nil {
			codes = []string{bold, severity}
		}
		return line[:at[2]] + painted(line[at[2]:at[3]], codes...) + line[at[3]:]
	}
	return line
}

// Bar returns a bar for a share of all, width characters at most and one at least.
func Bar(share, all, width int) string {
	if share <= 0 || all <= 0 {
		return ""
	}
	return strings.Repeat("█", max(1, share*width/all))
}
