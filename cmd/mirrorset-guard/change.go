package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review/change"
)

// changeFlags name a change: any number of mirror objects that are put, or deleted,
// together.
type changeFlags struct {
	files  []string
	delete bool
}

func (c *changeFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&c.files, "filename", "f", nil, "file, folder or - (standard input) with the mirror objects to apply; may be repeated, all are one change")
	flags.BoolVar(&c.delete, "delete", false, "delete the objects in -f instead of applying them")
}

// read returns the change. Objects of other kinds are left out and named on standard error.
// The error names all that an API server would refuse.
func (c *changeFlags) read(io streams) (mirrors.Edit, error) {
	r := change.Reader{Delete: c.delete, LeftOut: func(line string) { fmt.Fprintf(io.err, "mirrorset-guard: %s\n", line) }}
	for _, name := range c.files {
		if name == "-" {
			r.Read("standard input", io.in)
			continue
		}
		if err := r.ReadPath(name); err != nil {
			return mirrors.Edit{}, err
		}
	}
	edit, err := r.Edit()
	if errors.Is(err, change.ErrEmpty) {
		return edit, fmt.Errorf("%w in %s", err, strings.Join(c.files, ", "))
	}
	return edit, err
}

// readOptional is read for a command that does without a change too.
func (c *changeFlags) readOptional(io streams) (mirrors.Edit, error) {
	if len(c.files) == 0 {
		return mirrors.Edit{}, nil
	}
	return c.read(io)
}
