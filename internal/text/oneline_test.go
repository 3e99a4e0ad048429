package text

import (
	"strings"
	"testing"
	"unicode"
)

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                   "plain",
		"\x1b[1;31mred\x1b[0m x":  "red x",
		"a\r\n\tb":                "a b",
		"a\x00\x1bb\u202e\ufeffc": "abc",
		"\xff\xfea":               "a",
		"\x1b[":                   "",
		"ab\x1b[31":               "ab",
	} {
		if got := OneLine(in, 20); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", in, got, want)
		}
	}
	if got := OneLine(strings.Repeat("ä", 30), 10); got != strings.Repeat("ä", 9)+"…" {
		t.Errorf("got %q", got)
	}
}

func FuzzOneLine(f *testing.F) {
	f.Add("\x1b[31mred")
	f.Fuzz(func(t *testing.T, s string) {
		got := OneLine(s, 50)
		if len([]rune(got)) > 50 || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("OneLine(%q) = %q", s, got)
		}
	})
}
