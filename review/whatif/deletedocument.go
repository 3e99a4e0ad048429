package whatif

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v2"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A deleteImageList is the format of oc-mirror (v2/internal/pkg/api/v2alpha1, DeleteImageList), with
// the fields that former versions wrote.
type deleteImageList struct {
	Kind       string       `yaml:"kind"`
	APIVersion string       `yaml:"apiVersion"`
	Items      []deleteItem `yaml:"items"`
}

type deleteItem struct {
	ImageName      string  `yaml:"imageName"`
	ImageReference string  `yaml:"imageReference"`
	Type           ignored `yaml:"type"`
	RelatedBlobs   ignored `yaml:"relatedBlobs"`
}

// ignored is a field whose value is not kept.
type ignored struct{}

// UnmarshalYAML implements yaml.Unmarshaler.
func (*ignored) UnmarshalYAML(func(any) error) error { return nil }

const deleteImageListKind = "DeleteImageList"

const (
	// maxPiece bounds what is decoded at once: the tree that a decoder makes has sixty times the size of its text. It also
	// bounds an item, and a value in flow style ({"items": [...]}, as in JSON).
	maxPiece = 4 << 20
	// piece is how much of a list of items is decoded at once.
	piece = 64 << 10
)

// A documentReader reads a DeleteImageList piece by piece: a field of it, or some items.
type documentReader struct {
	list *DeleteList
	head deleteImageList // without items
	// text is the piece so far, which begins with line first; items is set if it is one of items.
	text  []byte
	first int
	items bool
	// indent is that of the dashes in front of items, -1 where none was seen.
	indent int
	flow   bool            // whether the document is one flow
	seen   map[string]bool // fields
	number int             // of items
	wrong  mistakes
	err    error // the first for which no items are read any more
}

// readDocument reads a DeleteImageList as oc-mirror writes it, or as one flow.
func (l *DeleteList) readDocument(r io.Reader) error {
	d := documentReader{list: l, seen: map[string]bool{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxPiece)
	for n := 1; lines.Scan(); n++ {
		d.line(n, lines.Bytes())
		switch {
		case d.number > MaxLines:
			return fmt.Errorf("%s: more than %s items", l.name, text.Number(MaxLines))
		case len(d.text) > maxPiece:
			return fmt.Errorf("%s, line %d: what begins here is longer than %d MiB; write each item on lines of its own, as oc mirror does", l.name, d.first, maxPiece>>20)
		}
	}
	d.flush()
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s: a line is longer than %d MiB", l.name, maxPiece>>20)
	case err != nil:
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return d.conclude()
}

func (d *documentReader) conclude() error {
	name := d.list.name
	switch {
	case d.head.Kind == "DeleteImageSetConfiguration", d.head.Kind == "ImageSetConfiguration":
		return fmt.Errorf("%s: kind %s says what to select; give the %s that oc mirror delete --generate makes of it", name, d.head.Kind, deleteImageListKind)
	case d.head.Kind != "" && d.head.Kind != deleteImageListKind, d.err == nil && d.head.Kind == "":
		return fmt.Errorf("%s: kind: Invalid value: %q: want %s", name, d.head.Kind, deleteImageListKind)
	case d.err != nil:
		return d.err
	case d.number > MaxLines:
		return fmt.Errorf("%s: more than %s items", name, text.Number(MaxLines))
	case !strings.HasPrefix(d.head.APIVersion, "mirror.openshift.io/"):
		return fmt.Errorf("%s: apiVersion: Invalid value: %q: want mirror.openshift.io/v2alpha1", name, d.head.APIVersion)
	}
	return d.wrong.err()
}

// line takes a line: one that begins a field or, after "items:", an item ends the piece before it. Whatever else
// a line may be belongs to its piece, for the decoder to judge.
func (d *documentReader) line(number int, line []byte) {
	bare := bytes.TrimLeft(line, " ")
	indent := len(line) - len(bare)
	bare = bytes.TrimRight(bare, " \r")
	dash := bytes.HasPrefix(bare, []byte("- ")) || bytes.Equal(bare, []byte("-"))
	switch {
	case len(bare) == 0, bare[0] == '#':
		if len(d.text) == 0 {
			return
		}
	case indent == 0 && (bytes.HasPrefix(bare, []byte("---")) || bytes.Equal(bare, []byte("..."))):
		d.flush()
		if len(d.seen) > 0 && bare[0] == '-' {
			d.fail(fmt.Errorf("%s: more than one document", d.list.name))
		}
		return
	case d.items && dash && (d.indent < 0 || indent == d.indent):
		d.indent = indent
		if len(d.text) > piece {
			d.flush()
		}
	case d.flow, indent == 0 && (bare[0] == '}' || bare[0] == ']'):
	case indent == 0 && (!d.items || !dash):
		d.flush()
		d.flow = bare[0] == '{'
		field, rest, _ := bytes.Cut(bare, []byte(":"))
		if d.seen[string(field)] {
			d.fail(fmt.Errorf("%s, line %d: %q is there twice", d.list.name, number, text.Cut(string(field), maxShown)))
		}
		d.seen[string(field)] = true
		rest = bytes.TrimLeft(rest, " ")
		if d.items, d.indent = string(field) == "items" && (len(rest) == 0 || rest[0] == '#'), -1; d.items {
			return
		}
	}
	if len(d.text) == 0 {
		d.first = number
	}
	d.text = append(append(d.text, line...), '\n')
}

func (d *documentReader) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// flush decodes the piece.
func (d *documentReader) flush() {
	if len(d.text) == 0 {
		return
	}
	var part deleteImageList
	decoder := yaml.NewDecoder(bytes.NewReader(d.text))
	decoder.SetStrict(true)
	var err error
	if d.items {
		err = decoder.Decode(&part.Items)
	} else {
		err = decoder.Decode(&part)
	}
	if err == nil || errors.Is(err, io.EOF) { // Decode ignores text behind the end of a list
		if err = decoder.Decode(new(ignored)); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errors.New("what follows is no part of it")
		}
	}
	if err != nil {
		d.fail(fmt.Errorf("%s, from line %d on: %s", d.list.name, d.first, text.Line(err.Error())))
	}
	d.text = d.text[:0]
	if part.Kind != "" {
		d.head.Kind = part.Kind
	}
	if part.APIVersion != "" {
		d.head.APIVersion = part.APIVersion
	}
	if d.err == nil {
		d.take(part.Items)
	}
}

// take enters items.
func (d *documentReader) take(items []deleteItem) {
	for _, it := range items {
		r, err := parseItem(it.ImageReference)
		if err != nil {
			d.wrong.add("%s: items[%d].imageReference: %v", d.list.name, d.number, err)
		} else {
			d.list.add(r, digestIn(it.ImageName))
		}
		d.number++
	}
}
