package snapshot

import (
	"bufio"
	"bytes"
	"iter"

	"github.com/mirrorset-guard/mirrorset-guard/internal/onedoc"
	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
)

// yamlParts yields the documents of a stream of YAML, numbered from first, and the items of lists one by one. A part that
// is not YAML does not keep the next one from being read.
//
// Lists are split by lines, in the form in which all tools print them: "items:" in the
// first column, and each item begun by a dash in one and the same column. Parsing a list of
// 30 MB as a whole takes 1 GB of memory; item by item takes a tenth of that. Only an alias
// to an anchor in another item, which no tool writes, cannot be read in this manner.
func yamlParts(r *bufio.Reader, first int, isOfUse func(kind string) bool) iter.Seq[part] {
	return func(yield func(part) bool) {
		s := splitter{yield: yield, isOfUse: isOfUse, document: first, column: noList}
		for line, err := range onedoc.Lines(r) {
			if err != nil {
				s.emit(part{err: err, lost: true}) // and what follows is lost
				return
			}
			if s.line(line); s.stopped {
				return
			}
		}
		s.endDocument()
	}
}

// A splitter takes lines of YAML and yields parts.
type splitter struct {
	yield    func(part) bool
	isOfUse  func(kind string) bool
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

func (s *splitter) line(l onedoc.Line) {
	if l.Marker != "" {
		s.endDocument()
		s.rest = append(s.rest, l.After...)
		return
	}
	line := l.Text
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
		line[column] = ' ' // the rest is a document of its own
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
	s.convert(s.items, s.current, s.column+len("- "))
	s.current = s.current[:0]
}

func (s *splitter) endDocument() {
	s.endItem()
	if s.convert(0, s.rest, 0) || s.items > 0 {
		s.document++
	}
	s.items, s.column, s.rest = 0, noList, s.rest[:0]
}

// convert yields text, whose outermost keys stand in column, as JSON. It reports
// false if there is nothing in it but comments.
func (s *splitter) convert(item int, text []byte, column int) bool {
	if kind := kindIn(text, column); kind != "" && (!s.isOfUse(kind) || kind == configMapKind.Kind && !isConfigMapOfUse(text)) {
		s.emit(part{item: item, kind: kind})
		return true
	}
	data, err := onedoc.JSON(text)
	switch {
	case bytes.Equal(data, []byte("null")) && s.items == 0:
		return false
	case err != nil:
		s.emit(part{item: item, err: err, lost: s.items > 0 || couldBeObject(text)})
	case item > 0:
		s.emit(part{item: item, data: data})
	default:
		document := jsonSplitter{Stream: rawjson.NewStream(bytes.NewReader(data)), document: s.document, yield: func(p part) bool {
			s.emit(p)
			return !s.stopped
		}}
		_ = document.value() // it is valid
	}
	return true
}

// kindIn returns the kind of an object without parsing it, or "" if it is not as plain to
// see as usual. Most objects in a must-gather are events, and parsing YAML proceeds at 5 MB
// a second.
func kindIn(text []byte, column int) string {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		if i, _, _ := indentation(line); i != column {
			continue
		}
		value, found := bytes.CutPrefix(line[column:], []byte("kind: "))
		if found && isWord(value) {
			return string(value)
		}
	}
	return ""
}

func isWord(text []byte) bool {
	for _, c := range text {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(text) > 0
}

func (s *splitter) emit(p part) {
	if !s.stopped {
		p.document = s.document
		s.stopped = !s.yield(p)
	}
}

// indentation returns the column of the first text of line, and whether it is a
// dash that begins an item. Blank lines and comments have no text.
func indentation(line []byte) (column int, isDash, isText bool) {
	column = len(line) - len(bytes.TrimLeft(line, " "))
	text := line[column:]
	if isBlank(text) {
		return column, false, false
	}
	isDash = text[0] == '-' && (len(text) == 1 || onedoc.IsBlank(text[1]))
	return column, isDash, true
}

func isBlank(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || text[0] == '#'
}
