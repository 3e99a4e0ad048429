package target

import (
	"errors"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

// TestMarked: which release a cluster is to be updated to, and by what that is known.
func TestMarked(t *testing.T) {
	by := func(change func(*configv1.ClusterVersion)) *configv1.ClusterVersion {
		v := offering()
		v.Status.History = []configv1.UpdateHistory{{State: configv1.CompletedUpdate, Version: "4.20.9", Image: v.Status.Desired.Image}}
		change(v)
		return v
	}
	want := func(u configv1.Update) func(*configv1.ClusterVersion) {
		return func(v *configv1.ClusterVersion) { v.Spec.DesiredUpdate = &u }
	}
	running := releaseOf("4.20.9", "a").Image
	for _, tt := range []struct {
		reason          string
		version         *configv1.ClusterVersion
		recommendations bool
		by, image, says string // the digest of the image, repeated
	}{
		{"nothing", by(func(*configv1.ClusterVersion) {}), false, "", "", ""},
		{"nothing chosen: what is recommended counts, if it is to", by(func(*configv1.ClusterVersion) {}), true, "recommended", "c", ""},
		{"a version", by(want(configv1.Update{Version: "4.21.4"})), true, "desired", "e", ""},
		{"an image", by(want(configv1.Update{Image: releaseOf("", "f").Image})), false, "desired", "f", ""},
		{"what runs, by version", by(want(configv1.Update{Version: "4.20.9"})), false, "", "", ""},
		{"what runs, from elsewhere", by(want(configv1.Update{Image: strings.Replace(running, "quay.io", "mirror.example.com", 1)})), false, "", "", ""},
		{"what runs, and what is recommended after it", by(want(configv1.Update{Version: "4.20.9"})), true, "recommended", "c", ""},
		{"what runs, for more architectures", by(want(configv1.Update{Version: "4.20.9", Architecture: configv1.ClusterVersionArchitectureMulti})), true, "desired", "", "it runs already"},
		{"what runs for these", by(func(v *configv1.ClusterVersion) {
			want(configv1.Update{Version: "4.20.9", Architecture: configv1.ClusterVersionArchitectureMulti})(v)
			v.Status.Desired.Architecture = configv1.ClusterVersionArchitectureMulti
		}), false, "", "", ""},
		{"an update that goes on", by(func(v *configv1.ClusterVersion) {
			want(configv1.Update{Version: "4.22.0"})(v)
			v.Status.Desired = releaseOf("4.22.0", "9")
			v.Status.History = append([]configv1.UpdateHistory{{State: configv1.PartialUpdate, Version: "4.22.0", Image: v.Status.Desired.Image}}, v.Status.History...)
		}), false, "desired", "9", ""},
		{"only force", by(want(configv1.Update{Force: true})), false, "", "", ""},
		{"a version that nobody offers", by(want(configv1.Update{Version: "4.99.0"})), true, "desired", "", "ClusterVersion does not offer this version"},
		{"no reference", by(want(configv1.Update{Version: "4.99.0", Image: "not a reference"})), true, "desired", "", "is no reference"},
		{"nothing is recommended", &configv1.ClusterVersion{}, true, "", "", ""},
	} {
		c, by, err := Marked(tt.version, tt.recommendations)
		if by != tt.by || tt.image != "" && !strings.HasSuffix(c.Image, strings.Repeat(tt.image, 64)) || (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %q, %+v, %v", tt.reason, by, c, err)
		}
	}
	if _, by, err := Marked(nil, true); by != "" || !errors.Is(err, ErrNoVersion) {
		t.Errorf("without a ClusterVersion: %q, %v", by, err)
	}
}
