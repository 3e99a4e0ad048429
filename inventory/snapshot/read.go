package snapshot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

// MaxFile is the size of a file up to which it is read, in bytes. 20,000 pods of
// 11 kB, as "oc get pods -A -o yaml" writes them, are 220 MB.
const MaxFile = 1 << 30

// Read reads a dump from path: a file, a folder with everything below it whose
// name ends in .yaml, .yml or .json, or "-" for standard input. It fails if
// path cannot be opened or has no objects at all.
func Read(path string) (*Snapshot, error) {
	if path == "-" {
		return ReadFrom(os.Stdin, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading the dump: %w", err)
	}
	var r reader
	if info.IsDir() {
		err = r.folder(path)
	} else {
		err = r.file(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the dump: %w", err)
	}
	return r.finish(path)
}

// ReadFrom reads a dump from a stream, which messages call name.
func ReadFrom(stream io.Reader, name string) (*Snapshot, error) {
	var r reader
	r.stream(stream, name)
	return r.finish(name)
}

// A reader fills a Snapshot.
type reader struct {
	Snapshot
	waiting []item // that do not say what they are
}

func (r *reader) finish(name string) (*Snapshot, error) {
	if r.objects > 0 {
		return &r.Snapshot, nil
	}
	var problems []error
	for _, p := range r.problems {
		problems = append(problems, p)
	}
	return nil, errors.Join(append([]error{fmt.Errorf("%s has no Kubernetes objects", name)}, problems...)...)
}

func (r *reader) problem(file string, document int, err error) {
	r.problems = append(r.problems, Problem{File: file, Document: document, Err: err})
}

func (r *reader) folder(path string) error {
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			r.problem(name, 0, err)
		case entry.IsDir() && name != path && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir // .git
		case !entry.IsDir() && isManifest(name):
			if err := r.file(name); err != nil {
				r.problem(name, 0, err)
			}
		}
		return nil
	})
}

func isManifest(name string) bool {
	switch filepath.Ext(name) {
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
	defer f.Close()
	r.stream(f, name)
	return nil
}

func (r *reader) stream(stream io.Reader, name string) {
	buffered := bufio.NewReaderSize(&limited{stream, MaxFile}, 64<<10)
	parts := yamlParts
	if startsLikeJSON(buffered) {
		parts = jsonParts
	}
	for p := range parts(buffered) {
		if err := r.part(p); err != nil {
			r.problem(name, p.document, err)
		}
	}
}

// A part is a document, or an item of a document that is a list, as JSON.
type part struct {
	document int // from 1
	item     int // from 1; 0 for the document, which comes after its items
	data     []byte
	err      error
}

// limited is an io.LimitedReader that fails beyond the limit: half a file that
// looks like a whole one would be worse than none.
type limited struct {
	io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("larger than %d MiB", MaxFile>>20)
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

// jsonParts yields the values of a stream of JSON. It ends with the first
// error: where the next value begins is not known then.
func jsonParts(r *bufio.Reader) iter.Seq[part] {
	return func(yield func(part) bool) {
		decoder := json.NewDecoder(r)
		for n := 1; ; n++ {
			var data json.RawMessage
			err := decoder.Decode(&data)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(part{document: n, data: data, err: err}) || err != nil {
				return
			}
		}
	}
}
