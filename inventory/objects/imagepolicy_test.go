package objects

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

// TestIgnoresImagePolicies: only a gate that is off in every version is off.
func TestIgnoresImagePolicies(t *testing.T) {
	on := configv1.FeatureGateDetails{Version: "1", Enabled: []configv1.FeatureGateAttributes{{Name: sigstoreVerification}}}
	off := configv1.FeatureGateDetails{Version: "2", Disabled: []configv1.FeatureGateAttributes{{Name: "Other"}, {Name: sigstoreVerification}}}
	unknown := configv1.FeatureGateDetails{Version: "3"}
	for _, tt := range []struct {
		reason   string
		versions []configv1.FeatureGateDetails
		want     bool
	}{
		{"no status", nil, false},
		{"on", []configv1.FeatureGateDetails{on}, false},
		{"off", []configv1.FeatureGateDetails{off}, true},
		{"off before an update, on after it", []configv1.FeatureGateDetails{off, on}, false},
		{"a version that does not know it", []configv1.FeatureGateDetails{off, unknown}, false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			gates := &configv1.FeatureGate{Status: configv1.FeatureGateStatus{FeatureGates: tt.versions}}
			if got := IgnoresImagePolicies(gates); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
