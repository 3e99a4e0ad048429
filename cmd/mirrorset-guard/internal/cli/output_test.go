package cli

import (
	"io"
	"testing"
)

// TestForgottenFormat: a format that a command offers, and that nobody writes, is no JSON.
func TestForgottenFormat(t *testing.T) {
	for format, wants := range map[string]bool{"json": true, "yaml": true, "markdown": false, "table": false} {
		o := Output{Format: format, formats: []string{format}}
		if err := o.Write(io.Discard, struct{}{}); (err == nil) != wants {
			t.Errorf("%s: %v", format, err)
		}
	}
}
