package onedoc

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestBombs: what would become many times as large is refused before it does.
func TestBombs(t *testing.T) {
	levels := "a0: &a0 [x, x]\n"
	for i := range 40 {
		levels += fmt.Sprintf("a%d: &a%d [*a%d, *a%[3]d]\n", i+1, i+1, i)
	}
	scalar := "x: &a \"" + strings.Repeat("a", 20_000) + "\"\ny: ["
	merged := "x: &a {b: \"" + strings.Repeat("a", 20_000) + "\"}\ny:\n" + strings.Repeat("- <<: *a\n", 1_000)
	aliased := "its aliases stand for more than 1 MiB"
	for _, tt := range []struct{ reason, text, want string }{
		{"copies of a text", scalar + strings.Repeat("*a,", 1_000) + "]\n", aliased},
		{"copies by merging", merged, aliased},
		{"the same in UTF-16", utf16(scalar + strings.Repeat("*a,", 1_000) + "]\n"), aliased},
		{"copies of copies", levels, aliased},
		{"an anchor in itself", "a: &a [*a]\n", "contains itself"},
		{"many values in a line", "[" + strings.Repeat("{},", 300_000) + "]", "values, more than are read (500,000)"},
		{"many values in lines", strings.Repeat("- a\n", 300_000), "values, more than are read (500,000)"},
		{"many values in each other", strings.Repeat(strings.Repeat("- ", 5_000)+"\n", 110), "values, more than are read (500,000)"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var into any
		err := Unmarshal([]byte(tt.text), &into)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.reason, err, tt.want)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
			t.Errorf("%s: %d MiB allocated for %d KiB", tt.reason, allocated>>20, len(tt.text)>>10)
		}
	}
	if _, err := JSON([]byte(levels)); err == nil || !strings.Contains(err.Error(), aliased) {
		t.Errorf("JSON: %v", err)
	}
}

// TestAliases: those that people write are read.
func TestAliases(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"x: &a {b: c}\nw: *a\nz: {<<: *a, d: e}\n", "map[w:map[b:c] x:map[b:c] z:map[b:c d:e]]"},
		{"x: a && b, *c, &amp\nw: '*c'\n", "map[w:*c x:a && b, *c, &amp]"},
		{"x: &a 1\nw: &a 2\nz: *a\n", "map[w:2 x:1 z:2]"},
		{"x: '*d &d'\n", "map[x:*d &d]"},
	} {
		var got any
		if err := Unmarshal([]byte(tt.text), &got); err != nil || fmt.Sprint(got) != tt.want {
			t.Errorf("%q: %v, %v", tt.text, got, err)
		}
	}
}
