package main

import (
	"io"
	"testing"
)

// TestForgottenFormat: a format that a command offers, and that nobody writes, is no JSON.
func TestForgottenFormat(t *testing.T) {
	for format, wants := range map[string]bool{"json": true, "yaml": true, "markdown": false, "table": false} {
		o := output{format: format, formats: []string{format}}
		if err := o.write(io.Discard, struct{}{}); (err == nil) != wants {
			t.Errorf("%s: %v", format, err)
		}
	}
	w := watchOptions{output: output{format: "markdown"}}
	if _, err := w.printer(streams{out: io.Discard}); err == nil {
		t.Error("a watch prints what it cannot")
	}
}
