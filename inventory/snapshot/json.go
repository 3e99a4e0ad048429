package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
)

// jsonParts yields the parts of a stream of JSON. It ends with the first error: where the next value begins is not known then. A
// stream whose values stand between lines with --- is YAML from the first such line on.
func jsonParts(r io.Reader, isOfUse func(kind string) bool) iter.Seq[part] {
	return func(yield func(part) bool) {
		s := jsonSplitter{Stream: rawjson.NewStream(r), yield: yield}
		for s.document = 1; ; s.document++ {
			c, err := s.Peek()
			if errors.Is(err, io.EOF) {
				return
			}
			if c == '-' {
				yamlParts(bufio.NewReader(s.Rest()), s.document, isOfUse)(yield)
				return
			}
			if err := s.value(); err != nil {
				s.failed(err)
				return
			}
		}
	}
}

// A jsonSplitter takes values of JSON and yields parts.
type jsonSplitter struct {
	*rawjson.Stream
	yield    func(part) bool
	document int
	items    int
	rest     []byte // the members of the document but for its items
}

// errStopped ends a splitter whose caller wants no more parts.
var errStopped = errors.New("no more is wanted")

// value yields the parts of the value that comes next.
func (s *jsonSplitter) value() error {
	s.items, s.rest = 0, nil
	switch c, err := s.Peek(); {
	case err != nil:
		return err
	case c == '{':
		return s.object()
	case c == '[':
		return s.array()
	}
	if _, err := s.valid(); err != nil {
		return err
	}
	return s.emit(part{data: []byte("{}")})
}

func (s *jsonSplitter) object() error {
	s.rest = append(s.rest, '{')
	err := s.Members(func(name string) error {
		if len(s.rest) > 1 {
			s.rest = append(s.rest, ',')
		}
		quoted, _ := json.Marshal(name)
		s.rest = append(append(s.rest, quoted...), ':')
		if c, _ := s.Peek(); c == '[' && name == "items" {
			s.rest = append(s.rest, "[]"...)
			list, _ := headerOf(append(s.rest, '}'))
			return s.Elements(func() error { return s.item(list) })
		}
		value, err := s.valid()
		s.rest = append(s.rest, value...)
		return err
	})
	if err != nil {
		return err
	}
	return s.emit(part{data: append(s.rest, '}')})
}

func (s *jsonSplitter) item(list header) error {
	value, err := s.Value()
	if err != nil {
		return err
	}
	s.items++
	return s.emit(part{item: s.items, list: list, data: value})
}

// array takes an array: of numbers and the like, as must-gathers have them, or of objects.
func (s *jsonSplitter) array() error {
	p := part{data: []byte("{}")}
	err := s.Elements(func() error {
		value, err := s.valid()
		if h, _ := headerOf(value); h.couldBe {
			p.err, p.lost = errForm, true
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.emit(p)
}

// valid returns the value that comes next.
func (s *jsonSplitter) valid() ([]byte, error) {
	value, err := s.Value()
	if err == nil {
		err = valid(value)
	}
	return value, err
}

// valid returns the error of a value, nil if it has none.
func valid(value []byte) error {
	if json.Valid(value) {
		return nil
	}
	return json.Unmarshal(value, new(json.RawMessage))
}

func (s *jsonSplitter) emit(p part) error {
	p.document = s.document
	if !s.yield(p) {
		return errStopped
	}
	return nil
}

// failed yields an error. The rest of the text is lost.
func (s *jsonSplitter) failed(err error) {
	if errors.Is(err, errStopped) {
		return
	}
	after, _ := io.ReadAll(io.LimitReader(s.Rest(), maxLost))
	lost := s.document > 1 || s.items > 0 || couldBeObject(s.rest) || couldBeObject(after)
	_ = s.emit(part{err: err, lost: lost})
}

// maxLost bounds the text after an error that is searched for objects, in bytes.
const maxLost = 64 << 20

// couldBeObject reports whether text that could not be read may have had an object in it.
func couldBeObject(text []byte) bool {
	plain := bytes.ReplaceAll(text, []byte{0}, nil) // also of UTF-16, as Windows writes it
	return bytes.Contains(plain, []byte("apiVersion"))
}
