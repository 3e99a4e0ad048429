// Package text makes untrusted text safe to show to people: an image reference, a name
// in a dump, a registry's answer. Any tenant of a cluster can put line feeds, terminal
// escape sequences and marks that change the text direction into the field "image" of
// a pod.
//
// Code that writes such text to a terminal, a log, an Event, an audit annotation or a
// warning calls Line for each value, or Lines for a text of several lines whose values
// have been through Line. Encoders (JSON, YAML, XML) keep values unchanged and escape
// what does not print; see JSON.
//
// The package is pure and knows nothing about images.
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

// Line returns s as text that may follow other text on a line: it replaces every run of
// white space by one space, and removes what does not print (control characters, the ESC of
// escape sequences, marks that change the text direction) and bytes that are not UTF-8.
func Line(s string) string {
	if isPlain(s) {
		return s
	}
	return strings.Join(strings.Fields(Lines(s)), " ")
}

// isPlain reports, for almost all text in practice, that Line leaves s unchanged.
func isPlain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(s)-1 || s[i+1] == ' ') {
			return false
		}
	}
	return true
}

// Comment returns a line that tools do not read in YAML, in a script of a shell, and in a file for a tool that mirrors.
func Comment(format string, args ...any) string {
	return "# " + Line(fmt.Sprintf(format, args...)) + "\n"
}

// Lines returns s without what does not print. Line feeds and tabs stay; other white space
// becomes a space (a carriage return would hide what stands before it).
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

// IsPrintable reports whether r is a character that a terminal shows and does nothing else with. The
// only such white space is the space.
func IsPrintable(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }

// JSON returns JSON data with all characters escaped that do not print; they can only occur
// in strings. encoding/json leaves those beyond ASCII unescaped: the single character for
// ESC [, and marks that change the text direction.
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

// Cut returns the first n runes of s; if some are cut off, the last one is "…".
func Cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Writer returns a Writer that applies Lines to each write and passes it on to w: the last
// resort for a stream that people read. No character may be split across two writes.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ to io.Writer }

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Lines(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
