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
