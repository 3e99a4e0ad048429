package review

import (
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// A Judged holds the judgement on images with the plan and the facts that it rests on, whatever the question was.
type Judged struct {
	Plan      plan.Plan
	Facts     policy.Facts
	Judgement policy.Judgement
}

// Judged returns what the images of r were judged by.
func (r Record) Judged() Judged { return Judged{r.Plan.Plan, r.Facts, r.Verdict.Judgement} }

// Judged returns what the images of s were judged by.
func (s Standing) Judged() Judged { return Judged{s.Plan.Plan, s.Facts, s.Verdict.Judgement} }

// document returns what reviews have in common as JSON.
func (j Judged) document(subject string, notes []string, took time.Duration) v1alpha1.Review {
	d := v1alpha1.Review{
		APIVersion: v1alpha1.APIVersion,
		Kind:       "Review",
		Subject:    subject,
		Warnings:   []string{},
		Findings:   FindingDocuments(j.Judgement.Findings),
		Images:     v1alpha1.Counts(j.Judgement.Counts),
		Rerouted:   []v1alpha1.Rerouted{},
		Notes:      append([]string{}, notes...),
		Seconds:    took.Seconds(),
	}
	image := -1 // among the results
	for i, reroute := range j.Plan.Reroutes {
		if i == 0 || reroute.Image.Ref != j.Plan.Reroutes[i-1].Image.Ref {
			image++
		}
		result := policy.ResultUnverified
		if image < len(j.Judgement.Results) {
			result = j.Judgement.Results[image]
		}
		d.Rerouted = append(d.Rerouted, v1alpha1.Rerouted{
			Image: reroute.Image.Ref, Before: RouteDocument(reroute.Before, j.Facts), After: RouteDocument(reroute.After, j.Facts),
			BeforeUnknown: reroute.BeforeUnknown, Pools: reroute.Pools, Result: result.String(), Consumers: ConsumerDocuments(reroute.Image),
		})
	}
	return d
}
