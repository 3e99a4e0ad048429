package mirrors

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

// TestUnroutableScopes: MCO is stuck where it cannot tell which mirrors an image policy
// applies to. test/rollout compares random sets with MCO's own function.
func TestUnroutableScopes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		source string
		mirror configv1.ImageMirror
		policy Object
		want   string // in the reason; "" for none
	}{
		{"a mirror whose host is a single word", "quay.io/team", "mirror/team", clusterPolicy("p", "quay.io/team"), `MCO cannot work out which mirrors of "quay.io/team" ClusterImagePolicy p applies to: mirror "mirror/team" would make it "mirror/team@sha256:`},
		{"the same inside the policy's scope", "quay.io/team", "mirror/team", clusterPolicy("p", "quay.io"), `which mirrors of "quay.io/team"`},
		{"the same over the policy's scope", "quay.io", "mirror/team", imagePolicy("shop", "p", "quay.io/team"), `ImagePolicy shop/p`},
		{"a policy for a port, mirrors for the host", "quay.io", "mirror.example.com/quay", clusterPolicy("p", "quay.io:443/team"), `which mirrors of "quay.io:443/team"`},
		{"a namespace of Docker Hub", "docker.io/team", "mirror.example.com/team", clusterPolicy("p", "docker.io/team"), `docker.io/team is read as docker.io/library/team; name its repositories one by one, as docker.io/team/NAME`},
		{"a repository of Docker Hub", "docker.io/team", "mirror.example.com/team", clusterPolicy("p", "docker.io/team/app"), ""},
		{"a policy for another repository", "quay.io/team", "mirror/team", clusterPolicy("p", "quay.io/other"), ""},
		{"a mirror with a dot", "quay.io/team", "mirror.local/team", clusterPolicy("p", "quay.io/team"), ""},
		{"no policy", "quay.io/team", "mirror/team", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Put(idms("m", tt.source, allow, tt.mirror)).Apply(Set{})
			if tt.policy != nil {
				s = Put(tt.policy).Apply(s)
			}
			_, err := Resolve(s)
			if tt.want == "" {
				if err != nil {
					t.Errorf("rejected: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			for _, party := range []string{NameOf(tt.policy), "ImageDigestMirrorSet m"} {
				if !strings.Contains(strings.Join(err.(*Rejection).Reasons[0].Offenders, ", "), party) { //nolint:errorlint // Resolve returns nothing else
					t.Errorf("%s is no party to %+v", party, err.(*Rejection).Reasons[0]) //nolint:errorlint // as above
				}
			}
		})
	}
}
