package judge

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
)

// TestApplied: which image policies a release brings depends on the cluster's feature set. Where that is not known, and some are for
// another than the default one, so is that.
func TestApplied(t *testing.T) {
	policyFor := func(name, sets string) *configv1.ClusterImagePolicy {
		p := new(configv1.ClusterImagePolicy)
		p.Name, p.Annotations = name, map[string]string{"release.openshift.io/feature-set": sets}
		return p
	}
	gate := func(set configv1.FeatureSet) *configv1.FeatureGate {
		g := new(configv1.FeatureGate)
		g.Spec.FeatureSet = set
		return g
	}
	preview, ordinary := policyFor("preview", "TechPreviewNoUpgrade"), policyFor("default", "Default,TechPreviewNoUpgrade")
	both := &release.Payload{Policies: []*configv1.ClusterImagePolicy{preview, ordinary}}
	for _, tt := range []struct {
		reason   string
		payload  *release.Payload
		gate     *configv1.FeatureGate
		policies int
		unknown  bool
	}{
		{"an ordinary cluster", both, gate(configv1.Default), 1, false},
		{"a cluster of previews", both, gate(configv1.TechPreviewNoUpgrade), 2, false},
		{"not read", both, nil, 1, true},
		{"not read, and of no concern", &release.Payload{Policies: both.Policies[1:]}, nil, 1, false},
	} {
		j := &judging{config: &objects.UpdateConfig{FeatureGate: tt.gate}}
		got := j.applied(tt.payload)
		if len(got.Policies) != tt.policies || (len(j.Problems) > 0) != tt.unknown || tt.unknown && j.State() != readiness.Unknown {
			t.Errorf("%s: %d policies, %+v", tt.reason, len(got.Policies), j.Problems)
		}
	}
	if len(both.Policies) != 2 {
		t.Error("a payload that others share was changed")
	}
}
