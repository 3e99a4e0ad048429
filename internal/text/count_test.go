package text

import (
	"slices"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 images", 1: "1 image", 2: "2 images", 999: "999 images", 1000: "1,000 images", 1234567: "1,234,567 images"} {
		if got := Count(n, "image"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := Plural(2000, "repository", "repositories"); got != "2,000 repositories" {
		t.Errorf("got %q", got)
	}
}

func TestNames(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a, b": {"a", "b"}, "a, b and 2 more": {"a", "b", "c", "d"}} {
		if got := Names(names, 2); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFirst(t *testing.T) {
	lines := []string{"a", "b", "c"}
	if got := First(lines, 3, ""); !slices.Equal(got, lines) {
		t.Errorf("all: %q", got)
	}
	if got := First(lines, 1, ""); !slices.Equal(got, []string{"a", "and 2 more"}) {
		t.Errorf("one: %q", got)
	}
	if got := First(lines, 2, "rule"); !slices.Equal(got, []string{"a", "b", "and 1 more rule"}) || lines[2] != "c" {
		t.Errorf("two of %q: %q", lines, got)
	}
}

func TestShortDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	long := "sha512:" + strings.Repeat("0123456789abcdef", 8)
	for of, want := range map[string]string{
		"quay.io/x@" + digest: "quay.io/x@sha256:0123456789ab",
		digest:                "sha256:0123456789ab",
		long:                  "sha512:0123456789ab",
		"sha256:old":          "sha256:old",
		"quay.io/x:1":         "quay.io/x:1",
		"":                    "",
	} {
		if got := ShortDigest(of); got != want {
			t.Errorf("%s: got %q, want %q", of, got, want)
		}
	}
}

func TestShortDigests(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	got := ShortDigests("quay.io/x@sha256:" + digest + " is not sha512:" + digest + digest + ", and sha256:old stays")
	if want := "quay.io/x@sha256:0123456789ab is not sha512:0123456789ab, and sha256:old stays"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
