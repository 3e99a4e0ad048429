// Package strictjson decodes JSON without losing any of it: formats of the guard itself, where an
// unknown field comes from a later version, and may change what the rest means.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrUnknownField is wrapped by the error of Unmarshal for a field that the type does not have.
var ErrUnknownField = errors.New("unknown field")

// unknownField is how encoding/json reports one, which has no error of its own.
const unknownField = "json: unknown field "

// Unmarshal is json.Unmarshal, but that an unknown field is an error.
func Unmarshal(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		if name, found := strings.CutPrefix(err.Error(), unknownField); found {
			return fmt.Errorf("%w %s", ErrUnknownField, name)
		}
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}
