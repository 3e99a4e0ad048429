package gitops

import (
	"encoding/json"
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
)

const snapshotUser = "system:serviceaccount:mirrorset-guard:mirrorset-guard-snapshot"

const snapshotAudit = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, users: ["` + snapshotUser + `"], omitStages: [RequestReceived]}
- {level: None}
`

// testSnapshot: the CronJob is accepted as it is; its command writes, with exactly the rights of its
// account, what an administrator's would; each right is used; and what it uploads arrives.
func (s *stage) testSnapshot(t *testing.T) {
	dir := t.TempDir()
	s.apply(t, renderedWorld)
	built, err := s.cluster.Kubectl(t.Context(), "", "kustomize", filepath.Join(cluster.Root(), "examples", "snapshot"))
	must(t, err)
	s.apply(t, built)

	var job batchv1.CronJob
	var rules []rule
	for _, doc := range documents(t, []byte(built)) {
		switch o := decode[rbacv1.Role](t, doc); o.Kind {
		case "CronJob":
			job = decode[batchv1.CronJob](t, doc)
		case "Role", "ClusterRole":
			must(t, cluster.AwaitRights(t.Context(), s.cluster.Config, snapshotUser, o.Namespace, o.Rules))
			rules = append(rules, rulesOf(o.Namespace, o.Rules)...)
		}
	}
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	if pod.ServiceAccountName != "mirrorset-guard-snapshot" {
		t.Fatalf("it runs as %q", pod.ServiceAccountName)
	}

	kubeconfig := s.tokenOf(t, dir)
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
	s.checkRights(t, rules)

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

// tokenOf writes a kubeconfig with a token of the CronJob's account.
func (s *stage) tokenOf(t *testing.T, dir string) string {
	t.Helper()
	token, err := s.cluster.Kubectl(t.Context(), "", "create", "token", "mirrorset-guard-snapshot", "--namespace", "mirrorset-guard")
	must(t, err)
	kubeconfig := process.Kubeconfig(t, s.cluster, dir)
	data, err := os.ReadFile(kubeconfig)
	must(t, err)
	before, after, _ := strings.Cut(string(data), `token: "`)
	_, after, _ = strings.Cut(after, `"`)
	must(t, os.WriteFile(kubeconfig, []byte(before+`token: "`+strings.TrimSpace(token)+`"`+after), 0o600))
	return kubeconfig
}

// A rule is one thing that a role lets its account do.
type rule struct{ namespace, verb, group, resource, name string }

func rulesOf(namespace string, from []rbacv1.PolicyRule) []rule {
	var all []rule
	for _, r := range from {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					for _, name := range append(r.ResourceNames, "")[:max(1, len(r.ResourceNames))] {
						all = append(all, rule{namespace, verb, group, resource, name})
					}
				}
			}
		}
	}
	return all
}

// checkRights fails for a right that nothing uses, and for a request that is forbidden, but for the pull
// secret, which a snapshot does without.
func (s *stage) checkRights(t *testing.T, rules []rule) {
	t.Helper()
	used := map[rule]bool{}
	data, err := os.ReadFile(s.audit)
	must(t, err)
	for line := range strings.Lines(string(data)) {
		var e struct {
			Verb      string
			ObjectRef struct{ Resource, APIGroup, Namespace, Name string }
			Status    struct{ Code int } `json:"responseStatus"`
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // half a line, still being written
		}
		o := e.ObjectRef
		if e.Status.Code == http.StatusForbidden && o.Resource != "secrets" {
			t.Errorf("forbidden: %s", line)
		}
		for _, r := range rules {
			if r.verb == e.Verb && r.group == o.APIGroup && r.resource == o.Resource && (r.namespace == "" || r.namespace == o.Namespace) && (r.name == "" || r.name == o.Name) {
				used[r] = true
			}
		}
	}
	for _, r := range rules {
		other := r // a list is streamed as a watch, where the API server can do that
		switch r.verb {
		case "list":
			other.verb = "watch"
		case "watch":
			other.verb = "list"
		}
		onlyWhenRejected := r.name == "99-worker-generated-registries"
		if !used[r] && !used[other] && !onlyWhenRejected {
			t.Errorf("nothing uses %+v", r)
		}
	}
}
