package rollout

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestRenderedDecide: what else differs than files counts as well.
func TestRenderedDecide(t *testing.T) {
	base := func(change func(*Rendered)) *Rendered {
		r := &Rendered{Name: "r", Files: Files{mirrors.RegistriesConfPath: []byte("unqualified-search-registries = ['docker.io']\n"), "/etc/motd": []byte("1")}}
		r.Units, r.OSImage, r.Users = map[string]string{"a.service": "1"}, "quay.io/os:1", "1"
		change(r)
		return r
	}
	same := func(*Rendered) {}
	blocked := "unqualified-search-registries = ['docker.io']\n[[registry]]\nlocation = \"quay.io\"\nblocked = true\n"
	registries := func(r *Rendered) { r.Files[mirrors.RegistriesConfPath] = []byte(blocked) }
	unit := func(r *Rendered) { r.Units["a.service"] = "2" }
	m := &operatorv1.MachineConfiguration{}
	m.Status.NodeDisruptionPolicyStatus.ClusterPolicies = MergePolicies(operatorv1.NodeDisruptionPolicyConfig{SSHKey: operatorv1.NodeDisruptionPolicySpecSSHKey{Actions: []operatorv1.NodeDisruptionPolicySpecAction{{Type: operatorv1.DrainSpecAction}}}})
	m.Status.NodeDisruptionPolicyStatus.ClusterPolicies.Units = []operatorv1.NodeDisruptionPolicyStatusUnit{{Name: "a.service", Actions: []action{{Type: operatorv1.DaemonReloadStatusAction}}}}
	for _, tt := range []struct {
		reason     string
		change     func(*Rendered)
		conditions Conditions
		action     string
		changes    Changes
	}{
		{"nothing", same, Conditions{}, "changes no file", Changes{}},
		{"registries.conf", registries, Conditions{}, "drains and reloads CRI-O", Changes{Registries: []RegistryChange{{Scope: "quay.io", After: "blocked"}}}},
		{"registries.conf in other words", func(r *Rendered) {
			r.Files[mirrors.RegistriesConfPath] = append([]byte("# a\n"), r.Files[mirrors.RegistriesConfPath]...)
		}, Conditions{}, "reloads CRI-O without a drain", Changes{Files: []string{mirrors.RegistriesConfPath}}},
		{"a file without a policy", func(r *Rendered) { r.Files["/etc/motd"] = []byte("2") }, Conditions{}, "drains and reboots", Changes{Files: []string{"/etc/motd"}}},
		{"a mirror change with an OS update", func(r *Rendered) { registries(r); r.OSImage = "quay.io/os:2" }, Conditions{}, "drains and reboots", Changes{
			Registries: []RegistryChange{{Scope: "quay.io", After: "blocked"}}, System: []string{`the OS image from "quay.io/os:1" to "quay.io/os:2"`},
		}},
		{"an OS update of a single node", func(r *Rendered) { r.OSImage = "quay.io/os:2" }, Conditions{SingleNode: true}, "reboots without a drain", Changes{System: []string{`the OS image from "quay.io/os:1" to "quay.io/os:2"`}}},
		{"kernel arguments", func(r *Rendered) { r.KernelArguments = []string{"nosmt"} }, Conditions{}, "drains and reboots", Changes{System: []string{`kernel arguments from "" to "nosmt"`}}},
		{"a unit", unit, Conditions{}, "drains and reboots", Changes{Units: []string{"a.service"}}},
		{"a unit with a policy", unit, Conditions{Machines: m}, "reloads systemd without a drain", Changes{Units: []string{"a.service"}}},
		{"an SSH key", func(r *Rendered) { r.Users = "2" }, Conditions{}, "writes files without a drain", Changes{System: []string{"users or their SSH keys"}}},
		{"an SSH key with a policy", func(r *Rendered) { r.Users = "2" }, Conditions{Machines: m}, "drains", Changes{System: []string{"users or their SSH keys"}}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			before, after := base(same), base(tt.change)
			decision, err := before.Decide(after, tt.conditions)
			if err != nil || decision.String() != tt.action {
				t.Errorf("got %q, %v, want %q", decision, err, tt.action)
			}
			got := before.ChangesTo(after)
			if !reflect.DeepEqual(got, tt.changes) {
				t.Errorf("got %+v, want %+v", got, tt.changes)
			}
			if got.IsEmpty() != (tt.reason == "nothing") {
				t.Errorf("IsEmpty is %t", got.IsEmpty())
			}
		})
	}
	broken := base(func(r *Rendered) { r.Files[mirrors.RegistriesConfPath] = []byte("[") })
	if got := base(same).ChangesTo(broken).System; len(got) != 1 || !strings.Contains(got[0], mirrors.RegistriesConfPath) {
		t.Errorf("a file that cannot be read: got %q", got)
	}
	if _, err := broken.Routes(); err == nil {
		t.Error("a file that cannot be read has routes")
	}
}

func TestPullFailures(t *testing.T) {
	p := Pod{Failing: "ErrImagePull", FailingContainer: "b", Spec: &PodSpec{Containers: []Container{{Name: "a", Image: "x"}, {Name: "b", Image: "y"}}}}
	if !p.FailsToPull() || p.FailingImage() != "y" {
		t.Errorf("got %t, %q", p.FailsToPull(), p.FailingImage())
	}
	p.FailingContainer = "c"
	if got := p.FailingImage(); got != "" {
		t.Errorf("a container that is not there: got %q", got)
	}
	if slices.ContainsFunc([]string{"", "CrashLoopBackOff", "ContainerCreating"}, IsPullFailure) {
		t.Error("a container that waits for something else")
	}
}
