package judge

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

// TestChannel: the channel that a release is said to be in is one that there is.
func TestChannel(t *testing.T) {
	for _, tt := range []struct{ follows, release, want string }{
		{"stable-4.20", "4.21.3", "stable-4.21"},
		{"fast-4.21", "4.21.3", "fast-4.21"},
		{"candidate-4.20", "4.21.3", "candidate-4.21"},
		{"eus-4.18", "4.18.30", "eus-4.18"},
		{"eus-4.18", "4.20.1", "eus-4.20"},
		{"eus-4.18", "4.19.3", "stable-4.19"}, // there is no eus-4.19
		{"eus-4.20", "4.21.3", "stable-4.21"},
		{"eus-4.22", "4.23.1", "stable-4.23"},
		{"", "4.21.3", "stable-4.21"},
		{"$(id)-4.21", "4.21.3", "stable-4.21"},
	} {
		v := &configv1.ClusterVersion{Spec: configv1.ClusterVersionSpec{Channel: tt.follows}}
		if got := channelOf(v, tt.release); got != tt.want {
			t.Errorf("%s for a cluster in %q: got %s, want %s", tt.release, tt.follows, got, tt.want)
		}
	}
}
