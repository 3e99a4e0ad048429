package config

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// An Error lists the mistakes of a file.
type Error struct {
	Mistakes field.ErrorList
}

// Error implements error: a mistake a line, if there are several.
func (e *Error) Error() string {
	if len(e.Mistakes) == 1 {
		return text.Line(e.Mistakes[0].Error())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d mistakes:", len(e.Mistakes))
	for _, mistake := range e.Mistakes {
		b.WriteString("\n- " + text.Line(mistake.Error()))
	}
	return b.String()
}

// didYouMean names the one of names that is nearest to name, or all of them if none is near.
func didYouMean(name string, names []string) string {
	best, least := "", len(name)/2+1
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return "; there are " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is the number of bytes to add, remove or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
