package text

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"a reference stays as it is", "quay.io/shop/cart:v1", "quay.io/shop/cart:v1"},
		{"a second line cannot be forged", "quay.io/x\nWarning: all is well", "quay.io/x Warning: all is well"},
		{"nor the first be overwritten", "quay.io/x\rapproved", "quay.io/x approved"},
		{"the screen is not cleared", "quay.io/\x1b[2Jx", "quay.io/[2Jx"},
		{"nor by the single character for ESC [", "quay.io/\u009b2Jx", "quay.io/2Jx"},
		{"the direction of writing stays", "quay.io/\u202egnp.x", "quay.io/gnp.x"},
		{"other white space is a space", " a\u2028b\u00a0c\t\v d ", "a b c d"},
		{"bytes that are no characters", "caf\xc3\xa9 \xc3", "café"},
		{"letters of all scripts", "日本/Ünï", "日本/Ünï"},
		{"nothing", "\x00\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Line(tc.in); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLinesKeepsLines(t *testing.T) {
	const in, want = "a\n\tb\x1b[31m  c\r\nd\x00", "a\n\tb[31m  c \nd"
	if got := Lines(in); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"éééé", "éééé"},
		{"ééééé", "ééé…"},
		{"", ""},
	} {
		if got := Cut(tc.in, 4); got != tc.want {
			t.Errorf("Cut(%q) = %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	n, err := fmt.Fprintf(Writer(&b), "a\x1b[2Jb\n")
	if want := "a[2Jb\n"; err != nil || n != len("a\x1b[2Jb\n") || b.String() != want {
		t.Errorf("%d, %v, %q; want %q", n, err, b.String(), want)
	}
}

// FuzzLine holds Line to its contract, and its fast path to the slow one.
func FuzzLine(f *testing.F) {
	f.Add("plain")
	f.Add(" \x1b[31m\u202e\xff\r\n a  b ")
	f.Fuzz(func(t *testing.T, s string) {
		line := Line(s)
		if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q holds what does not print", line)
		}
		if long := strings.Join(strings.Fields(Lines(s)), " "); long != line {
			t.Errorf("the short way gives %q, the long one %q", line, long)
		}
		if again := Line(line); again != line {
			t.Errorf("twice gives %q, once %q", again, line)
		}
	})
}

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"ü"}` + "\n":                   `{"a":"ü"}` + "\n",
		"{\"a\":\"\u009b31m\u202e\"}":        `{"a":"\u009b31m\u202e"}`,
		"{\"a\":\"\U000e0001\"}":             `{"a":"\udb40\udc01"}`,
		"{\"a\":\"\u2028\\u001b[2J\ufffd\"}": "{\"a\":\"\\u2028\\u001b[2J\ufffd\"}",
	} {
		if got := string(JSON([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
