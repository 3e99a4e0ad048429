package input

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A source is a file that is being read.
type source struct {
	merger *merger
	name   string
	number int // of the path, from 0
	file   io.Closer
	lines  *bufio.Reader
	line   int // the number of the last line that was read
	buffer []byte
	record Record
	latest time.Time
	ended  bool
}

const (
	bufferSize = 64 << 10
	// maxLine is more than an event of the API server has with objects of 3 MiB in it.
	maxLine = 16 << 20
)

func (m *merger) open(path string) (*source, error) {
	s := &source{merger: m, name: path, number: m.stats.Files}
	var from io.Reader
	if path == "-" {
		s.name, s.file, from = "standard input", io.NopCloser(nil), m.reader.Stdin
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		s.file, from = f, f
	}
	s.lines = bufio.NewReaderSize(from, bufferSize)
	if magic, _ := s.lines.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // RFC 1952, 2.3.1
		unpacked, err := gzip.NewReader(s.lines)
		if err != nil {
			s.trouble("the compressed data cannot be read: %v", err)
			s.ended = true
			return s, nil
		}
		s.lines = bufio.NewReaderSize(unpacked, bufferSize)
	}
	return s, nil
}

func (s *source) close() error { return s.file.Close() }

// trouble reports something about the last line that was read.
func (s *source) trouble(format string, args ...any) {
	s.merger.stats.Troubles++
	if s.merger.reader.Trouble != nil {
		s.merger.reader.Trouble(Trouble{File: text.Line(s.name), Line: s.line, What: text.Line(fmt.Sprintf(format, args...))})
	}
}

// next reads lines until one holds a record, and reports whether there is one.
func (s *source) next() bool {
	for !s.ended {
		line, whole := s.readLine()
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		s.merger.stats.Lines++
		if s.read(line, whole) {
			return true
		}
	}
	return false
}

// readLine returns the next line, and whether its line feed was there. It is valid until the next
// call. A line that is too long is reported, and nothing is returned.
func (s *source) readLine() (line []byte, whole bool) {
	s.buffer = s.buffer[:0]
	s.line++
	tooLong := false
	for {
		part, err := s.lines.ReadSlice('\n')
		if tooLong = tooLong || len(s.buffer)+len(part) > maxLine; tooLong {
			s.buffer = s.buffer[:0]
		} else if errors.Is(err, bufio.ErrBufferFull) || len(s.buffer) > 0 || err != nil {
			s.buffer, part = append(s.buffer, part...), nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case tooLong:
			s.trouble("the line has more than %d MiB", maxLine>>20)
			s.ended = err != nil
			return nil, false
		case err == nil && part != nil:
			return part, true
		case err == nil:
			return s.buffer, true
		default:
			return s.end(err), false
		}
	}
}

// end returns what is left of a file after its last line feed.
func (s *source) end(err error) []byte {
	s.ended = true
	switch {
	case errors.Is(err, io.EOF):
		return s.buffer
	case errors.Is(err, io.ErrUnexpectedEOF):
		s.trouble("the compressed data ends here, in the middle; what follows is missing")
	default:
		s.trouble("what follows cannot be read: %v", err)
	}
	return nil
}

// read sets the record to what line tells, and reports whether it tells anything.
func (s *source) read(line []byte, whole bool) bool {
	object := withoutPrefix(line)
	if object == nil || object[len(object)-1] != '}' {
		s.trouble("%s", incomplete(object, whole))
		return false
	}
	record, err := s.merger.reader.decode(object)
	switch {
	case err != nil && !whole:
		s.trouble("the file ends in half a line")
	case err != nil:
		s.trouble("%v", err)
	case record == nil:
		s.merger.stats.Others++
	default:
		s.take(*record)
		return true
	}
	return false
}

func (s *source) take(r Record) {
	s.record = r
	if r.Decision.Time.Before(s.latest) {
		s.merger.stats.Backwards++
		return
	}
	s.latest = r.Decision.Time
}

// maxPrefix is as long as what tools put before a line: a time, the name of a node or a pod.
const maxPrefix = 300

// withoutPrefix returns the JSON object in line, without what tools put before it; nil if there is
// none. `oc adm node-logs` puts the name of a node there, and logs of pods have a time.
func withoutPrefix(line []byte) []byte {
	at := bytes.IndexByte(line, '{')
	if at < 0 || at > maxPrefix || bytes.IndexByte(line[:at], '"') >= 0 {
		return nil
	}
	return line[at:]
}

// incomplete says what is wrong with a line that is no object.
func incomplete(object []byte, whole bool) string {
	switch {
	case !whole:
		return "the file ends in half a line"
	case object == nil:
		return "this is not a JSON object"
	default:
		return "the line is not complete"
	}
}
