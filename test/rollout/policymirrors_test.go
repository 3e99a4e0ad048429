package rollout

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/oracle"
)

// TestPolicyMirrors holds the guard to MCO where an image policy meets mirrors: for some of
// them MCO cannot tell where signatures are to be looked up, and renders nothing at all.
func TestPolicyMirrors(t *testing.T) {
	o := oracle.New(t)
	for _, tt := range []struct {
		name           string
		source, mirror string
		scope          string
		rejected       bool
	}{
		{name: "a namespace of Docker Hub is read as a repository of library", source: "docker.io/team", mirror: "mirror.example.com/team", scope: "docker.io/team", rejected: true},
		{name: "the same, mirrored as a part of docker.io", source: "docker.io", mirror: "mirror.example.com/hub", scope: "docker.io/team", rejected: true},
		{name: "the same below a policy for docker.io", source: "docker.io/team", mirror: "mirror.example.com/team", scope: "docker.io", rejected: true},
		{name: "a repository of Docker Hub", source: "docker.io/team", mirror: "mirror.example.com/team", scope: "docker.io/team/app", rejected: false},
		{name: "all of Docker Hub, as docker.io/a is tried", source: "docker.io", mirror: "mirror.example.com/hub", scope: "docker.io", rejected: true},
		{name: "a mirror whose host is a single word", source: "quay.io/team", mirror: "mirror/team", scope: "quay.io/team", rejected: true},
		{name: "the same inside the scope", source: "quay.io/team", mirror: "mirror/team", scope: "quay.io", rejected: true},
		{name: "the same over the scope", source: "quay.io", mirror: "mirror/team", scope: "quay.io/team", rejected: true},
		{name: "the same with a port", source: "quay.io/team", mirror: "mirror:5000/team", scope: "quay.io/team", rejected: false},
		{name: "localhost", source: "quay.io/team", mirror: "localhost/team", scope: "quay.io/team", rejected: false},
		{name: "the same, and a policy for something else", source: "quay.io/team", mirror: "mirror/team", scope: "quay.io/other", rejected: false},
		{name: "a mirror with a dot", source: "quay.io/team", mirror: "mirror.local/team", scope: "quay.io/team", rejected: false},
		{name: "a port in the policy, none in the source", source: "quay.io", mirror: "mirror.example.com/quay", scope: "quay.io:443/team", rejected: true},
		{name: "the same with the source below the host", source: "quay.io/team", mirror: "mirror.example.com/quay", scope: "quay.io:443/team", rejected: false},
		{name: "a port in the source, none in the policy", source: "quay.io:443/team", mirror: "mirror.example.com/quay", scope: "quay.io/team", rejected: false},
		{name: "a port in both", source: "quay.io:443", mirror: "mirror.example.com/quay", scope: "quay.io:443/team", rejected: false},
		{name: "a host with a port below one without", source: "quay.io", mirror: "mirror.example.com/quay", scope: "quay.io:443", rejected: true},
		{name: "a wildcard", source: "*.example.com", mirror: "mirror.local", scope: "*.example.com", rejected: false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			digests := &configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "mirror"}}
			digests.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: tt.source, Mirrors: []configv1.ImageMirror{configv1.ImageMirror(tt.mirror)}}}
			policy := &configv1.ClusterImagePolicy{ObjectMeta: metav1.ObjectMeta{Name: "signed"}}
			policy.Spec.Policy, policy.Spec.Scopes = signaturePolicy, []configv1.ImageScope{configv1.ImageScope(tt.scope)}
			s := mirrors.Set{Objects: []mirrors.Object{digests}, Policies: []mirrors.Object{policy}, Payload: releaseImages + "@" + digest}
			answers, err := o.Ask(oracle.Question{Render: objectsOf(s)})
			if err != nil {
				t.Fatal(err)
			}
			mco := answers[0].Rendered
			if rejected := mco.Error != ""; rejected != tt.rejected {
				t.Errorf("MCO rejects it: %t (%s), want %t", rejected, mco.Error, tt.rejected)
			}
			if _, err := mirrors.Resolve(s); (err != nil) != tt.rejected {
				t.Errorf("the guard says %v, want a rejection: %t", err, tt.rejected)
			}
		})
	}
}
