package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review/changefile"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
)

// ChangeFlags name a change: any number of mirror objects that are put, or deleted,
// together.
type ChangeFlags struct {
	Files  []string
	delete bool
	// gone are the files of the objects that the change deletes once it has applied those of Files.
	gone []string
}

// AddFlags adds the flags.
func (c *ChangeFlags) AddFlags(flags *pflag.FlagSet) {
	c.AddFile(flags)
	flags.BoolVar(&c.delete, "delete", false, "delete the objects in -f instead of applying them")
	flags.StringArrayVar(&c.gone, "delete-file", nil, "file, folder or - with objects that the change deletes, beside those that it applies; may be repeated")
}

// AddFile adds the flag of a change that deletes nothing.
func (c *ChangeFlags) AddFile(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&c.Files, "filename", "f", nil, "file, folder or - (standard input) with the mirror objects to apply; may be repeated, all are one change")
}

// A Change is a change as it was read, before it is known what it is applied to.
type Change struct {
	reader *changefile.Reader // nil for no change
	// invalid is what an API server would refuse if it had no such objects.
	invalid error
}

// Read returns the change as a creation. Stderr names objects that are not judged, the error all that an API server would refuse.
func (c *ChangeFlags) Read(io Streams) (mirrors.Edit, error) {
	r, err := c.reader(io)
	if err != nil {
		return mirrors.Edit{}, err
	}
	edit, err := r.Edit()
	say(r, io)
	return edit, c.named(err)
}

// Begin reads the change, if there is any. The error is one that nothing in force could mend.
func (c *ChangeFlags) Begin(io Streams) (Change, error) {
	switch {
	case len(c.Files) == 0 && c.delete:
		return Change{}, errors.New("--delete: only with -f, which names the objects to delete")
	case len(c.gone) > 0 && (c.delete || len(c.Files) == 0):
		return Change{}, errors.New("--delete-file: only with -f, which names the objects to apply, and without --delete")
	case len(c.Files) == 0:
		return Change{}, nil
	}
	r, err := c.reader(io)
	if err != nil {
		return Change{}, err
	}
	_, err = r.Edit()
	if err = c.named(err); err != nil && !r.DependsOnCurrent() {
		say(r, io)
		return Change{}, err
	}
	return Change{r, err}, nil
}

// say names objects that are not judged on standard error, where no answer does.
func say(r *changefile.Reader, io Streams) {
	for _, line := range r.NotJudged() {
		io.Note("%s", line)
	}
}

func (c *ChangeFlags) reader(io Streams) (*changefile.Reader, error) {
	r := new(changefile.Reader)
	for _, half := range []struct {
		flag   string
		names  []string
		delete bool
	}{{"-f", c.Files, c.delete}, {"--delete-file", c.gone, true}} {
		before := r.Found()
		r.Delete = half.delete
		for _, name := range half.names {
			if name == "-" {
				r.Read(changefile.StandardInput, io.In)
				continue
			}
			if err := r.ReadPath(name); err != nil {
				return nil, err
			}
		}
		if len(c.gone) > 0 && r.Found() == before { // one half of a replacement would be judged as if it were all
			return nil, fmt.Errorf("%s: no object in %s", half.flag, strings.Join(half.names, ", "))
		}
	}
	return r, nil
}

func (c *ChangeFlags) named(err error) error {
	if errors.Is(err, changefile.ErrEmpty) {
		return fmt.Errorf("%w in %s", err, strings.Join(slices.Concat(c.Files, c.gone), ", "))
	}
	return err
}

// Find and Objects return where the parts of the change stand in the files: see changefile.Reader.
func (r Change) Find(scope string, names ...string) []changefile.Position {
	return r.reader.Find(scope, names...)
}

// Objects is the other half of Find.
func (r Change) Objects(names ...string) []changefile.Position { return r.reader.Objects(names...) }

// On returns the change as it is applied to the objects in force, and notes about that.
func (r Change) On(ctx context.Context, w *environment.World) (mirrors.Edit, []string, error) {
	if r.reader == nil {
		return mirrors.Edit{}, nil, nil
	}
	return r.reader.EditOn(func(o mirrors.Object) ([]byte, error) { return w.Cluster.MirrorObject(ctx, o) })
}

// Brought returns the images that the change brings beside its mirror objects, and notes: about these, and
// about objects that are not judged.
func (r Change) Brought() ([]policy.Image, []string) {
	if r.reader == nil {
		return nil, nil
	}
	return r.reader.Brought()
}

// Unless returns the mistakes in the change, if there are any, or else err: they are reported even
// if there is no cluster.
func (r Change) Unless(err error) error { return cmp.Or(r.invalid, err) }
