package review

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
)

// Document returns r as JSON.
func (r Record) Document() v1alpha1.Review {
	d := r.Judged().document(r.Subject, r.Notes, r.Took)
	d.Allowed, d.Summary, d.Mode = r.Verdict.Allowed, words.Summary(r.Verdict, r.Subject), r.Verdict.Mode.String()
	d.Warnings = append(d.Warnings, r.Warnings()...)
	if d.Allowed {
		d.Waived = r.Refusal
	} else {
		d.Message = r.Refusal
	}
	d.Forecast = forecastDocument(r.Forecast)
	return d
}

func findingDocument(f policy.Finding) v1alpha1.Finding {
	return v1alpha1.Finding{
		Rule: f.Rule, Severity: f.Severity.String(), Image: f.Image.Ref, Reason: f.Reason,
		Detail: strings.Join(f.Detail, "\n"), Remedy: strings.Join(f.Remedy, "\n"), Consumers: ConsumerDocuments(f.Image),
		Exemptions: f.Exemptions,
	}
}

// FindingDocuments returns findings as JSON.
func FindingDocuments(findings []policy.Finding) []v1alpha1.Finding {
	return append([]v1alpha1.Finding{}, convert.Each(findings, findingDocument)...)
}

// ConsumerDocuments returns the consumers of img as JSON.
func ConsumerDocuments(img policy.Image) []v1alpha1.Consumer {
	consumers := []v1alpha1.Consumer{}
	for _, c := range img.Consumers {
		consumers = append(consumers, v1alpha1.Consumer{
			Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Container: c.Container, Use: c.Use.String(), Digest: c.Digest, Guessed: c.Guessed,
		})
	}
	return consumers
}

// InventoryDocument returns images as JSON.
func InventoryDocument(images []policy.Image) v1alpha1.Inventory {
	doc := v1alpha1.Inventory{APIVersion: v1alpha1.APIVersion, Kind: "Inventory", Images: []v1alpha1.InventoryImage{}}
	for _, img := range images {
		doc.Images = append(doc.Images, v1alpha1.InventoryImage{Image: img.Ref, Consumers: ConsumerDocuments(img)})
	}
	return doc
}

// RouteDocument returns route as JSON, with what facts say of its places.
func RouteDocument(route mirrors.Route, facts policy.Facts) v1alpha1.Route {
	r := v1alpha1.Route{Entry: route.Entry, Sources: []v1alpha1.Source{}, Refused: route.Refused}
	if route.Err != nil {
		r.Error = route.Err.Error()
	}
	for _, s := range route.Sources {
		source := v1alpha1.Source{Reference: s.Ref, Mirror: s.Mirror, Blocked: s.Blocked, Insecure: s.Insecure, Refused: s.Refused}
		if f, ok := facts[s.Location]; ok && !s.Blocked {
			source.Fact = factDocument(f)
			source.Fact.Blobs = s.Depth == mirrors.DepthBlobs
			source.Signatures = convert.Each(evidence.SignaturesAt(s, facts), func(s evidence.SignatureFinding) v1alpha1.Signature {
				return v1alpha1.Signature{Platform: s.Platform, Digest: s.Digest, Reference: s.At.Ref, State: s.State, Detail: s.Detail}
			})
		}
		source.Required, source.LooksForSignatures = requiredDocument(s.Trust), s.Attachments
		r.Sources = append(r.Sources, source)
	}
	return r
}

func requiredDocument(trust *policyfile.Trust) *v1alpha1.Required {
	if trust == nil {
		return nil
	}
	required := &v1alpha1.Required{Scope: trust.Scope, Policies: append([]string{}, trust.Policies...), Requirements: []string{}}
	for _, r := range trust.Requirements.List() {
		required.Requirements = append(required.Requirements, r.String())
	}
	return required
}

func factDocument(f *policy.Fact) *v1alpha1.Fact {
	d := &v1alpha1.Fact{Presence: f.Presence.String(), Digest: f.Digest, Platforms: f.Serves, Lacking: slices.Concat(f.Missing, f.Lacks), Detail: f.Detail, Assumed: f.Assumed}
	if !f.Time.IsZero() {
		t := f.Time.UTC()
		d.Time = &t
	}
	return d
}
