// Package onedoc turns a YAML document into JSON without losing a part of it.
//
// sigs.k8s.io/yaml, as kubectl and others use it, reads the first value of a text and
// does not check whether there is more: of "{...}\n{...}", which is two documents in
// JSON and invalid in YAML, it silently drops the second. The dropped object may be the one that
// matters.
package onedoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

// ErrMore is the error of JSON if something follows the first value.
var ErrMore = errors.New("more follows the first value: a line with --- has to stand between documents")

// JSON returns text, which is one document of YAML or JSON, as JSON. It fails if a
// part of text would be left out, or if its aliases make a small text a large one.
func JSON(text []byte) ([]byte, error) {
	if trimmed := bytes.TrimSpace(text); json.Valid(trimmed) {
		return bytes.Clone(trimmed), nil // ten times as fast
	}
	if err := checkAliases(text); err != nil {
		return nil, err
	}
	data, err := yaml.YAMLToJSON(text)
	isMapping := err == nil && data[0] == '{'
	if err == nil && (!isMapping || !isBlock(text)) && hasMore(text) {
		return nil, ErrMore
	}
	return data, err
}

// Duplicate returns the error that names keys which text, one document of YAML or JSON,
// has more than once in one mapping. Readers take the last one.
func Duplicate(text []byte) error {
	var value any
	if goyaml.Unmarshal(text, &value) != nil {
		return nil // it is invalid for another reason
	}
	err := goyaml.UnmarshalStrict(text, &value)
	if all, ok := errors.AsType[*goyaml.TypeError](err); ok {
		return errors.New(strings.Join(all.Errors, "; "))
	}
	return err
}

// hasMore reports whether something follows the first value in text.
func hasMore(text []byte) bool {
	decoder := goyaml.NewDecoder(bytes.NewReader(text))
	var value any
	if err := decoder.Decode(&value); err != nil {
		return false // the text is empty
	}
	return !errors.Is(decoder.Decode(&value), io.EOF)
}

// isBlock reports whether text, which begins with a mapping, is written in the usual style:
// keys on separate lines, none of them to the left of the first. Such a mapping extends to
// the end of the text, so there is no need to parse it again to find out.
func isBlock(text []byte) bool {
	if hasOddBreaks(text) {
		return false // "---" may follow one
	}
	column := -1
	for line := range bytes.Lines(text) {
		content := bytes.TrimLeft(line, " ")
		indent := len(line) - len(content)
		content = bytes.TrimSpace(content)
		switch {
		case len(content) == 0 || content[0] == '#':
		case column < 0 && !isLetter(content[0]), indent < column, indent == 0 && isMarker(content):
			return false
		case column < 0:
			column = indent
		}
	}
	return true
}

// isMarker reports whether line may end a document.
func isMarker(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("..."))
}

// hasOddBreaks reports whether text has line breaks that only YAML recognizes.
func hasOddBreaks(text []byte) bool {
	if bytes.Count(text, []byte("\r")) != bytes.Count(text, []byte("\r\n")) {
		return true
	}
	return slices.ContainsFunc([]string{"\u0085", "\u2028", "\u2029"}, func(odd string) bool { return bytes.Contains(text, []byte(odd)) })
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
