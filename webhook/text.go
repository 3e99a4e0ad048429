package webhook

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The API server's limits for warnings (k8s.io/apiserver,
// pkg/endpoints/filters/warning.go): beyond 4,096 runes in total it cuts each to
// 256 and drops what is left over. So many warnings, cut to that length, never
// get there.
const (
	maxWarningRunes = 256
	maxWarningTotal = 4096
	maxWarnings     = maxWarningTotal / maxWarningRunes
)

// warnings returns what of the given lines the API server will deliver: each on
// one line and cut, and if there are too many, their number as the last one.
func warnings(lines []string) []string {
	var out []string
	for _, line := range lines {
		if line = cut(oneLine(line), maxWarningRunes); line != "" {
			out = append(out, line)
		}
	}
	if len(out) <= maxWarnings {
		return out
	}
	more := len(out) - (maxWarnings - 1)
	return append(out[:maxWarnings-1], fmt.Sprintf("and %d more warnings", more))
}

// oneLine returns s as text that may follow other text on a line: every run of
// white space is one space, and what does not print is gone (control characters
// and escape sequences' ESC, marks that turn the direction of writing), as are
// bytes that are no UTF-8. The API server drops a warning that holds a control
// character (NewWarningHeader in k8s.io/apimachinery, pkg/util/net/http.go).
func oneLine(s string) string {
	return strings.Join(strings.Fields(printable(s)), " ")
}

// printable returns s without what does not print. Lines and tabs stay; other
// white space (a carriage return, which hides what stands before it) is a space.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
}

// cut returns the first n runes of s; where some are missing, the last is "…".
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
