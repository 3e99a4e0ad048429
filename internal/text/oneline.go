package text

import (
	"strconv"
	"strings"
)

// OneLine returns s as Line does, without ANSI control sequences, and cut to limit
// runes: fit for a terminal, a log line and an annotation.
func OneLine(s string, limit int) string {
	return Cut(Line(stripEscapes(s)), limit)
}

// Quote returns s as OneLine does, in quotes, which mark words as not the guard's own.
func Quote(s string, limit int) string { return strconv.Quote(OneLine(s, limit)) }

// stripEscapes removes ANSI control sequences as a whole, which leaves the word of a coloured word.
func stripEscapes(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		// Parameters and intermediates, then one final byte: ECMA-48, 5.4.
		s = strings.TrimLeftFunc(after, func(r rune) bool { return r >= 0x20 && r < 0x40 })
		if s != "" && s[0] >= 0x40 && s[0] < 0x7f {
			s = s[1:]
		}
	}
}
