package catalog

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/layers"
)

// ignoreFile lists files below its folder that are no part of a catalog, as .gitignore does (operator-registry,
// alpha/declcfg/load.go). They are read all the same: what cannot be read is said to be.
const ignoreFile = ".indexignore"

const (
	// maxIgnoreFile bounds such a file, maxIgnored the lines of all of them, and maxIgnoredLine each.
	maxIgnoreFile  = 64 << 10
	maxIgnored     = 1_000
	maxIgnoredLine = 1_024
)

// An ignored line of such a file says which files are ignored, or that some are not.
type ignored struct {
	file  string   // in which it is
	parts []string // of a path below its folder, or a name anywhere below it if it is one
	not   bool
	// folders is set if it is about folders alone.
	folders bool
}

// ignore reads a file of that kind.
func (r *reading) ignore(f layers.File, content io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(content, maxIgnoreFile+1))
	if err != nil {
		return err
	}
	if len(data) > maxIgnoreFile {
		return fmt.Errorf("%s has more than %d KiB", f.Shown(), maxIgnoreFile>>10)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if len(line) > maxIgnoredLine {
			return fmt.Errorf("%s has a line of %d characters, more than are read (%d)", f.Shown(), len(line), maxIgnoredLine)
		}
		i := ignored{file: f.Name}
		line, i.not = strings.CutPrefix(line, "!")
		line, i.folders = strings.CutSuffix(line, "/")
		i.parts = strings.Split(line, "/")
		r.ignored = append(r.ignored, i)
	}
	if len(r.ignored) > maxIgnored {
		return fmt.Errorf("the %s of the catalog have more than %d lines", ignoreFile, maxIgnored)
	}
	return nil
}

// isIgnored reports whether a file is no part of the catalog: of the lines that are about it, the last decides.
func (r *reading) isIgnored(ctx context.Context, file string) (bool, error) {
	is := false
	for _, i := range r.ignored {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		below, ok := strings.CutPrefix(file, path.Dir(i.file)+"/")
		switch {
		case !ok:
		case slices.Contains(i.parts, "**"):
			return false, fmt.Errorf("whether %s counts is not known: %s has a line with **, which is not understood here", shown(file), shown(i.file))
		case i.matches(strings.Split(below, "/")):
			is = !i.not
		}
	}
	return is, nil
}

// matches is what github.com/go-git/go-git/v5/plumbing/format/gitignore does.
func (i *ignored) matches(names []string) bool {
	if len(i.parts) == 1 {
		at := slices.IndexFunc(names, func(name string) bool { return matches(i.parts[0], name) })
		return at >= 0 && (!i.folders || at < len(names)-1)
	}
	matched := false
	for _, part := range i.parts {
		switch {
		case part == "":
			continue
		case len(names) == 0 || !matches(part, names[0]):
			return false
		}
		names, matched = names[1:], true
	}
	return matched && (!i.folders || len(names) > 0)
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// count takes the objects that count, once all files are known that hide others.
func (r *reading) count(ctx context.Context) error {
	slices.SortStableFunc(r.ignored, func(a, b ignored) int { // as files are walked
		return slices.Compare(strings.Split(a.file, "/"), strings.Split(b.file, "/"))
	})
	type answer struct {
		is  bool
		err error
	}
	answers := map[string]answer{} // by file, of which each may have thousands of objects
	for _, o := range r.objects {
		a, known := answers[o.file]
		if !known {
			a.is, a.err = r.isIgnored(ctx, o.file)
			answers[o.file] = a
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case a.is:
			continue
		}
		r.catalog.take(o)
		if a.err != nil {
			r.catalog.Packages[o.Package].fault(a.err)
		}
	}
	return nil
}
