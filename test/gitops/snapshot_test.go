package gitops

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
)

const snapshotUser = "system:serviceaccount:mirrorset-guard:mirrorset-guard-snapshot"

// testSnapshot: the CronJob is accepted as it is; its command writes, with exactly the rights of its
// account, what an administrator's would; each right is used; and what it uploads arrives.
func (s *stage) testSnapshot(t *testing.T) {
	dir := t.TempDir()
	s.apply(t, renderedWorld)
	built, err := s.cluster.Kubectl(t.Context(), "", "kustomize", filepath.Join(repo.Root(), "examples", "snapshot"))
	must(t, err)
	s.apply(t, built)

	var job batchv1.CronJob
	var rights []cluster.Right
	for _, doc := range documents(t, []byte(built)) {
		switch o := decode[rbacv1.Role](t, doc); o.Kind {
		case "CronJob":
			job = decode[batchv1.CronJob](t, doc)
		case "Role", "ClusterRole":
			must(t, cluster.AwaitRights(t.Context(), s.cluster.Config, snapshotUser, o.Namespace, o.Rules))
			rights = append(rights, cluster.RightsOf(o.Namespace, o.Rules)...)
		}
	}
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	if pod.ServiceAccountName != "mirrorset-guard-snapshot" {
		t.Fatalf("it runs as %q", pod.ServiceAccountName)
	}

	kubeconfig := process.KubeconfigOf(t, s.cluster, dir, "mirrorset-guard-snapshot")
	file := filepath.Join(dir, "cluster.json")
	args := slices.Clone(pod.InitContainers[0].Args)
	args[slices.Index(args, "/out/cluster.json")] = file
	snapshot := func(to, kubeconfig string) string {
		t.Helper()
		args[len(args)-1] = to
		cmd := exec.CommandContext(t.Context(), s.binary, append(slices.Clone(args), "--kubeconfig", kubeconfig)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		data, err := os.ReadFile(to)
		must(t, err)
		return string(data)
	}
	got, want := snapshot(file, kubeconfig), snapshot(filepath.Join(dir, "all.json"), s.cluster.Kubeconfig)
	if got != want {
		t.Errorf("with its rights it writes\n%s\nwith all rights\n%s", got, want)
	}
	if strings.Contains(got, "dockerconfigjson") {
		t.Error("a secret is in it")
	}
	unused, forbidden, err := cluster.Use(s.audit, rights, true)
	must(t, err)
	for _, r := range unused {
		if r.Name != "99-worker-generated-registries" { // which is read when MCO rejects what is in force
			t.Errorf("nothing uses %+v", r)
		}
	}
	for _, f := range forbidden {
		if f.Resource != "secrets" { // the pull secret, which a snapshot does without
			t.Errorf("forbidden: %+v", f)
		}
	}

	// What pipelines read of it is the verdict of the cluster.
	set := filepath.Join(dir, "set.yaml")
	must(t, os.WriteFile(set, []byte(refusedSet("shop")), 0o600))
	check := exec.CommandContext(t.Context(), s.binary, append([]string{"check", "-f", set, "--from", file}, s.registryFlags()...)...)
	if out, err := check.CombinedOutput(); check.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "all 3 images it reroutes could not be pulled safely") {
		t.Errorf("%v\n%s", err, out)
	}

	var uploaded atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_, _ = io.Copy(io.Discard, r.Body)
		uploaded.Store(fmt.Sprintf("%s %s:%s %d", r.Method, user, password, r.ContentLength))
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	must(t, os.WriteFile(filepath.Join(dir, "netrc"), []byte("machine 127.0.0.1 login job password right\n"), 0o600))
	script := strings.NewReplacer("/upload/netrc", filepath.Join(dir, "netrc"), "/out/cluster.json", file).Replace(pod.Containers[0].Command[2])
	upload := exec.CommandContext(t.Context(), "bash", "-c", script)
	upload.Env = append(os.Environ(), "URL="+server.URL+"/cluster.json")
	if out, err := upload.CombinedOutput(); err != nil || uploaded.Load() != fmt.Sprintf("PUT job:right %d", len(got)) {
		t.Errorf("%v, %v\n%s", err, uploaded.Load(), out)
	}
}

// renderedWorld is what a rollout depends on: a pool whose rendered config the snapshot reads.
const renderedWorld = `
apiVersion: v1
kind: Node
metadata: {name: a, labels: {node-role.kubernetes.io/worker: ""}, annotations: {machineconfiguration.openshift.io/currentConfig: rendered-worker-1, machineconfiguration.openshift.io/desiredConfig: rendered-worker-1}}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: rendered-worker-1}
spec: {config: {ignition: {version: 3.2.0}}}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  configuration: {name: rendered-worker-1}
`
