package onedoc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// A Line is one line of a stream of YAML documents.
type Line struct {
	// Text is the line with its line feed, if it has one.
	Text []byte
	// Marker is "---" or "..." where the line ends a document, "" where it is a part of
	// one. After is what follows the marker: the beginning of the next document.
	Marker string
	After  []byte
}

// Lines yields the lines of a stream. An error is the last that it yields; the end of the
// stream is none.
func Lines(r *bufio.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for {
			text, err := r.ReadBytes('\n')
			if len(text) > 0 && !yield(newLine(text), nil) {
				return
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Line{}, err)
				return
			}
		}
	}
}

func newLine(text []byte) Line {
	for _, marker := range []string{"---", "..."} {
		after, found := bytes.CutPrefix(text, []byte(marker))
		if found && (len(after) == 0 || IsBlank(after[0])) {
			return Line{Text: text, Marker: marker, After: after}
		}
	}
	return Line{Text: text}
}

// IsBlank reports whether c may follow a marker, or the dash of an item.
func IsBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
