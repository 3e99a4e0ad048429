// Package text makes text that a stranger has written fit for people: an image
// reference, a name in a dump, what a registry answers. Any tenant of a cluster
// can put line feeds, escape sequences of terminals and marks that turn the
// direction of writing into the field "image" of a pod.
//
// Whoever writes such text to a terminal, a log, an Event, an audit annotation or
// a warning calls Line for each value, or Lines for a text of several lines whose
// values have been through Line. Encoders (JSON, YAML, XML) keep values as they
// are, and have an escape for what does not print; see JSON.
//
// The package is pure and knows nothing of images.
package text

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns s as text that may follow other text on a line: every run of
// white space is one space, and what does not print is gone (control characters
// and escape sequences' ESC, marks that turn the direction of writing), as are
// bytes that are no UTF-8.
func Line(s string) string {
	if isPlain(s) {
		return s
	}
	return strings.Join(strings.Fields(Lines(s)), " ")
}

// isPlain reports whether Line leaves s as it is, for almost all that it is given.
func isPlain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(s)-1 || s[i+1] == ' ') {
			return false
		}
	}
	return true
}

// Lines returns s without what does not print. Line feeds and tabs stay; other
// white space (a carriage return, which hides what stands before it) is a space.
func Lines(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsSpace(r):
			return ' '
		case !IsPrintable(r):
			return -1
		}
		return r
	}, s)
}

// IsPrintable reports whether r is a character that a terminal shows and does
// nothing else with. White space other than the space is not.
func IsPrintable(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }

// JSON returns JSON with an escape for each character that does not print, all of which
// stand in strings. encoding/json leaves those beyond ASCII as they are: the single
// character for ESC [, and marks that turn the direction of writing.
func JSON(data []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(data) {
		switch {
		case r == '\n' || IsPrintable(r) || r == utf8.RuneError:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// Cut returns the first n runes of s; where some are missing, the last is "…".
func Cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Writer returns a Writer that passes Lines of each write on to w: the last
// resort for a stream that people read. A character must not be spread over two
// writes.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ to io.Writer }

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Lines(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
