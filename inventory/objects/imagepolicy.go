package objects

import (
	"slices"

	configv1 "github.com/openshift/api/config/v1"
)

// sigstoreVerification is the feature gate of image policies (FeatureGateSigstoreImageVerification
// in openshift/api). Without it, MCO reads none (sigstoreAPIEnabled in its
// container-runtime-config controller).
const sigstoreVerification = "SigstoreImageVerification"

// IgnoresImagePolicies reports whether the feature gate of image policies is off in
// every version of the cluster that gates lists. A cluster that lists none, or
// does not know the gate, may have it on.
func IgnoresImagePolicies(gates *configv1.FeatureGate) bool {
	off := func(v configv1.FeatureGateDetails) bool {
		return slices.ContainsFunc(v.Disabled, func(a configv1.FeatureGateAttributes) bool { return a.Name == sigstoreVerification })
	}
	on := func(v configv1.FeatureGateDetails) bool { return !off(v) }
	versions := gates.Status.FeatureGates
	return len(versions) > 0 && !slices.ContainsFunc(versions, on)
}
