package standing

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
)

// TestMachineConfigs applies the overlay of that name: who changes files that decide where nodes pull
// from is warned, or refused where the binding says so, and nobody else.
func TestMachineConfigs(t *testing.T) {
	t.Parallel()
	c := cluster.New(t)
	kubectl := func(t *testing.T, stdin string, args ...string) (string, error) {
		t.Helper()
		return c.Kubectl(t.Context(), stdin, args...)
	}
	do := func(t *testing.T, stdin string, args ...string) string {
		t.Helper()
		out, err := kubectl(t, stdin, args...)
		if err != nil {
			t.Fatalf("kubectl %q: %v\n%s", args, err, out)
		}
		return out
	}
	const overlay = "../../manifests/overlays/machineconfigs"
	if out := do(t, "", "kustomize", overlay); strings.Count(out, "\nkind: ValidatingAdmissionPolicy") != 2 {
		t.Errorf("the overlay lacks something:\n%s", out)
	}
	do(t, "", "apply", "-f", overlay+"/policy.yaml", "-f", overlay+"/binding.yaml") // the rest needs more of OpenShift
	config := func(name, role, path, contents string) string {
		return fmt.Sprintf(`
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: %s, labels: {machineconfiguration.openshift.io/role: %s}}
spec: {config: {ignition: {version: 3.4.0}, storage: {files: [{path: %s, contents: {source: "data:,%s"}}]}}}`, name, role, path, contents)
	}
	const (
		warning = "mirrorset-guard does not review it"
		mco     = "--as=system:serviceaccount:openshift-machine-config-operator:machine-config-controller"
	)
	apply, masters := []string{"apply", "-f", "-"}, "--as-group=system:masters"
	await(t, "the policy is in force", func() bool {
		out, err := kubectl(t, config("probe", "worker", "/etc/containers/registries.conf", "a"), "apply", "--dry-run=server", "-f", "-")
		return err == nil && strings.Contains(out, warning)
	})
	for _, step := range []struct {
		what, manifest string
		args           []string
		warns          bool
	}{
		{"another file", config("motd", "worker", "/etc/motd", "a"), apply, false},
		{"a new label of it", config("motd", "master", "/etc/motd", "a"), apply, false},
		{"registries.conf", config("own", "worker", "/etc/containers/registries.conf", "a"), apply, true},
		{"the same again", config("own", "worker", "/etc/containers/registries.conf", "a"), apply, false},
		{"an annotation", "", []string{"annotate", "machineconfig", "own", "note=x"}, false},
		{"other contents", config("own", "worker", "/etc/containers/registries.conf", "b"), apply, true},
		{"for other pools", config("own", "master", "/etc/containers/registries.conf", "b"), apply, true},
		{"a drop-in instead", config("own", "master", "/etc/containers/registries.conf.d/own.conf", "b"), apply, true},
		{"policy.json", config("policy", "worker", "/etc/containers/policy.json", "a"), apply, true},
		{"where signatures are", config("attached", "worker", "/etc/containers/registries.d/own.yaml", "a"), apply, true},
		{"a file of another name", config("similar", "worker", "/etc/containers/registriesxconf", "a"), apply, false},
		{"what MCO generates", config("generated", "worker", "/etc/containers/registries.conf", "a"), append([]string{mco, masters}, apply...), false},
		{"its deletion by somebody else", "", []string{"delete", "machineconfig", "generated"}, true},
		{"deletion of one without such files", "", []string{"delete", "machineconfig", "motd"}, false},
		{"without files at all", "{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfig, metadata: {name: empty}, spec: {kernelArguments: [quiet]}}", apply, false},
	} {
		if out := do(t, step.manifest, step.args...); strings.Contains(out, warning) != step.warns {
			t.Errorf("%s: warned %t, want %t:\n%s", step.what, !step.warns, step.warns, out)
		}
	}
	do(t, "", "patch", "validatingadmissionpolicybinding", "mirrorset-guard-machineconfigs", "--type=merge", "-p", `{"spec":{"validationActions":["Deny"]}}`)
	await(t, "it refuses", func() bool {
		out, err := kubectl(t, config("refused", "worker", "/etc/containers/policy.json", "a"), "apply", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(out, warning)
	})
}

// await waits for what nothing tells of.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, process.Patience, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
