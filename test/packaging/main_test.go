package packaging

import (
	"io"
	"log"
	"os"
	"testing"
)

// TestMain silences Helm, which logs each time that it follows the chart's links to the base.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}
