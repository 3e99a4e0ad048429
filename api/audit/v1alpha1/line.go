package v1alpha1

import (
	"bytes"
	"encoding/json"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Line returns d as a line with its line feed. Everything that does not print is escaped.
func (d Decision) Line() ([]byte, error) {
	d.APIVersion, d.Kind = APIVersion, Kind
	return lineOf(d)
}

// Line returns l as a line with its line feed.
func (l Loss) Line() ([]byte, error) {
	l.APIVersion, l.Kind = APIVersion, LossKind
	return lineOf(l)
}

// Line returns c as a line with its line feed.
func (c Confirmation) Line() ([]byte, error) {
	c.APIVersion, c.Kind = APIVersion, ConfirmationKind
	return lineOf(c)
}

func lineOf(record any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // & and < are common in messages, and harmless here
	if err := encoder.Encode(record); err != nil {
		return nil, err
	}
	return text.JSON(b.Bytes()), nil
}
