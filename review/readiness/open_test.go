package readiness

import (
	"slices"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// TestOpen: a list of what is missing is whole only if what names images was read; what is itself missing is no doubt, but names more.
func TestOpen(t *testing.T) {
	const image = "quay.io/release@sha256:1"
	missing := func(refs ...string) review.Judged {
		var v policy.Judgement
		for _, ref := range refs {
			v.Findings = append(v.Findings, policy.Finding{Severity: policy.Deny, Image: policy.Image{Ref: ref}, Copy: &policy.Copy{Image: policy.Image{Ref: ref}}})
		}
		return review.Judged{Judgement: v}
	}
	throttled := Problem{AboutImage, Unknown, "the payload could not be read", []string{"quay.io: 429"}}
	for name, tt := range map[string]struct {
		r              Readiness
		unknown, later []string
	}{
		"all was read":                 {Readiness{Image: image, Version: "4.21.3", Problems: []Problem{{AboutConfiguration, NotReady, "a fault", nil}}}, nil, nil},
		"the payload gave no answer":   {Readiness{Image: image, Problems: []Problem{throttled}}, []string{"the payload could not be read: quay.io: 429", "which images the release consists of, as its release image could not be read"}, nil},
		"the release image is missing": {Readiness{Image: image, Judged: missing(image)}, nil, []string{"the release image lists more images: copy it, then run this again"}},
	} {
		if unknown, later := tt.r.Open(); !slices.Equal(unknown, tt.unknown) || !slices.Equal(later, tt.later) {
			t.Errorf("%s: unknown %q, later %q", name, unknown, later)
		}
	}
}
