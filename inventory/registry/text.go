package registry

import (
	"strconv"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	maxDetail = 200 // runes of a Fact's Detail
	maxQuote  = 80  // runes of a registry's own words within it
)

// oneLine makes s fit for a terminal, a log line and an annotation: white space
// becomes single spaces, whatever cannot be printed is left out, and the rest is
// cut to limit runes.
func oneLine(s string, limit int) string {
	return text.Cut(text.Line(stripEscapes(s)), limit)
}

// stripEscapes takes away ANSI control sequences as a whole, so that what is left
// of a coloured word is the word.
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

// quote marks words as somebody else's.
func quote(s string) string { return strconv.Quote(oneLine(s, maxQuote)) }
