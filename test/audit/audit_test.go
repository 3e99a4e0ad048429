// Package audit tests the records of decisions as an auditor meets them: those of an installed
// guard, and those in the audit log of a real API server.
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
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// auditPolicy keeps no bodies: the guard's annotations come with any level.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
  resources: [{group: config.openshift.io}]
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
	must(t, cluster.BuildGuard(s.binary))
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
	must(t, os.WriteFile(config, []byte(clitest.ConfigHeader+"audit: {destination: file, file: {path: "+s.own+"}}\n"), 0o600))
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

// command runs a command of the guard, and returns its answer and exit code.
func (s *stage) command(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(s.binary, args...)
	cmd.Env = append(os.Environ(), "GORACE="+cluster.GORACE)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the code says it
	if errs.Len() > 0 {
		t.Logf("%s: %s", args, &errs)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// decisions returns what the command audit reads, without what was done to wait.
func (s *stage) decisions(t *testing.T, args ...string) []auditv1alpha1.Decision {
	t.Helper()
	out, code := s.command(t, append([]string{"audit", "-o", "json"}, args...)...)
	if code != 0 {
		t.Errorf("audit %s: exit code %d", args, code)
	}
	var all []auditv1alpha1.Decision
	for line := range strings.Lines(out) {
		var d auditv1alpha1.Decision
		must(t, json.Unmarshal([]byte(line), &d))
		if d.Object.Name != "await" && d.Kind != auditv1alpha1.ConfirmationKind {
			all = append(all, d)
		}
	}
	return all
}

var annotation = regexp.MustCompile(`mirrorset-guard.io/override: "([0-9a-z]+): <your reason>"`)

// tell makes changes of every kind, and returns what is to be recorded of each.
func (s *stage) tell(t *testing.T) []string {
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
	return []string{
		"alice CREATE broken denied", "admin CREATE other allowed", "admin UPDATE other allowed dry", "alice CREATE broken overridden",
		"admin DELETE other allowed dry", "admin DELETE other allowed",
	}
}

func told(d auditv1alpha1.Decision) string {
	user := map[bool]string{true: "alice", false: "admin"}[d.User.Name == "alice"]
	dry := map[bool]string{true: " dry"}[d.DryRun]
	return user + " " + d.Operation + " " + d.Object.Name + " " + d.Verdict + dry
}

// TestRecords: the guard's records and the API server's audit log tell the same, and the
// changes can be judged again.
func TestRecords(t *testing.T) {
	s := newStage(t)
	want := s.tell(t)
	s.guard.Eventually(t, "the override is confirmed", func() bool { return s.guard.Value("mirrorset_guard_overrides_total", "used") > 0 })
	s.guard.Stop(t) // whereupon everything is written
	s.testConfirmation(t)
	own, api := s.decisions(t, s.own), s.decisions(t, s.apiLog)
	for name, got := range map[string][]auditv1alpha1.Decision{"the guard": own, "the API server": api} {
		var lines []string
		for _, d := range got {
			lines = append(lines, told(d))
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Fatalf("%s tells another story (-want +got):\n%s", name, diff)
		}
	}
	for i := range own {
		compare(t, own[i], api[i])
	}
	both := s.decisions(t, s.own, s.apiLog)
	if len(both) != len(want) {
		t.Errorf("%d decisions in both, want %d", len(both), len(want))
	}
	s.testTable(t)
	s.testReplay(t, len(want))
	s.testWithoutGuard(t)
}

// testConfirmation: once the change is in force with its annotation, a record says so.
func (s *stage) testConfirmation(t *testing.T) {
	t.Helper()
	out, _ := s.command(t, "audit", "-o", "json", s.own)
	var confirmed []bool
	for line := range strings.Lines(out) {
		var c auditv1alpha1.Confirmation
		must(t, json.Unmarshal([]byte(line), &c))
		if c.Kind == auditv1alpha1.ConfirmationKind {
			confirmed = append(confirmed, c.Confirmed)
		}
	}
	if !slices.Equal(confirmed, []bool{true}) {
		t.Errorf("confirmations: %v", confirmed)
	}
}

// compare holds what the API server says of a decision to what the guard does.
func compare(t *testing.T, own, api auditv1alpha1.Decision) {
	t.Helper()
	if api.Source != "kube-apiserver" || own.Source != "" {
		t.Errorf("sources %q and %q", own.Source, api.Source)
	}
	if own.User.Name == "alice" && api.User.Impersonator == "" {
		t.Error("the API server's log does not say who impersonated alice")
	}
	for _, d := range []*auditv1alpha1.Decision{&own, &api} { // what only one of them knows, or tells in another way
		d.Source, d.Time, d.Seconds, d.Guard, d.Change, d.User.Impersonator = "", time.Time{}, 0, auditv1alpha1.Guard{}, nil, ""
		d.Findings, d.FindingsOmitted, d.Facts, d.FactsOmitted, d.Notes = nil, 0, nil, 0, nil
		if d.Images != nil {
			d.Images.Total = 0
		}
		for i := range d.Rules {
			d.Rules[i] = auditv1alpha1.RuleCount{Rule: d.Rules[i].Rule}
		}
		if d.Override != nil {
			d.Override.Of, d.Override.Confirmed = "", false // the guard does not know when it answers
		}
		slices.Sort(d.User.Groups)
	}
	if diff := cmp.Diff(own, api); diff != "" {
		t.Errorf("-guard +API server:\n%s", diff)
	}
}

// testTable reads the story as a person does.
func (s *stage) testTable(t *testing.T) {
	t.Helper()
	for args, want := range map[string][]string{
		"":                              {"6 decisions from ", "allowed 4, denied 1, overridden 1", "ImageTagMirrorSet/other 4", "override: the registry comes up tonight", "dry runs: 2"},
		"--overridden":                  {"1 decision from "},
		"--verdict denied --user alice": {"1 decision from ", "ImageMissing"},
		"--since 1h --dry-run true":     {"2 decisions from "},
		"--until 1h":                    {"No decision matches."},
	} {
		out, code := s.command(t, append(append([]string{"audit", s.own}, "--object", "other", "--object", "broken"), strings.Fields(args)...)...)
		for _, w := range want {
			if code != 0 || !strings.Contains(out, w) {
				t.Errorf("audit %s: exit code %d, want %q\n%s", args, code, w, out)
			}
		}
	}
}

// testReplay judges everything again: as it was, and by other rules.
func (s *stage) testReplay(t *testing.T, changes int) {
	t.Helper()
	dump := filepath.Join(s.dir, "cluster.json")
	if _, code := s.command(t, "snapshot", "--kubeconfig", s.cluster.Kubeconfig, "-f", dump); code != 0 {
		t.Fatalf("snapshot: exit code %d", code)
	}
	lenient := filepath.Join(s.dir, "lenient.yaml")
	must(t, os.WriteFile(lenient, []byte("apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\nseverities: {ImageMissing: warn}\n"), 0o600))
	only := []string{"--from", dump, "--facts", "recorded", "--object", "other", "--object", "broken"}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 0, fmt.Sprintf("%d changes: %d decided as then, 0 differently, 0 without an answer", changes, changes)},
		{[]string{"--config", lenient}, 1, fmt.Sprintf("%d changes: %d decided as then, 2 differently, 0 without an answer", changes, changes-2)},
	} {
		out, code := s.command(t, append(append([]string{"replay", s.own}, only...), tt.args...)...)
		if code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("replay %s: exit code %d, want %d and %q\n%s", tt.args, code, tt.code, tt.want, out)
		}
	}
	if out, code := s.command(t, append([]string{"replay", s.apiLog}, only...)...); code != 2 || !strings.Contains(out, "no answer: the record does not hold the change") {
		t.Errorf("replay of the API server's log: exit code %d\n%s", code, out)
	}
}

// testWithoutGuard: what was done while the guard was gone is in the API server's log.
func (s *stage) testWithoutGuard(t *testing.T) {
	t.Helper()
	s.refused(t, tagSet("late", "quay.io/shop"), "create", "-f", "-")
	s.kubectl(t, "", "delete", "imagetagmirrorset", "broken")
	var got []string
	for _, d := range s.decisions(t, s.apiLog, "--verdict", "none", "--verdict", "unreviewed") {
		got = append(got, fmt.Sprintf("%s %t", told(d), d.Admitted))
	}
	if diff := cmp.Diff([]string{"admin CREATE late none false", "admin DELETE broken unreviewed true"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
