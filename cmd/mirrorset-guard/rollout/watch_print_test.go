package rollout

import (
	"io"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
)

// TestForgottenWatchFormat: a format that nobody writes is a mistake.
func TestForgottenWatchFormat(t *testing.T) {
	o := watchOptions{output: cli.Formats("markdown")}
	if _, err := o.printer(cli.Streams{Out: io.Discard}); err == nil {
		t.Error("a watch prints what it cannot")
	}
}
