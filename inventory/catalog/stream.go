package catalog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/mirrorset-guard/mirrorset-guard/internal/onedoc"
)

// objectsOf hands the objects of a file to take, one after the other, with what makes JSON of them. The file is JSON if it
// begins with a brace, and YAML if not, as opm takes it (k8s.io/apimachinery, util/yaml).
func objectsOf(content io.Reader, take func([]byte, func([]byte) ([]byte, error)) error) error {
	r := bufio.NewReaderSize(content, 64<<10)
	for {
		c, err := r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			continue
		}
		if err := r.UnreadByte(); err != nil {
			return err
		}
		if c == '{' {
			return jsonObjects(r, take)
		}
		return yamlObjects(r, take)
	}
}

var errTooLarge = fmt.Errorf("an object in it has more than %d MiB", maxObject>>20)

// A limited reader reads no more than left bytes, until that is set anew.
type limited struct {
	from io.Reader
	left int
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLarge
	}
	n, err := l.from.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

func jsonObjects(r io.Reader, take func([]byte, func([]byte) ([]byte, error)) error) error {
	l := &limited{r, maxObject}
	var data json.RawMessage // its memory serves the next one too
	for decoder := json.NewDecoder(l); ; {
		switch err := decoder.Decode(&data); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("it cannot be read: %w", err)
		}
		l.left = maxObject
		if err := take(data, func(data []byte) ([]byte, error) { return data, nil }); err != nil {
			return err
		}
	}
}

func yamlObjects(r *bufio.Reader, take func([]byte, func([]byte) ([]byte, error)) error) error {
	var document bytes.Buffer
	end := func() error {
		data := bytes.TrimSpace(document.Bytes())
		defer document.Reset()
		if len(data) == 0 {
			return nil
		}
		return take(data, ofYAML)
	}
	for begins := true; ; {
		line, err := r.ReadSlice('\n')
		if begins && isSeparator(line) {
			if err := end(); err != nil {
				return err
			}
			line = line[len(separator):]
		}
		if document.Len()+len(line) > maxObject {
			return errTooLarge
		}
		document.Write(line)
		begins = err == nil
		switch {
		case errors.Is(err, io.EOF):
			return end()
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

var separator = []byte("---")

// isSeparator reports whether a document begins with a line.
func isSeparator(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, separator)
	return ok && (len(rest) == 0 || bytes.ContainsRune([]byte(" \t\r\n"), rune(rest[0])))
}

func ofYAML(data []byte) ([]byte, error) {
	var object json.RawMessage
	if err := onedoc.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	return object, nil
}
