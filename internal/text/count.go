package text

import (
	"fmt"
	"regexp"
	"strings"
)

// Number groups the digits of n by thousands: "2,000".
func Number(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count returns "1 image", "2,000 images".
func Count(n int, noun string) string { return Plural(n, noun, noun+"s") }

// Plural returns "1 repository", "2 repositories".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + many
}

// Capital returns s with its first letter, of ASCII, as a capital.
func Capital(s string) string {
	first := min(1, len(s))
	return strings.ToUpper(s[:first]) + s[first:]
}

// Names joins at most limit of names, and counts the others: "a, b and 3 more". It is ""
// if there are none.
func Names(names []string, limit int) string {
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:limit], ", ") + " and " + Number(len(names)-limit) + " more"
}

// First returns at most limit of lines, and one that counts the others: "and 3 more", or
// "and 3 more rules" if noun is "rule".
func First(lines []string, limit int, noun string) []string {
	if len(lines) <= limit {
		return lines
	}
	more := "and " + Number(len(lines)-limit) + " more"
	if noun != "" {
		more = "and " + Count(len(lines)-limit, "more "+noun)
	}
	return append(lines[:limit:limit], more)
}

// ShortDigest returns ref with as much of its digest as a person compares. It may be a
// digest alone.
func ShortDigest(ref string) string {
	const digits = 12
	for _, algorithm := range []string{"sha256:", "sha512:"} {
		name, digest, ok := strings.Cut(ref, algorithm)
		if ok && len(digest) > digits && (name == "" || strings.HasSuffix(name, "@")) {
			return name + algorithm + digest[:digits]
		}
	}
	return ref
}

// ShortDigests shortens every digest in a text as ShortDigest does.
func ShortDigests(s string) string { return longDigest.ReplaceAllString(s, "$1") }

var longDigest = regexp.MustCompile(`(sha(?:256|384|512):[0-9a-f]{12})[0-9a-f]{52,}`)
