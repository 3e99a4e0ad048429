package readiness

import (
	"io"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// Document returns r as JSON.
func (r *Readiness) Document() v1alpha1.ReleaseReview {
	doc := v1alpha1.ReleaseReview{
		APIVersion: v1alpha1.APIVersion, Kind: "ReleaseReview", Verdict: r.State().String(), Summary: r.Summary(), Version: r.Version, Image: r.imageOrChoice(), Chosen: r.Choice.Why,
		ReadFrom: r.ReadAt.Ref, Platform: r.Platform,
		Counts: v1alpha1.ReleaseCounts{Images: len(r.Images), Ready: r.Count(Ready), NotReady: r.Count(NotReady), Unknown: r.Count(Unknown)},
		Signature: v1alpha1.ReleaseSignature{
			State: r.Signature.State.String(), Reason: r.Signature.Reason, Detail: r.Signature.Detail, Remedy: r.Signature.Remedy,
		},
		Problems: []v1alpha1.ReleaseProblem{}, Images: []v1alpha1.ReleaseImage{}, Risks: append([]string{}, r.Choice.Risks...), Unchecked: r.unchecked(), Remedy: r.remedy(),
		Notes: append([]string{}, r.Notes...), Seconds: r.Took.Seconds(),
	}
	for _, p := range r.Problems {
		doc.Problems = append(doc.Problems, v1alpha1.ReleaseProblem{About: p.About, State: p.State.String(), Reason: p.Reason, Detail: p.Detail})
	}
	for i := range r.Images {
		doc.Images = append(doc.Images, r.Images[i].document())
	}
	if g := r.Gate; g != nil {
		doc.Acknowledgement = &v1alpha1.Acknowledgement{Key: g.Key, Text: g.Text, Given: g.Given, Command: g.Command()}
	}
	return doc
}

func (r *Readiness) imageOrChoice() string {
	if r.Image == "" {
		return r.Choice.Image
	}
	return r.Image
}

func (i *Image) document() v1alpha1.ReleaseImage {
	doc := v1alpha1.ReleaseImage{Name: i.Name, Image: i.Ref, Pools: i.Pools, State: i.State.String(), At: i.At, SignatureRequired: i.Required}
	if i.Level != release.NoLevel {
		doc.RunLevel = &i.Level
	}
	for _, s := range i.Signatures {
		doc.Signatures = append(doc.Signatures, v1alpha1.Signature{Platform: s.Platform, Digest: s.Digest, Reference: s.At.Ref, State: s.State, Detail: s.Detail})
	}
	if len(i.Findings) > 0 {
		doc.Findings = review.FindingDocuments(i.Findings)
	}
	return doc
}

// WriteJUnit writes r as a JUnit test suite: a case for each image, for the release image's GPG signature, and
// for the release as a whole, with what was not checked. A case that is not ready, or not known, fails.
func (r *Readiness) WriteJUnit(w io.Writer) error {
	cases := []review.TestCase{{Class: "release", Name: "the GPG signature", Output: r.Signature.Reason + "\n"}}
	if s := r.Signature; s.State != Ready {
		cases[0].Output, cases[0].Failed, cases[0].Message, cases[0].Text = "", s.State.String(), s.Reason, strings.Join(append(append([]string{}, s.Detail...), s.Remedy), "\n")
	}
	for _, about := range []string{AboutConfiguration, AboutImage} {
		if c, failed := r.problemCase(about); failed || about == AboutConfiguration {
			cases = append(cases, c)
		}
	}
	for i := range r.Images {
		cases = append(cases, r.Images[i].testCase())
	}
	return review.WriteTestCases(w, "mirrorset-guard: "+r.Title(), r.Took, cases)
}

// problemCase is about the problems of one kind, and reports whether there are any.
func (r *Readiness) problemCase(about string) (c review.TestCase, failed bool) {
	c = review.TestCase{Class: "release", Name: about}
	if about == AboutConfiguration {
		c.Output = "Not checked:\n" + strings.Join(r.unchecked(), "\n") + "\n"
	}
	state := Ready
	for _, p := range r.Problems {
		if p.About == about {
			failed = true
			if w := worst([]State{state, p.State}); w != state {
				state, c.Failed, c.Message = w, w.String(), p.Reason
			}
			c.Text += p.Reason + "\n" + strings.Join(p.Detail, "\n") + "\n"
		}
	}
	return c, failed
}

func (i *Image) testCase() review.TestCase {
	c := review.TestCase{Class: "image", Name: i.Title() + " " + i.Ref}
	said := i.says()
	if i.State == Ready {
		c.Output = said
		return c
	}
	c.Failed, c.Message, c.Text = i.State.String(), i.reason(), said
	return c
}

// says gives the findings of an image in full.
func (i *Image) says() string {
	var b strings.Builder
	for _, f := range i.Findings {
		b.WriteString(f.Rule + ": " + text.Line(f.Reason) + "\n")
		for _, line := range append(append([]string{}, f.Detail...), f.Remedy...) {
			b.WriteString(text.Line(line) + "\n")
		}
	}
	return b.String()
}
