package readiness

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// TestOnlySource: what nodes get from the source alone is not ready, and is not said to be lost; Markdown has what the table has.
func TestOnlySource(t *testing.T) {
	const ref, at = "quay.io/ocp@sha256:aaa", "m.example.com/ocp@sha256:aaa"
	f := policy.Finding{
		Rule: policy.ImageMissing, Severity: policy.Deny, Image: policy.Image{Ref: ref}, Reason: "no mirror on its route has the image; only the source has it",
		Detail: []string{at + ": answers 404"}, OnlySource: true,
		Copy: &policy.Copy{Image: policy.Image{Ref: ref}, From: []mirrors.Location{{Ref: ref}}, To: mirrors.Location{Ref: at}},
	}
	r := &Readiness{Version: "4.21.3", Asked: "4.21.3", Choice: target.Release{Version: "4.21.3"}, Judged: review.Judged{Judgement: policy.Judgement{Findings: []policy.Finding{f}}}}
	r.Images = []Image{{Image: release.Image{Name: "etcd", Ref: ref}, State: NotReady, Findings: []policy.Finding{f}}, {Image: release.Image{Name: "cli"}, State: Ready}}
	r.Notes = []string{"@team `x` <b>\n*"}
	if got, want := r.Summary(), "2 of 2 images can be pulled by all nodes that need them (1 only from the source, which mirrors are to stand in for)."; got != want || r.Count(NotReady) != 1 {
		t.Errorf("%q, want %q", got, want)
	}
	markdown := r.Answer().Markdown()
	for _, want := range []string{"` etcd: " + ref + " `", "ImageMissing: no mirror", "- m.example.com/ocp@sha256:aaa: answers 404", "To copy what is missing (1 image):", "- ` mirrorset-guard sync --release 4.21.3 `", "- ` skopeo copy ", "> @<!-- -->team &#96;x&#96; &lt;b&gt; &#42;\n"} {
		if !strings.Contains(markdown, want) {
			t.Errorf("there is no %q in\n%s", want, markdown)
		}
	}
	r.Images[0].Findings[0].OnlySource = false
	if got, want := r.Summary(), "1 of 2 images can be pulled by all nodes that need them, 1 cannot."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
