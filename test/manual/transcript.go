package manual

import (
	"fmt"
	"regexp"
	"strings"
)

// override is the code of an override, which is for one user of one cluster.
var override = regexp.MustCompile(`/override: "[0-9a-f]{8}:`)

// FindIn reports the lines of a block that do not stand in a transcript, one after the other. Text
// around them there, as an indentation, makes no difference; a line "..." stands for any.
func (b Block) FindIn(transcript string) error {
	const code = `/override: "CODE:`
	transcript = override.ReplaceAllString(transcript, code)
	var pattern strings.Builder
	for line := range strings.Lines(strings.TrimRight(override.ReplaceAllString(b.Text, code), "\n")) {
		if line = strings.TrimSpace(line); line == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(`[ \t]*` + regexp.QuoteMeta(line) + `[ \t]*\n`)
		if !regexp.MustCompile(`(?m)^` + pattern.String()).MatchString(transcript) {
			return fmt.Errorf("%s:%d: the transcript does not go on with %q", b.Page, b.Line, line)
		}
	}
	return nil
}
