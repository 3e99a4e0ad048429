package cli

import (
	"regexp"
	"strings"
	"testing"
)

// TestStyleFor: who decides whether there are colours.
func TestStyleFor(t *testing.T) {
	for _, tt := range []struct {
		reason   string
		terminal bool
		env      map[string]string
		want     bool
	}{
		{"a terminal", true, nil, true},
		{"a pipe", false, nil, false},
		{"NO_COLOR", true, map[string]string{"NO_COLOR": "1"}, false},
		{"CLICOLOR=0", true, map[string]string{"CLICOLOR": "0"}, false},
		{"forced", false, map[string]string{"CLICOLOR_FORCE": "1"}, true},
		{"not forced", false, map[string]string{"CLICOLOR_FORCE": "0"}, false},
		{"NO_COLOR is stronger", true, map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, false},
	} {
		if got := styleFor(tt.terminal, func(name string) string { return tt.env[name] }).Colours(); got != tt.want {
			t.Errorf("%s: colours %v", tt.reason, got)
		}
	}
}

// TestPaintExplanation: what was found at a place has its colour.
func TestPaintExplanation(t *testing.T) {
	for line, want := range map[string]string{
		"     mirror, tried: present":                                 "mirror, tried: \x1b[32mpresent\x1b[0m",
		"     mirror, tried, signatures looked for: absent: 404":      "looked for: \x1b[31mabsent\x1b[0m: 404",
		"     source, tried: unreachable: no answer":                  "\x1b[33munreachable\x1b[0m",
		"     source, blocked by the entry quay.io (Never in ITMS a)": "source, \x1b[33mblocked by the entry quay.io (Never in ITMS a)\x1b[0m",
		"     mirror, skipped: serves digests only":                   "     mirror, skipped: serves digests only",
	} {
		if got := (Style{true}).Paint(line); !strings.Contains(got, want) {
			t.Errorf("%q: got %q", line, got)
		}
	}
}

const plain = `ImageTagMirrorSet shop is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/shop/cart:v1
   used by Pod shop/cart-1 (cart)
   ImageMissing: no mirror has it
   - mirror.example.com/shop/cart:v1: found
   To do: skopeo copy

Warnings:

1. the configuration as a whole
   BroadSource: it is broad

Forecast: it drains.
`

// TestPaint: colours are added, and no letter changes.
func TestPaint(t *testing.T) {
	out := Style{true}.Paint(plain)
	for _, want := range []string{"\x1b[1;31mImageTagMirrorSet shop is refused", "\x1b[1;31mImageMissing\x1b[0m:", "\x1b[1;33mBroadSource\x1b[0m:", ": \x1b[32mfound\x1b[0m\n", "\x1b[1;36mTo do:\x1b[0m skopeo"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if got := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(out, ""); got != plain {
		t.Errorf("without colours it says\n%s", got)
	}
	if got := (Style{}).Paint(plain); got != plain {
		t.Errorf("without a terminal it is\n%s", got)
	}
}

func TestBar(t *testing.T) {
	for _, tt := range []struct{ share, all, want int }{{0, 10, 0}, {1, 1000, 1}, {5, 10, 10}, {10, 10, 20}, {1, 0, 0}} {
		if got := strings.Count(Bar(tt.share, tt.all, 20), "█"); got != tt.want {
			t.Errorf("%d of %d: %d", tt.share, tt.all, got)
		}
	}
}
