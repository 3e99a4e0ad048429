package snapshot

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"

	"sigs.k8s.io/yaml"
)

// yamlParts yields the documents of a stream of YAML, and the items of lists
// one by one. What is not YAML does not keep the next part from being read.
//
// Lists are taken apart by their lines, as everything in the world prints them:
// "items:" in the first column, and each item begun by a dash in one and the
// same column. To parse a list of 30 MB as a whole takes 1 GB of memory, item
// by item a tenth of it. Only an alias to an anchor in another item, which no
// tool writes, cannot be read this way.
func yamlParts(r *bufio.Reader) iter.Seq[part] {
	return func(yield func(part) bool) {
		s := splitter{yield: yield, document: 1, column: noList}
		for !s.stopped {
			line, err := r.ReadBytes('\n')
			if len(line) > 0 {
				s.line(line)
			}
			if errors.Is(err, io.EOF) {
				s.endDocument()
				return
			}
			if err != nil {
				s.emit(0, nil, err)
				return
			}
		}
	}
}

// A splitter takes lines of YAML and yields parts.
type splitter struct {
	yield    func(part) bool
	stopped  bool // yield wants no more
	document int
	items    int
	column   int    // of the dashes of the list that is being read, or one of the two below
	rest     []byte // the lines of the document that do not belong to items
	current  []byte // the lines of the item
}

// Values of column that are no columns.
const (
	noList   = -1
	someList = -2 // "items:" has been read, its first dash has not
)

func (s *splitter) line(line []byte) {
	if after, ok := isSeparator(line); ok {
		s.endDocument()
		s.rest = append(s.rest, after...)
		return
	}
	column, isDash, isText := indentation(line)
	if s.column == someList && isText {
		s.beginList(column, isDash)
	}
	switch {
	case s.column < 0 && bytes.HasPrefix(line, []byte("items:")) && isBlank(line[len("items:"):]):
		s.column = someList
	case s.column < 0:
		s.rest = append(s.rest, line...)
	case isText && column == s.column && isDash:
		s.endItem()
		line[column] = ' ' // what follows the dash is a document of its own
		s.current = append(s.current, line...)
	case isText && column <= s.column:
		s.endItem()
		s.column = noList
		s.rest = append(s.rest, line...)
	default:
		s.current = append(s.current, line...)
	}
}

// beginList takes the first line with text after "items:".
func (s *splitter) beginList(column int, isDash bool) {
	if isDash {
		s.column = column
		return
	}
	s.column = noList // it is null, or not a list
	s.rest = append(s.rest, "items:\n"...)
}

func (s *splitter) endItem() {
	if len(s.current) == 0 {
		return
	}
	s.items++
	data, err := yaml.YAMLToJSON(s.current)
	s.emit(s.items, data, err)
	s.current = nil // what was yielded may have been kept
}

func (s *splitter) endDocument() {
	s.endItem()
	data, err := yaml.YAMLToJSON(s.rest)
	if s.items > 0 || !bytes.Equal(data, []byte("null")) { // else nothing but comments
		s.emit(0, data, err)
	}
	s.document++
	s.items, s.column, s.rest = 0, noList, nil
}

func (s *splitter) emit(item int, data []byte, err error) {
	if !s.stopped {
		s.stopped = !s.yield(part{document: s.document, item: item, data: data, err: err})
	}
}

// isSeparator reports whether line ends a document, and returns what it begins
// the next one with.
func isSeparator(line []byte) (after []byte, ok bool) {
	for _, marker := range []string{"---", "..."} {
		after, found := bytes.CutPrefix(line, []byte(marker))
		if found && (len(after) == 0 || bytes.IndexByte([]byte(" \t\r\n"), after[0]) >= 0) {
			return after, true
		}
	}
	return nil, false
}

// indentation returns the column of the first text of line, and whether it is a
// dash that begins an item. Blank lines and comments have no text.
func indentation(line []byte) (column int, isDash, isText bool) {
	column = len(line) - len(bytes.TrimLeft(line, " "))
	text := line[column:]
	if isBlank(text) {
		return column, false, false
	}
	return column, text[0] == '-' && (isBlank(text[1:]) || text[1] == ' '), true
}

func isBlank(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || text[0] == '#'
}
