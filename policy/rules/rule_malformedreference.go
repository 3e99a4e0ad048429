package rules

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// MalformedReference: no node can parse the reference, so none can pull the image, whatever the
// mirrors. It only warns, as no change of the mirror configuration can make that worse.
func malformedReference(p plan.Plan, _ policy.Facts) []policy.Finding {
	var findings []policy.Finding
	for _, img := range p.Malformed {
		findings = append(findings, policy.Finding{
			Severity: policy.Warn, Image: img,
			Reason: "no node can parse the reference", Remedy: []string{"correct the reference where it is used"},
		})
	}
	return findings
}
