package webhook

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestWarnings(t *testing.T) {
	numbered := func(n int) []string {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprintf("warning %d", i+1))
		}
		return lines
	}
	for _, tc := range []struct {
		name     string
		in, want []string
	}{
		{"none", nil, nil},
		{"as they are", []string{"one", "two"}, []string{"one", "two"}},
		{"an empty one says nothing", []string{"", " \n", "\x07", "two"}, []string{"two"}},
		{
			"control characters would cost the whole warning",
			[]string{"registry says:\r\n\x1b[2Jgone\x00"},
			[]string{"registry says: [2Jgone"},
		},
		{"no UTF-8", []string{"caf\xc3\xa9 \xc3"}, []string{"café"}},
		{"the longest there is", []string{strings.Repeat("é", 256)}, []string{strings.Repeat("é", 256)}},
		{"cut between runes", []string{strings.Repeat("é", 257)}, []string{strings.Repeat("é", 255) + "…"}},
		{"as many as there may be", numbered(16), numbered(16)},
		{"one too many", numbered(17), append(numbered(15), "and 2 more warnings")},
		{"far too many", numbered(30000), append(numbered(15), "and 29,985 more warnings")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, warnings(slices.Clone(tc.in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzWarnings(f *testing.F) {
	f.Add("plain", 3)
	f.Add("\x1b[31m\u202e\xff\r\n", 40)
	f.Add(strings.Repeat("é", 300), 17)
	f.Fuzz(func(t *testing.T, line string, n int) {
		total := 0
		for _, w := range warnings(slices.Repeat([]string{line}, max(0, min(n, 100)))) {
			if !utf8.ValidString(w) || strings.ContainsFunc(w, unicode.IsControl) || w == "" {
				t.Errorf("the API server would drop %q", w)
			}
			if utf8.RuneCountInString(w) > maxWarningRunes {
				t.Errorf("the API server would cut %q", w)
			}
			total += utf8.RuneCountInString(w)
		}
		if total > maxWarningTotal {
			t.Errorf("%d runes in total", total)
		}
	})
}
