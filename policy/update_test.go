package policy

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

// Release images of the versions below.
var (
	imageOf = func(version string) string {
		return "quay.io/openshift-release-dev/ocp-release@sha256:" + strings.Repeat(version[len(version)-1:], 64)
	}
	elsewhere = func(version string) string {
		return "mirror.example.com/release@sha256:" + strings.Repeat(version[len(version)-1:], 64)
	}
)

// clusterAt4209 is a cluster with 4.20.9, updated from 4.20.8 over a 4.20.7 that was never whole.
func clusterAt4209() *configv1.ClusterVersion {
	v := new(configv1.ClusterVersion)
	v.Status.Desired = configv1.Release{Version: "4.20.9", Image: imageOf("4.20.9")}
	v.Status.History = []configv1.UpdateHistory{
		{State: configv1.CompletedUpdate, Version: "4.20.9", Image: imageOf("4.20.9")},
		{State: configv1.PartialUpdate, Version: "4.20.7", Image: imageOf("4.20.7")},
		{State: configv1.CompletedUpdate, Version: "4.20.8", Image: imageOf("4.20.8")},
		{State: configv1.CompletedUpdate, Version: "4.20.4", Image: "quay.io/openshift-release-dev/ocp-release:4.20.4"},
	}
	v.Status.AvailableUpdates = []configv1.Release{{Version: "4.20.11", Image: imageOf("4.20.11")}, {Version: "4.21.3", Image: imageOf("4.21.3")}}
	return v
}

func TestAsks(t *testing.T) {
	multi := configv1.ClusterVersionArchitectureMulti
	for _, c := range []struct {
		why    string
		before *configv1.Update
		after  *configv1.Update
		user   string
		set    func(*configv1.ClusterVersion)
		wants  bool
	}{
		{why: "none", after: nil},
		{why: "an empty one", after: &configv1.Update{}},
		{why: "taken back", before: &configv1.Update{Version: "4.21.3"}, after: nil},
		{why: "a version", after: &configv1.Update{Version: "4.21.3"}, wants: true},
		{why: "an image", after: &configv1.Update{Image: imageOf("4.22.5")}, wants: true},
		{why: "both", after: &configv1.Update{Version: "4.22.5", Image: imageOf("4.22.5")}, wants: true},
		{why: "another one", before: &configv1.Update{Version: "4.20.11"}, after: &configv1.Update{Version: "4.21.3"}, wants: true},
		{why: "the same again", before: &configv1.Update{Version: "4.21.3"}, after: &configv1.Update{Version: "4.21.3"}},
		{why: "a risk is accepted", before: &configv1.Update{Version: "4.21.3"}, after: &configv1.Update{Version: "4.21.3", AcceptRisks: []configv1.AcceptRisk{{Name: "SlowBoot"}}}},
		{why: "forced", after: &configv1.Update{Version: "4.21.3", Force: true}},
		{why: "only checked by CVO", after: &configv1.Update{Version: "4.21.3", Mode: configv1.UpdateModePreflight}},
		{why: "meant, once CVO has checked it", before: &configv1.Update{Version: "4.21.3", Mode: configv1.UpdateModePreflight}, after: &configv1.Update{Version: "4.21.3"}, wants: true},
		{why: "by CVO", after: &configv1.Update{Version: "4.21.3"}, user: "system:serviceaccount:openshift-cluster-version:cluster-version-operator"},
		{why: "by CVO until 4.21", after: &configv1.Update{Version: "4.21.3"}, user: "system:serviceaccount:openshift-cluster-version:default"},
		{why: "by another account of its namespace", after: &configv1.Update{Version: "4.21.3"}, user: "system:serviceaccount:openshift-cluster-version:update-payload", wants: true},
		{why: "what runs, by version", after: &configv1.Update{Version: "4.20.9"}},
		{why: "what runs, by image", after: &configv1.Update{Image: imageOf("4.20.9")}},
		{why: "what runs, from elsewhere", after: &configv1.Update{Image: elsewhere("4.20.9")}},
		{why: "back to what ran", after: &configv1.Update{Version: "4.20.8"}},
		{why: "back to what ran, by image", after: &configv1.Update{Image: imageOf("4.20.8")}},
		{why: "what never ran in full", after: &configv1.Update{Image: imageOf("4.20.7")}, wants: true},
		{why: "a tag that may stand for something else by now", after: &configv1.Update{Image: "quay.io/openshift-release-dev/ocp-release:4.20.4"}, wants: true},
		{
			why: "the version that ran is offered with another image", after: &configv1.Update{Version: "4.20.8"}, wants: true,
			set: func(v *configv1.ClusterVersion) {
				v.Status.AvailableUpdates = append(v.Status.AvailableUpdates, configv1.Release{Version: "4.20.8", Image: imageOf("4.20.8-f")})
			},
		},
		{why: "not offered", after: &configv1.Update{Version: "4.30.0"}, wants: true},
		{
			why: "perhaps offered later", after: &configv1.Update{Version: "4.30.0"}, wants: true,
			set: func(v *configv1.ClusterVersion) {
				v.Status.Conditions = []configv1.ClusterOperatorStatusCondition{{Type: configv1.RetrievedUpdates, Status: configv1.ConditionFalse, Reason: "RemoteFailed"}}
			},
		},
		{why: "no reference", after: &configv1.Update{Image: "Quay.io/X"}, wants: true},
		{why: "to all architectures", after: &configv1.Update{Version: "4.20.9", Architecture: multi}, wants: true},
		{
			why: "with all architectures already", after: &configv1.Update{Version: "4.21.3", Architecture: multi}, wants: true,
			set: func(v *configv1.ClusterVersion) { v.Status.Desired.Architecture = multi },
		},
	} {
		u := Update{Before: clusterAt4209(), After: new(configv1.ClusterVersion)}
		u.Before.Spec.DesiredUpdate, u.After.Spec.DesiredUpdate = c.before, c.after
		if c.set != nil {
			c.set(u.Before)
		}
		user := c.user
		if user == "" {
			user = "kube:admin"
		}
		if got := u.Asks(user); got != c.wants {
			t.Errorf("%s: asks: %t, want %t", c.why, got, c.wants)
		}
	}
}

// TestUpdateName: what is printed for a shell is nothing but a version or a reference.
func TestUpdateName(t *testing.T) {
	for _, c := range []struct {
		d           configv1.Update
		name, asked string
	}{
		{configv1.Update{Version: "4.21.3"}, "4.21.3", "4.21.3"},
		{configv1.Update{Version: "4.21.3", Image: imageOf("4.21.3")}, "4.21.3", "4.21.3"},
		{configv1.Update{Version: "4.21.3", Image: elsewhere("4.21.7")}, "4.21.3", elsewhere("4.21.7")},
		{configv1.Update{Image: elsewhere("4.21.3")}, "mirror.example.com/release@sha256:333333333333", elsewhere("4.21.3")},
		{configv1.Update{Version: "4.21.3; rm -rf ~ $(x)\n`y`"}, "4.21.3??rm?-rf?????x???y?", "4.21.3??rm?-rf?????x???y?"},
	} {
		u := Update{Before: clusterAt4209(), After: new(configv1.ClusterVersion)}
		u.After.Spec.DesiredUpdate = &c.d
		if name, asked := u.name(); name != c.name || asked != c.asked {
			t.Errorf("%+v: got %q, %q, want %q, %q", c.d, name, asked, c.name, c.asked)
		}
	}
}
