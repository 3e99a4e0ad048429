package events

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNote(t *testing.T) {
	for n := range 4 { // whatever the byte at which it has to end
		text := strings.Repeat("x", n) + strings.Repeat("ü", maxNote)
		got := Note(text)
		if len(got) > maxNote || len(got) < maxNote-4 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes, valid %t, of %d", len(got), utf8.ValidString(got), len(text))
		}
	}
	if got := Note("short"); got != "short" {
		t.Errorf("got %q", got)
	}
}
