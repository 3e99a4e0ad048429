package policyfile

import (
	"strings"
	"testing"
)

// TestAttachmentsAliases: a file that aliases make a thousand times as large is one that cannot be read.
func TestAttachmentsAliases(t *testing.T) {
	bomb := "x: &a \"" + strings.Repeat("a", 20_000) + "\"\ny: [" + strings.Repeat("*a,", 1_000) + "]\n"
	if a := newAttachments(map[string][]byte{"a.yaml": []byte(bomb)}); !strings.Contains(a.Broken, "a.yaml cannot be read: its aliases stand for more than 1 MiB") {
		t.Errorf("got %q", a.Broken)
	}
}
