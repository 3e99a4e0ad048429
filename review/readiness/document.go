package readiness

import (
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
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
