package readiness

import (
	"errors"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

func TestChoiceOf(t *testing.T) {
	multi := configv1.ClusterVersionArchitectureMulti
	image := func(digest string) string { return releaseOf("", digest).Image }
	for _, c := range []struct {
		why         string
		after       *configv1.Update
		set         func(*configv1.ClusterVersion)
		choice, err string
	}{
		{why: "a version", after: &configv1.Update{Version: "4.21.3"}, choice: image("c")},
		{why: "an image", after: &configv1.Update{Image: image("f")}, choice: image("f")},
		{why: "both", after: &configv1.Update{Version: "4.22.5", Image: image("f")}, choice: image("f")},
		{why: "a tag that may stand for something else by now", after: &configv1.Update{Image: "quay.io/r/release:4.20.4"}, choice: "quay.io/r/release:4.20.4"},
		{
			why: "a version that ran is offered with another image", after: &configv1.Update{Version: "4.20.8"}, choice: image("f"),
			set: func(v *configv1.ClusterVersion) {
				v.Status.History = []configv1.UpdateHistory{{State: configv1.CompletedUpdate, Version: "4.20.8", Image: image("8")}}
				v.Status.AvailableUpdates = append(v.Status.AvailableUpdates, releaseOf("4.20.8", "f"))
			},
		},
		{why: "not offered", after: &configv1.Update{Version: "4.30.0"}, err: "CVO does not begin this update: ClusterVersion does not offer this version; it offers 4.9.99, 4.20.10, 4.21.3, 4.21.4"},
		{
			why: "perhaps offered later", after: &configv1.Update{Version: "4.30.0"}, err: "ClusterVersion does not offer this version; it offers 4.9.99, 4.20.10, 4.21.3, 4.21.4",
			set: func(v *configv1.ClusterVersion) {
				v.Status.Conditions = []configv1.ClusterOperatorStatusCondition{{Type: configv1.RetrievedUpdates, Status: configv1.ConditionFalse, Reason: "RemoteFailed"}}
			},
		},
		{why: "no reference", after: &configv1.Update{Image: "Quay.io/X"}, err: `the image that ClusterVersion names for it, "Quay.io/X", is no reference`},
		{why: "to all architectures", after: &configv1.Update{Version: "4.20.9", Architecture: multi}, err: "which release has all architectures is not known before CVO has asked the update service for it"},
		{
			why: "with all architectures already", after: &configv1.Update{Version: "4.21.3", Architecture: multi}, choice: image("c"),
			set: func(v *configv1.ClusterVersion) { v.Status.Desired.Architecture = multi },
		},
	} {
		u := policy.Update{Before: offering(), After: new(configv1.ClusterVersion)}
		u.After.Spec.DesiredUpdate = c.after
		if c.set != nil {
			c.set(u.Before)
		}
		choice, err := choiceOf(u)
		switch {
		case c.err != "":
			if err == nil || err.Error() != c.err || errors.Is(err, errNotOffered) != strings.HasPrefix(c.err, "CVO does not begin") {
				t.Errorf("%s: got %v, want %q", c.why, err, c.err)
			}
		case err != nil || choice.Image != c.choice:
			t.Errorf("%s: got %q, %v, want %q", c.why, choice.Image, err, c.choice)
		}
	}
}

// TestUnreadStatus: without it, nothing is taken for what runs, and no version for one that is not offered.
func TestUnreadStatus(t *testing.T) {
	u := policy.Update{Before: new(configv1.ClusterVersion), After: new(configv1.ClusterVersion), Unread: errors.New("status is larger than the guard reads")}
	u.After.Spec.DesiredUpdate = &configv1.Update{Version: "4.20.9"}
	if _, err := choiceOf(u); errors.Is(err, errNotOffered) || err == nil || !strings.Contains(err.Error(), "larger than the guard reads") {
		t.Errorf("got %v", err)
	}
}
