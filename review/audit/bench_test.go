package audit

import (
	"fmt"
	"testing"
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// BenchmarkRecord is what a record adds to the answer about a change of 2,000 images, all of
// them missing: its making and its encoding. The aim for such an answer is 20 ms.
func BenchmarkRecord(b *testing.B) {
	now := time.Now()
	record := review.Record{Facts: policy.Facts{}}
	for i := range 2000 {
		image := policy.Image{Ref: fmt.Sprintf("quay.io/shop/image-%d@sha256:%064d", i, i)}
		mirror, source := mirrors.Location{Ref: fmt.Sprintf("mirror.example.com/shop/image-%d@sha256:%064d", i, i), Depth: mirrors.DepthBlobs}, mirrors.Location{Ref: image.Ref}
		record.Plan.Reroutes = append(record.Plan.Reroutes, policy.Reroute{Image: image, After: mirrors.Route{Sources: []mirrors.PullSource{{Location: mirror}, {Location: source}}}})
		for _, l := range []mirrors.Location{mirror, source} {
			record.Facts[l] = &policy.Fact{Presence: policy.Absent, AsNodes: true, Time: now, Detail: "mirror.example.com answers 404: it does not hold this image"}
			record.Asked = append(record.Asked, l)
		}
		record.Verdict.Findings = append(record.Verdict.Findings, policy.Finding{Rule: "ImageMissing", Severity: policy.Deny, Image: image, Reason: "no mirror holds it", Detail: []string{"one place", "another"}})
	}
	for b.Loop() {
		d := auditv1alpha1.Decision{Time: now, Verdict: "denied"}
		Rest(&d, record, 100)
		if _, err := d.Line(); err != nil {
			b.Fatal(err)
		}
	}
}
