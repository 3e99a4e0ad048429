package rollout

import (
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

const (
	policyJSON = policyfile.PolicyJSONPath
	searchConf = mirrors.SearchDropInPath
	registries = mirrors.RegistriesConfPath
	pullSecret = "/var/lib/kubelet/config.json"
)

// changed returns Files before and after a change of some of them.
func changed(paths ...string) (before, after Files) {
	before, after = Files{"/etc/hosts": []byte("same")}, Files{"/etc/hosts": []byte("same")}
	for _, file := range paths {
		before[file], after[file] = []byte("a = 1"), []byte("a = 2")
	}
	return before, after
}

// policies are the defaults, with actions for registries.conf in the place of Special.
func policies(types ...operatorv1.NodeDisruptionPolicySpecActionType) *operatorv1.MachineConfiguration {
	return policiesFor(registries, types...)
}

func policiesFor(file string, types ...operatorv1.NodeDisruptionPolicySpecActionType) *operatorv1.MachineConfiguration {
	var actions []operatorv1.NodeDisruptionPolicySpecAction
	for _, kind := range types {
		a := operatorv1.NodeDisruptionPolicySpecAction{Type: kind}
		switch kind {
		case operatorv1.ReloadSpecAction:
			a.Reload = &operatorv1.ReloadService{ServiceName: "foo.service"}
		case operatorv1.RestartSpecAction:
			a.Restart = &operatorv1.RestartService{ServiceName: "bar.service"}
		}
		actions = append(actions, a)
	}
	return &operatorv1.MachineConfiguration{Spec: operatorv1.MachineConfigurationSpec{NodeDisruptionPolicy: operatorv1.NodeDisruptionPolicyConfig{
		Files: []operatorv1.NodeDisruptionPolicySpecFile{{Path: file, Actions: actions}},
	}}}
}

// TestActions is what follows from which files differ: TestCalculatePostConfigChangeAction
// in MCO's pkg/daemon/update_test.go, and the policies of NodeDisruptionPolicy.
func TestActions(t *testing.T) {
	const (
		none    = operatorv1.NoneSpecAction
		reload  = operatorv1.ReloadSpecAction
		restart = operatorv1.RestartSpecAction
		reboot  = operatorv1.RebootSpecAction
		drain   = operatorv1.DrainSpecAction
		systemd = operatorv1.DaemonReloadSpecAction
	)
	for _, tt := range []struct {
		name     string
		files    []string
		machines *operatorv1.MachineConfiguration
		want     string
		effect   Effect
	}{
		{"nothing differs", nil, nil, "changes no file", NoRollout},
		{"registries.conf", []string{registries}, nil, "reloads CRI-O without a drain", Reloads},
		{"with the pull secret", []string{registries, pullSecret}, nil, "reloads CRI-O without a drain", Reloads},
		{"the pull secret alone", []string{pullSecret}, nil, "writes files without a drain", FilesOnly},
		{"policy.json", []string{policyJSON}, nil, "reloads CRI-O without a drain", Reloads},
		{"with registries.conf, CRI-O is named once", []string{policyJSON, registries}, nil, "reloads CRI-O without a drain", Reloads},
		{"signatures", []string{"/etc/containers/registries.d/sigstore-registries.yaml"}, nil, "reloads CRI-O without a drain", Reloads},
		{"a namespace's policy", []string{"/etc/crio/policies/apps.json"}, nil, "reloads CRI-O without a drain", Reloads},
		{"a folder whose name goes on", []string{"/etc/crio/policies.d/apps.json"}, nil, "drains and reboots", Reboots},
		{"GPG keys", []string{"/etc/machine-config-daemon/no-reboot/containers-gpg.pub"}, nil, "reloads CRI-O without a drain", Reloads},
		{"the CA bundle", []string{UserCABundlePath}, nil, "restarts CRI-O, coreos-update-ca-trust.service without a drain", Restarts},
		{"to restart wins over to reload", []string{UserCABundlePath, registries}, nil, "restarts CRI-O, coreos-update-ca-trust.service without a drain", Restarts},
		{"search registries reboot: no policy is about drop-ins", []string{searchConf}, nil, "drains and reboots", Reboots},
		{"an unknown file", []string{registries, "/etc/unknown"}, nil, "drains and reboots", Reboots},

		{"policy None", []string{registries}, policies(none), "writes files without a drain", FilesOnly},
		{"policy Reload", []string{registries}, policies(reload), "reloads foo.service without a drain", Reloads},
		{"policy Restart", []string{registries}, policies(restart), "restarts bar.service without a drain", Restarts},
		{"policy DaemonReload", []string{registries}, policies(systemd), "reloads systemd without a drain", Reloads},
		{"policy Drain", []string{registries}, policies(drain), "drains", FilesOnly},
		{"policy Drain, Reload, Restart", []string{registries}, policies(drain, reload, restart), "drains and reloads foo.service and restarts bar.service", Restarts},
		{"policy Reboot", []string{registries}, policies(reboot), "drains and reboots", Reboots},
		{"None of one file, Reload of another", []string{registries, policyJSON}, policies(none), "reloads CRI-O without a drain", Reloads},
		{"a policy without actions", []string{registries}, policies(), "writes files without a drain", FilesOnly},
		{"a policy of a folder", []string{searchConf}, policiesFor("/etc/containers/registries.conf.d", reload), "reloads foo.service without a drain", Reloads},
		{"of two, that of the longer path", []string{searchConf}, policiesFor("/etc", none), "writes files without a drain", FilesOnly},
		{"a wider one does not hide that of a file", []string{registries}, policiesFor("/etc", none), "reloads CRI-O without a drain", Reloads},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after := changed(tt.files...)
			d, err := Decide(before, after, Conditions{Machines: tt.machines})
			if err != nil {
				t.Fatal(err)
			}
			if d.String() != tt.want || d.Effect() != tt.effect {
				t.Errorf("got %q (%d), want %q (%d)", d, d.Effect(), tt.want, tt.effect)
			}
			if d.Drains != (len(d.Reasons) > 0) {
				t.Errorf("drains: %v, with reasons %v", d.Drains, d.Reasons)
			}
		})
	}
}

// TestFilesComeAndGo: a file that only one of the two has differs.
func TestFilesComeAndGo(t *testing.T) {
	file := Files{registries: conf("a.io", "quay.io t:m.local")}
	for name, tt := range map[string]struct {
		before, after Files
		want          string
	}{
		"it comes":        {Files{}, file, "the entry for quay.io is new, with mirror m.local for tags"},
		"it goes":         {file, nil, `the search registries change from "a.io" to ""`},
		"it comes, empty": {Files{}, Files{registries: nil}, ""},
	} {
		d, err := Decide(tt.before, tt.after, Conditions{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(d.Reasons) > 0 {
			got = d.Reasons[0]
		}
		if got != tt.want || !slices.Equal(d.Changed, []string{registries}) {
			t.Errorf("%s: got %q, want %q; changed %q", name, got, tt.want, d.Changed)
		}
	}
}

// TestSpared: what keeps MCO from a drain that its rules ask for.
func TestSpared(t *testing.T) {
	tags := [2][]byte{conf("a.io"), conf("a.io", "quay.io t:m.local")}
	digests := [2][]byte{conf("a.io"), conf("a.io", "quay.io d:m.local")}
	broken := [2][]byte{conf("a.io"), []byte("[[")}
	for _, tt := range []struct {
		name       string
		files      [2][]byte
		conditions Conditions
		want       string
		reason     string
	}{
		{"for tags", tags, Conditions{}, "drains and reloads CRI-O", "the entry for quay.io is new, with mirror m.local for tags"},
		{"for digests", digests, Conditions{}, "reloads CRI-O without a drain", ""},
		{"a single node", tags, Conditions{SingleNode: true}, "reloads CRI-O without a drain", ""},
		{"a single node has nothing to be spared", digests, Conditions{SingleNode: true}, "reloads CRI-O without a drain", ""},
		{"a single node reboots", tags, Conditions{SingleNode: true, Machines: policies(operatorv1.RebootSpecAction)}, "reboots without a drain", ""},
		{"the ConfigMap", tags, Conditions{OverrideDrain: true}, "reloads CRI-O without a drain", ""},
		{"the ConfigMap, and nothing to be spared", digests, Conditions{OverrideDrain: true}, "reloads CRI-O without a drain", ""},
		{"the ConfigMap, which keeps MCO from reading the file", broken, Conditions{OverrideDrain: true}, "reloads CRI-O without a drain", ""},
		{"the ConfigMap is not about policies", tags, Conditions{OverrideDrain: true, Machines: policies(operatorv1.DrainSpecAction)}, "drains", "the NodeDisruptionPolicy for /etc/containers/registries.conf says Drain"},
		{"a policy keeps MCO from reading the file", broken, Conditions{Machines: policies(operatorv1.NoneSpecAction)}, "writes files without a drain", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Decide(Files{registries: tt.files[0]}, Files{registries: tt.files[1]}, tt.conditions)
			if err != nil {
				t.Fatal(err)
			}
			reason := ""
			if len(d.Reasons) > 0 {
				reason = d.Reasons[0]
			}
			if d.String() != tt.want || reason != tt.reason {
				t.Errorf("got %q, %q; want %q, %q", d, reason, tt.want, tt.reason)
			}
		})
	}
	if _, err := Decide(Files{registries: broken[0]}, Files{registries: broken[1]}, Conditions{}); err == nil {
		t.Error("a file that the daemon cannot read is an error")
	}
}

// TestPoliciesOf: the status counts; where the operator has not written it yet, the spec.
func TestPoliciesOf(t *testing.T) {
	m := policies(operatorv1.RebootSpecAction)
	typesFor := func(p operatorv1.NodeDisruptionPolicyClusterStatus) string {
		var types []string
		for _, a := range closestPolicy(registries, p.Files).Actions {
			types = append(types, string(a.Type))
		}
		return strings.Join(types, " ")
	}
	if got := typesFor(PoliciesOf(nil)); got != "Special" {
		t.Errorf("nil: got %s", got)
	}
	if got := typesFor(PoliciesOf(m)); got != "Reboot" {
		t.Errorf("spec only: got %s", got)
	}
	m.Status.NodeDisruptionPolicyStatus.ClusterPolicies = PoliciesOf(policies(operatorv1.NoneSpecAction))
	if got := typesFor(PoliciesOf(m)); got != "None" {
		t.Errorf("status: got %s", got)
	}
}

// TestUnknownActions: what no version of MCO has is passed on, and drains nobody.
func TestUnknownActions(t *testing.T) {
	before, after := changed(registries)
	d, err := Decide(before, after, Conditions{Machines: policies("Dance", operatorv1.ReloadSpecAction)})
	if err != nil || d.Drains || len(d.Actions) != 2 {
		t.Errorf("got %+v, %v", d, err)
	}
}
