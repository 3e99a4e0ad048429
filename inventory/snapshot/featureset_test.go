package snapshot

import (
	"bytes"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

// TestFeatureSet: a dump keeps the feature set of the cluster, and does not make one up.
func TestFeatureSet(t *testing.T) {
	const gate = "---\napiVersion: config.openshift.io/v1\nkind: FeatureGate\nmetadata: {name: cluster}\nspec: {featureSet: TechPreviewNoUpgrade}\n"
	dump := podYAML + gate
	for range 2 {
		s, err := ReadFrom(strings.NewReader(dump), "dump.yaml")
		if err != nil {
			t.Fatal(err)
		}
		u, err := s.UpdateConfig(t.Context())
		if err != nil || u.FeatureGate == nil || u.FeatureGate.Spec.FeatureSet != configv1.TechPreviewNoUpgrade {
			t.Fatalf("got %+v, %v", u, err)
		}
		var b bytes.Buffer
		if err := Write(t.Context(), &b, s, s.TrustSettings()); err != nil {
			t.Fatal(err)
		}
		dump = b.String()
	}
	s, err := ReadFrom(strings.NewReader(podYAML), "dump.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if u, err := s.UpdateConfig(t.Context()); err != nil || u.FeatureGate != nil {
		t.Errorf("got %+v, %v without one", u, err)
	}
}
