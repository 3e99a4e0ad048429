// Package rawjson looks into JSON without decoding it.
//
// A decoder makes values of all that a text holds, which takes many times the memory of the
// text: two and a half million empty objects in a text of 7 MB become a gigabyte of maps. This
// package gives out parts of the text as it is, so that a caller can look at what matters, count,
// and decode no more than it wants to. It allocates next to nothing.
//
// Texts have to be valid (encoding/json.Valid); of others the functions return something, and do
// not panic.
package rawjson

import (
	"bytes"
	"encoding/json"
	"iter"
)

// Members yields the names and values of an object, in their order; of anything else it yields
// nothing. A name is valid until the next one is yielded.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		rest, ok := open(object, '{')
		for ok && len(rest) > 0 && rest[0] == '"' {
			end := ofString(rest)
			name := unquote(rest[:end])
			rest = trim(rest[end:])
			if len(rest) == 0 || rest[0] != ':' {
				return
			}
			rest = trim(rest[1:])
			end = ofValue(rest)
			if !yield(name, rest[:end]) {
				return
			}
			rest, ok = next(rest[end:])
		}
	}
}

// Elements yields those of an array, in their order; of anything else it yields nothing.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		rest, ok := open(array, '[')
		for ok && len(rest) > 0 && rest[0] != ']' {
			end := ofValue(rest)
			if end == 0 || !yield(rest[:end]) {
				return
			}
			rest, ok = next(rest[end:])
		}
	}
}

// Values counts the values that a value holds, itself included. It stops at most.
func Values(value []byte, most int) int {
	n, value := 1, trim(value)
	for i := 0; i < len(value) && n < most; {
		switch value[i] {
		case '"':
			i += ofString(value[i:])
			continue
		case ',':
			n++
		case '[', '{':
			if inner := trim(value[i+1:]); len(inner) > 0 && inner[0] != ']' && inner[0] != '}' {
				n++
			}
		}
		i++
	}
	return n
}

// open returns what follows the first byte of a value, and whether that is the one that is
// wanted.
func open(value []byte, want byte) (rest []byte, ok bool) {
	value = trim(value)
	if len(value) == 0 || value[0] != want {
		return nil, false
	}
	return trim(value[1:]), true
}

// next returns what follows the comma at the beginning of rest, if there is one.
func next(rest []byte) ([]byte, bool) {
	rest = trim(rest)
	if len(rest) == 0 || rest[0] != ',' {
		return nil, false
	}
	return trim(rest[1:]), true
}

// ofValue returns the length of the value at the beginning of rest.
func ofValue(rest []byte) int {
	if len(rest) == 0 {
		return 0
	}
	switch rest[0] {
	case '"':
		return ofString(rest)
	case '{', '[':
		return ofComposite(rest)
	}
	if end := bytes.IndexAny(rest, ",]} \t\r\n"); end >= 0 {
		return end
	}
	return len(rest)
}

// ofComposite returns the length of the object or array at the beginning of rest.
func ofComposite(rest []byte) int {
	depth := 0
	for i := 0; i < len(rest); {
		switch rest[i] {
		case '"':
			i += ofString(rest[i:])
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(rest)
}

// ofString returns the length of the string at the beginning of rest, with its quotes.
func ofString(rest []byte) int {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(rest)
}

// unquote returns what a string with its quotes says.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 && len(quoted) >= 2 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it is valid
	return []byte(s)
}

func trim(value []byte) []byte { return bytes.TrimLeft(value, " \t\r\n") }
