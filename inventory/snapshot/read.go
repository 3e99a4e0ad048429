package snapshot

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// MaxFile is the size of a file up to which it is read, in bytes. 20,000 pods of
// 11 kB, as "oc get pods -A -o yaml" writes them, are 220 MB.
const MaxFile = 1 << 30

// MaxArchive is the size of all files in an archive up to which it is read, in
// bytes. A must-gather of a large cluster unpacks to several GB, most of it logs,
// which are passed over.
const MaxArchive = 64 << 30

// Options say what of a dump is needed.
type Options struct {
	// NoWorkloads leaves out pods and what pods are made from, most of a dump. Images and Rollout then lack them.
	NoWorkloads bool
}

// File reads a dump from a path: a file, or a folder with everything below it whose
// name ends in .yaml, .yml or .json. A file may be a tar archive of such a folder, as
// must-gathers are sent, and may be compressed with gzip. It fails if that cannot be opened,
// has no objects at all, or was written by a later version of the guard.
func (o Options) File(name string) (*Snapshot, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("reading the dump: %w", err)
	}
	r := newReader(o)
	if info.IsDir() {
		err = r.folder(name)
	} else {
		err = r.file(name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the dump: %w", err)
	}
	return r.finish(name)
}

// Stream reads a dump from a stream, which messages call name.
func (o Options) Stream(stream io.Reader, name string) (*Snapshot, error) {
	r := newReader(o)
	r.stream(stream, name)
	return r.finish(name)
}

// Read is Options.File for all of a dump.
func Read(name string) (*Snapshot, error) { return Options{}.File(name) }

// ReadFrom is Options.Stream for all of a dump.
func ReadFrom(stream io.Reader, name string) (*Snapshot, error) {
	return Options{}.Stream(stream, name)
}

// A reader fills a Snapshot.
type reader struct {
	Snapshot
	Options
	waiting  []part   // items that do not say what they are
	hasItems bool     // whether some have come, with the end of their list still to come
	place    *Problem // the part being read, without Item and Err
	number   int      // of the item that is being read, 0 for none

	holders   map[[3]string]*images.Holder // that are spread over many objects, by kind, namespace and name
	holdersAt *Problem                     // where they stand

	machineConfigs map[string]bool // the names of those in the dump

	noPolicies bool // whether MCO ignores image policies

	hasPods  bool      // whether there are pods, even if all have ended
	noQuotas bool      // whether a list of ResourceQuotas was read, even an empty one
	refused  error     // why the dump is not read at all; nil if it is
	policy   bool      // whether there are objects of API group policy, or a list of budgets, even an empty one
	lacks    *[]string // what the source of the dump did not know either; nil if it does not say
	unread   []string  // resources that could not be read in full

	templates map[owner]bool // the objects with a template that were read
	retained  map[[3]string]retained

	accounts  byKey[*corev1.ServiceAccount]
	generated map[types.NamespacedName][]string // the pull secrets that OpenShift has made, by service account

	editions map[identity]edition
}

func newReader(o Options) *reader {
	return &reader{
		Options: o,
		Snapshot: Snapshot{
			mirrors: map[string][]byte{}, podOwners: map[controllerKey]rollout.Controller{}, contents: map[string]renderedContent{},
			skipped: map[string]int{},
		},
		holders: map[[3]string]*images.Holder{}, machineConfigs: map[string]bool{}, templates: map[owner]bool{},
		place: new(Problem), retained: map[[3]string]retained{}, generated: map[types.NamespacedName][]string{}, editions: map[identity]edition{},
	}
}

func (r *reader) finish(name string) (*Snapshot, error) {
	if r.refused != nil {
		return nil, fmt.Errorf("reading the dump: %w", r.refused)
	}
	r.putHolders()
	r.putRetained()
	r.putAccounts()
	r.putLaid()
	r.putNodes()
	r.unknown = r.unknownResources()
	if r.noPolicies {
		r.set.Policies = nil
	}
	if r.objects > 0 {
		return &r.Snapshot, nil
	}
	problems := convert.Each(r.problems, func(p Problem) error { return p })
	return nil, errors.Join(append([]error{fmt.Errorf("%s has no Kubernetes objects", name)}, problems...)...)
}

// problem notes that a file could not be read, or not to its end.
func (r *reader) problem(file string, err error) {
	r.place, r.number = &Problem{File: file}, 0
	r.problems = append(r.problems, r.placed(r.lost(err)))
}

func (r *reader) folder(top string) error {
	top += string(filepath.Separator) // a link to a folder is one
	return filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			r.problem(name, err)
		case entry.IsDir() && name != top && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir // .git
		case !entry.IsDir() && isManifest(name):
			if err := r.file(name); err != nil {
				r.problem(name, err)
			}
		}
		return nil
	})
}

func isManifest(name string) bool {
	switch strings.ToLower(path.Ext(filepath.ToSlash(name))) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

func (r *reader) file(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	r.stream(f, name)
	return nil
}

// stream reads YAML, JSON, or a tar archive of files with either, compressed or
// not.
func (r *reader) stream(stream io.Reader, name string) {
	buffered := bufio.NewReader(stream)
	if head, _ := buffered.Peek(2); string(head) == gzipMagic {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			r.problem(name, err)
			return
		}
		buffered = bufio.NewReader(unzipped)
	}
	if head, _ := buffered.Peek(tarMagicOffset + len(tarMagic)); bytes.HasSuffix(head, []byte(tarMagic)) {
		r.archive(buffered, name)
		return
	}
	r.documents(buffered, name)
}

// The beginnings of the formats (RFC 1952, 2.3.1; POSIX.1-1988, ustar).
const (
	gzipMagic      = "\x1f\x8b"
	tarMagic       = "ustar"
	tarMagicOffset = 257

	// Windows puts it before UTF-8.
	byteOrderMark = "\ufeff"
)

// archive reads the manifests in a tar archive.
func (r *reader) archive(stream io.Reader, name string) {
	end := &tail{Reader: &limited{stream, MaxArchive, MaxArchive}}
	archive := tar.NewReader(end)
	for {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			if !end.isZero() {
				r.problem(name, errors.New("the archive has no end marker"))
			} else if _, err := io.Copy(io.Discard, end); err != nil { // the checksum comes last
				r.problem(name, err)
			}
			return
		}
		if err != nil {
			r.problem(name, err)
			return
		}
		if entry.Typeflag == tar.TypeReg && isManifest(entry.Name) {
			r.documents(archive, name+":"+path.Clean(entry.Name))
		}
	}
}

// A tail keeps the last block that was read. A tar archive ends with two blocks of zeros
// (POSIX.1-1988, ustar); package tar takes one that is cut off between two files for whole.
type tail struct {
	io.Reader
	last []byte
}

const tarBlock = 512

// Read implements io.Reader.
func (t *tail) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.last = append(t.last, p[:n]...)
	if len(t.last) > tarBlock {
		t.last = append(t.last[:0], t.last[len(t.last)-tarBlock:]...)
	}
	return n, err
}

// isZero reports whether that block is one of an end.
func (t *tail) isZero() bool {
	return len(t.last) == tarBlock && !slices.ContainsFunc(t.last, func(b byte) bool { return b != 0 })
}

func (r *reader) documents(stream io.Reader, name string) {
	buffered := bufio.NewReaderSize(&limited{stream, MaxFile, MaxFile}, 64<<10)
	if head, _ := buffered.Peek(len(byteOrderMark)); string(head) == byteOrderMark {
		_, _ = buffered.Discard(len(byteOrderMark))
	}
	parts := yamlParts(buffered, 1, r.isOfUse)
	if startsLikeJSON(buffered) {
		parts = jsonParts(buffered, r.isOfUse)
	}
	for p := range parts {
		if r.place.File != name || r.place.Document != p.document {
			r.place = &Problem{File: name, Document: p.document}
		}
		r.part(p)
	}
}

// A part is a document, or an item of a document that is a list.
type part struct {
	document int    // from 1, of those that are not empty
	item     int    // from 1; 0 for the document, which comes after its items, and without them
	list     header // of an item, what the list has said before it
	kind     string // of an object that is of no use, which has no data
	data     []byte // JSON, until the next part; that of an item may not be valid
	err      error
	lost     bool // with an error, whether it may have been an object
}

// limited is an io.LimitedReader that fails beyond the limit: half a file that
// looks like a whole one would be worse than none.
type limited struct {
	io.Reader
	limit, left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("larger than %d MiB: the end is missing", l.limit>>20)
	}
	n, err := l.Reader.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

func startsLikeJSON(r *bufio.Reader) bool {
	for n := 1; ; n++ {
		head, err := r.Peek(n)
		if err != nil {
			return false
		}
		if c := head[n-1]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c == '{'
		}
	}
}
