package inspect

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

func TestSummary(t *testing.T) {
	var findings []policy.Finding
	for range 9 {
		findings = append(findings, policy.Finding{Rule: "ImageMissing", Severity: policy.Deny})
	}
	findings = append(findings, policy.Finding{Rule: "TagDrift", Severity: policy.Warn})
	if got := withSummary("refused\n\n1. a\n", findings); got != "refused\n\n1. a\n" {
		t.Errorf("ten findings: %q", got)
	}
	findings = append(findings, policy.Finding{Rule: "ImageMissing", Severity: policy.Warn})
	want := "refused\n\n  deny  ImageMissing  9  " + strings.Repeat("█", 19) + "\n  warn  TagDrift      1  ██\n  warn  ImageMissing  1  ██\n\n1. a\n"
	if got := withSummary("refused\n\n1. a\n", findings); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
