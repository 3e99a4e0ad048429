package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A Stream gives out the values of a text, one after another, without the text being in memory as a whole. It looks no
// closer at a value than it takes to find its end: the caller has to validate it.
type Stream struct {
	from   io.Reader
	buffer []byte
	text   []byte // the end of buffer, which has not been given out
	err    error  // of from
}

// NewStream returns the Stream of a text.
func NewStream(text io.Reader) *Stream { return &Stream{from: text} }

// Peek returns the first byte of what comes next. The error is io.EOF at the end of the text.
func (s *Stream) Peek() (byte, error) {
	for {
		if s.text = trim(s.text); len(s.text) > 0 {
			return s.text[0], nil
		}
		if err := s.read(); err != nil {
			return 0, err
		}
	}
}

// Value returns the value that comes next. It is overwritten by the next call of any method.
func (s *Stream) Value() ([]byte, error) {
	if _, err := s.Peek(); err != nil {
		return nil, inside(err)
	}
	for {
		end := ofValue(s.text)
		if end == 0 {
			return nil, fmt.Errorf("invalid character %q instead of a value", s.text[0])
		}
		if end == len(s.text) { // it may go on
			err := s.read()
			if err == nil {
				continue
			}
			if !errors.Is(err, io.EOF) {
				return nil, err
			}
		}
		value := s.text[:end]
		s.text = s.text[end:]
		return value, nil
	}
}

// Members calls each for every member of the object that comes next. It has to take the value.
func (s *Stream) Members(each func(name string) error) error {
	return s.sequence('{', '}', func() error {
		quoted, err := s.Value()
		if err != nil {
			return err
		}
		var name string
		if err := json.Unmarshal(quoted, &name); err != nil {
			return err
		}
		if err := s.take(':'); err != nil {
			return err
		}
		return each(name)
	})
}

// Elements calls each for every element of the array that comes next. It has to take it.
func (s *Stream) Elements(each func() error) error { return s.sequence('[', ']', each) }

// Rest returns the text that has not been given out.
func (s *Stream) Rest() io.Reader { return io.MultiReader(bytes.NewReader(s.text), s.from) }

func (s *Stream) sequence(begin, end byte, each func() error) error {
	if err := s.take(begin); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := s.Peek()
		if err == nil && c == end {
			return s.take(end)
		}
		if err == nil && !first {
			err = s.take(',')
		}
		if err == nil {
			err = each()
		}
		if err != nil {
			return inside(err)
		}
	}
}

// take takes the byte that comes next, which is to be c.
func (s *Stream) take(c byte) error {
	next, err := s.Peek()
	if err != nil {
		return inside(err)
	}
	if next != c {
		return fmt.Errorf("invalid character %q instead of %q", next, c)
	}
	s.text = s.text[1:]
	return nil
}

// inside returns the error of from inside of a value, which the end of the text must not be.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// minBuffer is how much is read at once, in bytes.
const minBuffer = 64 << 10

// read reads more of the text.
func (s *Stream) read() error {
	if s.err != nil {
		return s.err
	}
	if cap(s.buffer)-len(s.buffer) == 0 {
		// The values given out make room. If that is less than half, the value that comes next is large.
		into := s.buffer[:0]
		if len(s.text) > cap(s.buffer)/2 || cap(s.buffer) == 0 {
			into = make([]byte, 0, max(minBuffer, 2*cap(s.buffer)))
		}
		s.buffer = append(into, s.text...)
	}
	read, err := s.from.Read(s.buffer[len(s.buffer):cap(s.buffer)])
	s.buffer, s.err = s.buffer[:len(s.buffer)+read], err
	s.text = s.buffer[len(s.buffer)-len(s.text)-read:]
	if read > 0 {
		return nil
	}
	return s.err
}
