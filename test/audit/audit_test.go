// Package audit tests the records of decisions as an auditor meets them: those of an installed
// guard, and those in the audit log of a real API server, which are read as docs/audit.md says.
package audit

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/manual"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// auditPolicy keeps no bodies: the guard's annotations come with any level. Nor does OpenShift's have an
// event for what was merely received.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  resources: [{group: config.openshift.io}, {group: admissionregistration.k8s.io}]
- level: None
`

// A stage is a cluster with a guard, whose only image no mirror holds.
type stage struct {
	dir, binary string
	apiLog      string // the API server's audit log
	own         string // the guard's
	cluster     *cluster.Cluster
	guard       *process.Process
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	dir := t.TempDir()
	s := &stage{dir: dir, binary: filepath.Join(dir, "mirrorset-guard"), apiLog: filepath.Join(dir, "kube-apiserver.log"), own: filepath.Join(dir, "records", "audit.log")}
	policy := filepath.Join(dir, "policy.yaml")
	must(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	s.cluster = cluster.New(t, cluster.WithAudit(policy, s.apiLog))
	must(t, cluster.BuildRelease(s.binary))
	s.kubectl(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: cart, namespace: default}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: app, image: "quay.io/shop/cart:v1"}]}}}}`, "apply", "-f", "-")
	s.kubectl(t, process.PullSecret, "apply", "-f", "-")
	s.start(t)
	return s
}

// start starts the guard, and has the API server ask it.
func (s *stage) start(t *testing.T) {
	t.Helper()
	folder := filepath.Join(s.dir, "tls")
	must(t, os.Mkdir(folder, 0o700))
	ca, err := certificates.SelfSigned(folder, []string{"127.0.0.1", "mirror.example.com", "quay.io"}, time.Hour)
	must(t, err)
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, certs.CertFile), filepath.Join(folder, certs.KeyFile))
	must(t, err)
	both := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	both.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	both.StartTLS()
	t.Cleanup(both.Close)
	registry := both.Listener.Addr().String()
	config := filepath.Join(s.dir, "config.yaml")
	must(t, os.WriteFile(config, []byte(clitest.ConfigHeader+"auditLog: "+s.own+"\n"), 0o600))
	s.guard = process.Start(t, s.binary, "--kubeconfig", s.cluster.Kubeconfig, "--tls-dir", folder, "--verify-every", "0s",
		"--registry-ca", filepath.Join(folder, certificates.CAFile), "--resolve", "mirror.example.com="+registry, "--resolve", "quay.io="+registry, "--config", config)
	s.guard.AwaitReady(t)
	s.register(t, "https://"+s.guard.Listen+webhook.Path, ca)
}

// emptyBlob is the digest of {}.
const emptyBlob = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

// answer is that of two registries, of which only quay.io holds the image.
func answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v2/":
	case r.Host == "quay.io" && r.URL.Path == "/v2/shop/cart/manifests/v1":
		const manifest = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"` + emptyBlob + `","size":2},"layers":[]}`
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(manifest))))
		w.Header().Set("Content-Length", strconv.Itoa(len(manifest)))
		_, _ = io.WriteString(w, manifest) // the client may have gone
	case r.Host == "quay.io" && strings.HasSuffix(r.URL.Path, "/blobs/"+emptyBlob):
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "{}")
	default:
		http.NotFound(w, r)
	}
}

// register applies the webhook configuration of the manifests, for a guard outside of the
// cluster, and waits until it is in force.
func (s *stage) register(t *testing.T, url string, ca []byte) {
	t.Helper()
	text, err := manifests.Base.ReadFile("base/validatingwebhookconfiguration.yaml")
	must(t, err)
	var c admissionregistrationv1.ValidatingWebhookConfiguration
	must(t, yaml.Unmarshal(text, &c))
	for i := range c.Webhooks {
		c.Webhooks[i].TimeoutSeconds = new(int32(30)) // the machine may be busy
		c.Webhooks[i].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca}
	}
	data, err := json.Marshal(c)
	must(t, err)
	s.kubectl(t, string(data), "apply", "-f", "-")
	for deadline := time.Now().Add(process.Patience); time.Now().Before(deadline); {
		if out, err := s.cluster.Kubectl(t.Context(), tagSet("await", "quay.io/shop"), "create", "--dry-run=server", "-f", "-"); err != nil && strings.Contains(out, "is refused") {
			return
		}
	}
	t.Fatal("the API server does not ask the guard")
}

func tagSet(name, source string) string {
	return fmt.Sprintf("{apiVersion: config.openshift.io/v1, kind: ImageTagMirrorSet, metadata: {name: %s}, spec: {imageTagMirrors: [{source: %s, mirrors: [mirror.example.com/shop]}]}}", name, source)
}

func (s *stage) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := s.cluster.Kubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", args, err, out)
	}
	return out
}

// refused is kubectl where it must fail.
func (s *stage) refused(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := s.cluster.Kubectl(t.Context(), stdin, args...)
	if err == nil {
		t.Fatalf("kubectl %s:\n%s", args, out)
	}
	return out
}

var annotation = regexp.MustCompile(`mirrorset-guard.io/override: "([0-9a-z]+): <your reason>"`)

// tell makes changes of every kind.
func (s *stage) tell(t *testing.T) {
	t.Helper()
	alice := []string{"--as", "alice", "--as-group", "system:masters"}
	harmless := tagSet("other", "registry.example.org/tools")
	denial := s.refused(t, tagSet("broken", "quay.io/shop"), append(alice, "create", "-f", "-")...)
	code := annotation.FindStringSubmatch(denial)
	if code == nil {
		t.Fatalf("the denial does not say how to override it:\n%s", denial)
	}
	s.kubectl(t, harmless, "apply", "--server-side", "-f", "-")
	s.kubectl(t, tagSet("other", "registry.example.org/more"), "apply", "--server-side", "--dry-run=server", "-f", "-")
	s.kubectl(t, "", "annotate", "imagetagmirrorset", "other", "a=b") // changes no spec
	overriding := strings.Replace(tagSet("broken", "quay.io/shop"), "name: broken", fmt.Sprintf("name: broken, annotations: {mirrorset-guard.io/override: %q}", code[1]+": the registry comes up tonight"), 1)
	s.kubectl(t, overriding, append(alice, "create", "-f", "-")...)
	s.kubectl(t, "", "delete", "imagetagmirrorset", "other", "--dry-run=server")
	s.kubectl(t, "", "delete", "imagetagmirrorset", "other")
}

// answers are those to the blocks of the documents that are run, in their order, without the time.
// An empty line stands for no answer at all.
var answers = map[string][]string{
	"docs/audit.md": {
		"",
		`admin CREATE ImageTagMirrorSet other allowed
alice CREATE ImageTagMirrorSet broken overridden
admin DELETE ImageTagMirrorSet other allowed`,
		`alice ImageTagMirrorSet broken true the registry comes up tonight`,
		`alice ImageTagMirrorSet broken ImageMissing REASON`,
		"",
		`admin admin CREATE imagetagmirrorsets/other allowed
alice admin CREATE imagetagmirrorsets/broken overridden
admin admin DELETE imagetagmirrorsets/other allowed`,
		`alice admin imagetagmirrorsets/broken used CODE: the registry comes up tonight`,
		`alice imagetagmirrorsets/broken ImageMissing`,
	},
	"docs/runbooks/MirrorsetGuardDeletionNotReviewed.md": {`["admin","imagetagmirrorsets","broken"]`},
	"docs/runbooks/MirrorsetGuardSwitchedOff.md":         {`["admin"]`},
}

// TestRecords: the guard's records and the API server's audit log tell the same, by the commands
// that the documents name.
func TestRecords(t *testing.T) {
	s := newStage(t)
	s.tell(t)
	s.guard.Eventually(t, "the override is confirmed", func() bool { return s.guard.Value("mirrorset_guard_overrides_total", "used") > 0 })
	s.guard.Stop(t) // whereupon everything is written
	s.refused(t, tagSet("late", "quay.io/shop"), "create", "-f", "-")
	s.kubectl(t, "", "delete", "imagetagmirrorset", "broken")
	s.kubectl(t, "", "delete", "validatingwebhookconfiguration", "mirrorset-guard")
	s.testRecord(t)
	shell := s.newShell(t)
	for path, want := range answers {
		t.Run(path, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join("..", "..", path))
			must(t, err)
			blocks := slices.DeleteFunc(manual.Read(path, source).Blocks, func(b manual.Block) bool { return b.World != "test/audit TestRecords" })
			if len(blocks) != len(want) {
				t.Fatalf("%d blocks, and %d answers", len(blocks), len(want))
			}
			for i, b := range blocks {
				if diff := cmp.Diff(want[i], shell.run(t, b.Text)); diff != "" {
					t.Errorf("line %d (-want +got):\n%s", b.Line, diff)
				}
			}
		})
	}
}

// testRecord: the record of the override says on what it rests.
func (s *stage) testRecord(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(s.own)
	must(t, err)
	for line := range strings.Lines(string(data)) {
		var d auditv1alpha1.Decision
		must(t, json.Unmarshal([]byte(line), &d))
		if d.Kind != auditv1alpha1.Kind || d.Verdict != "overridden" {
			continue
		}
		if d.Mode != "enforce" || !d.Admitted || d.Override == nil || d.Override.Of != "denied" || d.Images.Total != 1 || d.Seconds <= 0 || d.Guard.Replica == "" ||
			d.OldSpecHash != "" || d.NewSpecHash == "" || !strings.Contains(d.Reason, "is refused") || len(d.Findings) != 1 || len(d.Findings[0].Consumers) != 1 || d.Findings[0].Detail == "" {
			t.Errorf("recorded %s", line)
		}
		return
	}
	t.Error("the override is not recorded")
}

// A shell runs what documents say in a folder of its own, with an oc that knows two logs, and gojq as jq.
type shell struct{ dir string }

func (s *stage) newShell(t *testing.T) shell {
	t.Helper()
	sh := shell{filepath.Join(s.dir, "shell")}
	must(t, os.Mkdir(sh.dir, 0o700))
	// Logs of pods have lines that are no records, and node-logs puts the node before each line.
	must(t, os.WriteFile(filepath.Join(sh.dir, "oc"), fmt.Appendf(nil, "#!/bin/sh\ncase \"$*\" in\n*'logs -l app.kubernetes.io/name=mirrorset-guard'*) echo 'I1126 Reviewed mirror change'; cat %q;;\n'adm node-logs --role=master --path=kube-apiserver/audit.log') sed 's/^/master-0.example.com /' %q;;\n*) exit 1;;\nesac\n", s.own, s.apiLog), 0o700))
	build := exec.Command("go", "build", "-C", filepath.Join("..", "..", "tools"), "-o", filepath.Join(sh.dir, "jq"), "github.com/itchyny/gojq/cmd/gojq")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building jq: %v\n%s", err, out)
	}
	return sh
}

var (
	moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	code   = regexp.MustCompile(`used [0-9a-z]+:`)
	reason = regexp.MustCompile(`ImageMissing .+`)
)

// run returns what a script writes, without what was done to wait, and what no two runs have in common.
func (s shell) run(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "PATH="+s.dir+":"+os.Getenv("PATH"))
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("%v: %s\n%s", err, script, &complaints)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "await") {
			continue
		}
		if !moment.MatchString(line) {
			t.Errorf("a line without a time: %s", line)
		}
		line = strings.NewReplacer("\t", " ", `"",`, "", `[""]`, "").Replace(moment.ReplaceAllString(line, ""))
		line = reason.ReplaceAllString(code.ReplaceAllString(line, "used CODE:"), "ImageMissing REASON")
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}
