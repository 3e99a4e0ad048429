package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review/change"
	"github.com/mirrorset-guard/mirrorset-guard/review/world"
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

// A readChange is a change as it was read, before it is known what it is applied to.
type readChange struct {
	reader *change.Reader // nil for no change
	// invalid is what an API server would refuse if it had no such objects.
	invalid error
}

// read returns the change as a creation. Objects of other kinds are left out and named on standard
// error. The error names all that an API server would refuse.
func (c *changeFlags) read(io streams) (mirrors.Edit, error) {
	r := c.reader(io)
	if err := c.readInto(r, io); err != nil {
		return mirrors.Edit{}, err
	}
	edit, err := r.Edit()
	return edit, c.named(err)
}

// begin reads the change, if there is any. The error is one that nothing in force could mend.
func (c *changeFlags) begin(io streams) (readChange, error) {
	if len(c.files) == 0 {
		return readChange{}, nil
	}
	r := c.reader(io)
	if err := c.readInto(r, io); err != nil {
		return readChange{}, err
	}
	_, err := r.Edit()
	if err = c.named(err); err != nil && !r.DependsOnCurrent() {
		return readChange{}, err
	}
	return readChange{r, err}, nil
}

func (c *changeFlags) reader(io streams) *change.Reader {
	return &change.Reader{Delete: c.delete, LeftOut: func(line string) { fmt.Fprintf(io.err, "mirrorset-guard: %s\n", line) }}
}

func (c *changeFlags) readInto(r *change.Reader, io streams) error {
	for _, name := range c.files {
		if name == "-" {
			r.Read("standard input", io.in)
			continue
		}
		if err := r.ReadPath(name); err != nil {
			return err
		}
	}
	return nil
}

func (c *changeFlags) named(err error) error {
	if errors.Is(err, change.ErrEmpty) {
		return fmt.Errorf("%w in %s", err, strings.Join(c.files, ", "))
	}
	return err
}

// on returns the change as it is applied to the objects in force, and notes about that.
func (r readChange) on(ctx context.Context, w *world.World) (mirrors.Edit, []string, error) {
	if r.reader == nil {
		return mirrors.Edit{}, nil, nil
	}
	return r.reader.EditOn(func(o mirrors.Object) ([]byte, error) { return w.Cluster.MirrorObject(ctx, o) })
}

// unless returns the mistakes in the change, if there are any, or else err: who has no cluster is
// told of them all the same.
func (r readChange) unless(err error) error { return cmp.Or(r.invalid, err) }
