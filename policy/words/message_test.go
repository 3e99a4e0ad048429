package words

import (
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"
)

// TestCut: a warning has no more runes than there may be, and no half of one.
func TestCut(t *testing.T) {
	if err := quick.Check(func(s string) bool { return utf8.RuneCountInString(cut(s)) <= maxWarning }, nil); err != nil {
		t.Error(err)
	}
	if got := cut(strings.Repeat("é", 200)); utf8.RuneCountInString(got) != maxWarning || !utf8.ValidString(got) {
		t.Errorf("cut to %d runes", utf8.RuneCountInString(got))
	}
}
