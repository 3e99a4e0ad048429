// Package changefile reads a change from manifests: the mirror objects to be applied or
// deleted, as a mirrors.Edit.
//
// It reads documents as kubectl would send them to an API server. A document that the API server would
// refuse is a mistake, and all mistakes are reported at once, with file, document and field. Mirror
// objects inside others, such as a Policy or a ConfigMap, are taken as if they were applied here, and
// MachineConfigs with the files that say where nodes pull from. Unjudged names the rest. Nothing is
// lost silently: duplicate keys and documents that are not separated are mistakes too, where kubectl
// would use one of them.
//
//	var r changefile.Reader
//	err := r.ReadPath("mirrors/")
//	edit, err := r.Edit()
package changefile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/onedoc"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Reader reads the documents of one change, from any number of files and streams. The
// zero value is ready.
type Reader struct {
	// Delete makes the change take away the objects that are read from then on, after it has applied those that
	// were read before. They need not be more than names.
	Delete bool

	objects  []mirrors.Object
	deleted  []mirrors.Object
	mistakes []string
	// read is what was read, in order, for EditOn. invalid counts the objects that were so as
	// creations.
	read    []entry
	invalid int
	origins []*objectOrigin // of the objects, in order

	// brought are the images of companions, and broughtBy those that name some. signatures are those
	// of releases, by object and key.
	brought    images.Index
	broughtBy  []string
	signatures map[string]bool

	leftOut  []string // the objects of other kinds, a line for each document
	unjudged []string // parts that are about mirrors, with the reason
	inside   []string // the mirror objects that were found inside others
}

// An entry is an object to be applied, or a mistake.
type entry struct {
	origin origin
	gvk    schema.GroupVersionKind
	doc    []byte

	mistake       string
	machineConfig *mirrors.MachineConfig // instead of doc
}

// StandardInput is what messages call standard input.
const StandardInput = "standard input"

// ErrEmpty is the error of a change without a mirror object.
var ErrEmpty = errors.New("no ImageTagMirrorSet, ImageDigestMirrorSet, ImageContentSourcePolicy, Image, ClusterImagePolicy, ImagePolicy or PinnedImageSet")

// Found counts what has been read: objects, and what was left out or is a mistake.
func (r *Reader) Found() int {
	return len(r.read) + len(r.deleted) + len(r.leftOut) + len(r.unjudged) + len(r.broughtBy) + len(r.signatures)
}

// Edit returns the change that has been read. The error names all mistakes, or is ErrEmpty.
func (r *Reader) Edit() (mirrors.Edit, error) {
	if err := r.err(); err != nil {
		return mirrors.Edit{}, err
	}
	edits := slices.Concat(convert.Each(r.objects, mirrors.Put), convert.Each(r.deleted, mirrors.Delete))
	if len(r.deleted) == 0 && !slices.ContainsFunc(r.objects, isOfMirrors) {
		return mirrors.Edit{}, ErrEmpty
	}
	return mirrors.Join(edits...), nil
}

// err returns all mistakes as one error, nil if there are none.
func (r *Reader) err() error {
	switch n := len(r.mistakes); n {
	case 0:
		return nil
	case 1:
		return errors.New(r.mistakes[0])
	default:
		return fmt.Errorf("%d mistakes in the change:\n  %s", n, strings.Join(r.mistakes, "\n  "))
	}
}

func (r *Reader) mistake(at origin, format string, args ...any) {
	mistake := text.Line(at.name + ": " + fmt.Sprintf(format, args...))
	r.mistakes = append(r.mistakes, mistake)
	r.read = append(r.read, entry{mistake: mistake})
}

// ReadPath reads a file, or all files below a folder whose names end in .yaml, .yml or
// .json. The error says that one of them cannot be opened.
func (r *Reader) ReadPath(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	paths := []string{name}
	if info.IsDir() {
		if paths, err = manifestsBelow(name); err != nil {
			return err
		}
		if len(paths) == 0 { // kubectl refuses it too: it is a mistake in the path
			r.mistake(origin{name: name}, "no .yaml, .yml or .json file in the folder")
		}
	}
	for _, path := range paths {
		if err := r.readFile(path); err != nil {
			return err
		}
	}
	return nil
}

func manifestsBelow(folder string) ([]string, error) {
	var paths []string
	// With the separator, a link to a folder is one.
	err := filepath.WalkDir(folder+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}

func (r *Reader) readFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	r.Read(path, file)
	return nil
}

// Read reads the documents of from, which messages call name.
func (r *Reader) Read(name string, from io.Reader) {
	n := 0
	eachText(bufio.NewReader(from), func(doc []byte, line int, err error) {
		eachDocument(doc, err, func(data []byte, at span, err error) {
			n++
			from := origin{name: fmt.Sprintf("%s, document %d", name, n), in: at.in(doc, name, line)}
			if err != nil {
				r.mistake(from, "%v", err)
				return
			}
			left := r.document(from, data, metav1.TypeMeta{})
			if len(left) > 0 {
				r.leftOut = append(r.leftOut, text.Line(fmt.Sprintf("%s left out: %s", from.name, left)))
			}
		})
	})
}

// eachText calls take with the text of each document and the line on which it begins, counted from 1,
// up to the first error: where the next document begins is not known then. Only lines with "---" separate documents, and nothing
// but a comment may follow on such a line, as kubectl has it (YAMLReader in
// k8s.io/apimachinery, pkg/util/yaml).
func eachText(from *bufio.Reader, take func(text []byte, line int, err error)) {
	var doc []byte
	read, begin := 0, 1
	end := func() {
		if len(doc) > 0 {
			take(bytes.TrimPrefix(doc, []byte(byteOrderMark)), begin, nil)
		}
		doc, begin = nil, read+1
	}
	for line, err := range onedoc.Lines(from) {
		if err != nil {
			take(nil, begin, err)
			return
		}
		read++
		after, isMarker := bytes.CutPrefix(line.Text, []byte("---"))
		if !isMarker {
			doc = append(doc, line.Text...)
			continue
		}
		if after = bytes.TrimSpace(after); len(after) > 0 && after[0] != '#' {
			take(nil, begin, fmt.Errorf("invalid Yaml document separator: %s", after))
			return
		}
		end()
	}
	end()
}

// byteOrderMark is put before UTF-8 by Windows.
const byteOrderMark = "\ufeff"
