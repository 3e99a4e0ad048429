package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// renderConfigs does what MCO does in a cluster that has controllers: it renders the objects in force,
// and the nodes have what it rendered. So the commands that look at rollouts have something to look at.
func (s *stage) renderConfigs(ctx context.Context) error {
	var edits []mirrors.Edit
	for _, file := range []string{"platform.yaml", "policy.yaml"} {
		text, err := s.object(file)
		if err != nil {
			return err
		}
		o, err := mirrors.Parse([]byte(text))
		if err != nil {
			return err
		}
		edits = append(edits, mirrors.Put(o))
	}
	files, err := mirrors.Rendered(mirrors.Join(edits...).Apply(mirrors.Set{}))
	if err != nil {
		return err
	}
	for pool, nodes := range map[string]int{"master": 1, "worker": 2} {
		if err := s.render(ctx, pool, nodes, files); err != nil {
			return err
		}
	}
	return nil
}

// render gives a pool, of so many nodes, a rendered config with files.
func (s *stage) render(ctx context.Context, pool string, nodes int, files map[string][]byte) error {
	type object = map[string]any
	var stored []object
	for _, path := range slices.Sorted(maps.Keys(files)) {
		stored = append(stored, object{"path": path, "contents": object{"source": "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString(files[path])}})
	}
	name := "rendered-" + pool + "-1" // as the nodes say
	for _, machineConfig := range []string{"99-" + pool + "-generated-registries", name} {
		config, err := json.Marshal(object{
			"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
			"metadata": object{"name": machineConfig, "labels": object{"machineconfiguration.openshift.io/role": pool}},
			"spec":     object{"config": object{"ignition": object{"version": "3.4.0"}, "storage": object{"files": stored}}},
		})
		if err != nil {
			return err
		}
		if err := s.apply(ctx, string(config)); err != nil {
			return err
		}
	}
	condition := func(kind, status string) object {
		return object{"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "", "message": ""}
	}
	status, err := json.Marshal(object{"status": object{
		"observedGeneration": 1, "configuration": object{"name": name},
		"machineCount": nodes, "updatedMachineCount": nodes, "readyMachineCount": nodes, "unavailableMachineCount": 0, "degradedMachineCount": 0,
		"conditions": []object{condition("Updated", "True"), condition("Updating", "False"), condition("Degraded", "False")},
	}})
	if err != nil {
		return err
	}
	for _, patch := range [][]string{
		{"patch", "machineconfigpool", pool, "--type=merge", "--patch", fmt.Sprintf(`{"spec":{"configuration":{"name":%q}}}`, name)},
		{"patch", "machineconfigpool", pool, "--type=merge", "--subresource=status", "--patch", string(status)},
	} {
		if out, err := s.cluster.Kubectl(ctx, "", patch...); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return nil
}

// A trial is a command worth typing, its exit code, and a part of what it says.
type trial struct {
	command string
	exit    int
	says    string
}

// trials are such commands, for a shell in which settings were typed.
func (s *stage) trials() []trial {
	return []trial{
		{"kubectl apply -f $DEMO/narrow.yaml", 1, "denied the request"},
		{"mirrorset-guard check -f $DEMO/narrow.yaml $REGISTRIES", 1, "MirrorHidden"},
		{"mirrorset-guard explain quay.io/" + routerRepo + "@" + s.router + " --probe $REGISTRIES", 0, "mirror.example.com"},
		{"mirrorset-guard render -f $DEMO/narrow.yaml -o diff", 0, "pull-from-mirror = \"tag-only\""},
		{"mirrorset-guard sync --dry-run $REGISTRIES", 0, "all verified"},
		{"mirrorset-guard keep " + mirrorHost + " -o refs $REGISTRIES", 0, mirrorHost + "/" + routerRepo + "@" + s.router},
		{"mirrorset-guard deletion " + mirrorHost + "/" + routerRepo + "@" + s.router + " $REGISTRIES", 1, "openshift-ingress/router-default"},
		{"mirrorset-guard inventory", 0, "quay.io/shop/cart:v1"},
		{"mirrorset-guard rollout", 0, "updated"},
		{"mirrorset-guard rollout verify", 0, "3 of 3 nodes"},
		{"mirrorset-guard rollout diagnose $REGISTRIES", 0, "Nothing is held up"},
	}
}

// settings are what a shell has to know to try them.
func (s *stage) settings() string {
	return fmt.Sprintf(`export KUBECONFIG=%s DEMO=%s PATH=%s:%s:"$PATH"
export REGISTRIES="--registry-ca %s --resolve %s=%s --resolve %s=%s"
`, s.cluster.Kubeconfig, s.dir, filepath.Dir(s.binary), filepath.Dir(s.cluster.KubectlPath()),
		filepath.Join(s.dir, "tls", "ca.crt"), sourceHost, s.source.Addr, mirrorHost, s.mirror.Addr)
}

// try types a trial, and returns what comes back.
func (s *stage) try(ctx context.Context, t trial) (string, int) {
	cmd := exec.CommandContext(ctx, "sh", "-c", s.settings()+t.command)
	out, _ := cmd.CombinedOutput() // the exit code tells
	return string(out), cmd.ProcessState.ExitCode()
}
