package release

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// ErrTooMuch is wrapped by the error of layers that have more than the budget.
var ErrTooMuch = errors.New("its layers have more than may be read")

// A Fault is an error that lies in what a layer holds: reading it again does not help. It wraps nothing, so that an
// archive that ends too soon is not taken for a connection that does.
type Fault struct {
	layer string
	err   error
}

// Error implements error.
func (f *Fault) Error() string { return f.layer + ": " + f.err.Error() }

// A file is one below the folder of manifests.
type file struct {
	// name is its path in the image, without a slash at its beginning.
	name string
	size int64
	// isLink is set for an entry other than a regular file or a folder; it has no content.
	isLink bool
}

// shown returns the name as it can be shown.
func (f file) shown() string { return text.Line(text.Cut(f.name, maxShown)) }

const (
	// maxNames and maxName bound the names that are remembered, since they hide others.
	maxNames = 200_000
	maxName  = 1_024
)

// A reader reads the files below the folder of manifests from the layers of an image, the last first.
//
// It hands out what a container would see: a file that a later layer has, or has removed, hides what layers below have
// in its place. No more is read than the budget allows, nothing is kept of a
// file but the name, a sparse file, a path that leads out of the image or a link in place of the folder is an error, and nothing that
// was handed out of a layer counts until next returns without an error, since its digest shows at its end.
type reader struct {
	// budget is the number of bytes, unpacked, that may still be read.
	budget int64

	left   []v1.Layer // the last is read next
	hidden map[string]bool
	// isFolder is set once a layer had the folder, or something in it: it hides non-folders below.
	isFolder bool
}

func newReader(image v1.Image) (*reader, error) {
	all, err := image.Layers()
	if err != nil {
		return nil, fmt.Errorf("reading its manifest: %w", err)
	}
	return &reader{budget: maxScanned, left: all, hidden: map[string]bool{}}, nil
}

// next hands the files of the next layer to visit, which may read content until it returns. The error is io.EOF if
// there is no further layer. It is, or wraps, a *Fault if the layer was read and something in it is wrong, or visit
// returned an error.
func (r *reader) next(ctx context.Context, visit func(f file, content io.Reader) error) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	layer := r.left[len(r.left)-1]
	digest, err := layer.Digest()
	if err != nil {
		return fmt.Errorf("reading its manifest: %w", err)
	}
	name := "its layer " + text.ShortDigest(digest.String())
	if size, err := layer.Size(); err != nil || size > r.budget {
		return fmt.Errorf("%s: %w", name, ErrTooMuch)
	}
	content, err := layer.Uncompressed()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer content.Close()
	s := &scan{reader: r, visit: visit}
	counted := &counted{ctx, content, &r.budget}
	wrong := s.archive(counted)
	if _, err := io.Copy(io.Discard, counted); err != nil { // to its end, where the digest is compared
		return fmt.Errorf("%s: %w", name, err)
	}
	if wrong != nil {
		return &Fault{name, wrong}
	}
	r.left = r.left[:len(r.left)-1]
	s.hide()
	return nil
}

// A counted reader takes what it reads from a budget.
type counted struct {
	ctx    context.Context
	from   io.Reader
	budget *int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.from.Read(p[:min(int64(len(p)), *c.budget+1)])
	if *c.budget -= int64(n); *c.budget < 0 {
		*c.budget = 0
		return 0, ErrTooMuch
	}
	return n, err
}

// A scan is one layer.
type scan struct {
	*reader
	visit func(file, io.Reader) error
	// names are what this layer hides of those below.
	names    []string
	isFolder bool
}

func (s *scan) archive(r io.Reader) error {
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading its archive: %w", err)
		}
		name := path.Clean(strings.TrimLeft(header.Name, "/"))
		if slices.Contains(strings.Split(header.Name, "/"), "..") {
			return fmt.Errorf("it has a path that leads out of it: %q", text.Cut(text.Line(header.Name), maxShown))
		}
		if err := s.entry(name, header, archive); err != nil {
			return err
		}
	}
}

// The prefix of a file that a layer removes, and the mark of a folder whose content below it hides
// (github.com/opencontainers/image-spec, layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

func (s *scan) entry(name string, header *tar.Header, content io.Reader) error {
	base := path.Base(name)
	switch {
	case base == opaque:
		return s.note(path.Dir(name))
	case strings.HasPrefix(base, whiteout):
		return s.note(path.Join(path.Dir(name), strings.TrimPrefix(base, whiteout)))
	case !concerns(name):
		return nil
	}
	s.isFolder = s.isFolder || isWithin(name, folder) && (name != folder || header.Typeflag == tar.TypeDir)
	if header.Typeflag == tar.TypeDir || s.isHidden(name) {
		return nil
	}
	f := file{name: name, size: header.Size, isLink: header.Typeflag != tar.TypeReg}
	if isWithin(folder, name) { // the folder itself, or one that it is in
		if s.reader.isFolder {
			return nil
		}
		return fmt.Errorf("%s is no folder", f.shown())
	}
	if isSparse(header) {
		return fmt.Errorf("%s is a sparse file", f.shown())
	}
	if err := s.note(name); err != nil {
		return err
	}
	return s.visit(f, content)
}

// isSparse reports whether a file has holes, which take no room in the archive, and so nothing of the budget. No tool that
// makes images writes any.
func isSparse(header *tar.Header) bool {
	for record := range header.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return true
		}
	}
	return header.Typeflag == tar.TypeGNUSparse
}

// isWithin reports whether a path is that of a folder, or of something in it.
func isWithin(name, of string) bool {
	return name == of || strings.HasPrefix(name, of+"/")
}

// concerns reports whether an entry of this name can change the content of the folder.
func concerns(name string) bool {
	return isWithin(name, folder) || isWithin(folder, name)
}

// isHidden reports whether a later layer has, or has removed, the file or a folder that it is in.
func (r *reader) isHidden(name string) bool {
	for ; !r.hidden[name]; name = path.Dir(name) {
		if name == "." {
			return false
		}
	}
	return true
}

// note notes a name that hides what layers below have.
func (s *scan) note(name string) error {
	switch {
	case !concerns(name):
		return nil
	case len(name) > maxName:
		return fmt.Errorf("a path in it has %d characters", len(name))
	case len(s.names)+len(s.hidden) >= maxNames:
		return fmt.Errorf("/%s has more than %d files", folder, maxNames)
	}
	s.names = append(s.names, name)
	return nil
}

// hide hides from the layers below what this one has.
func (s *scan) hide() {
	for _, name := range s.names {
		s.hidden[name] = true
	}
	s.reader.isFolder = s.reader.isFolder || s.isFolder
}
