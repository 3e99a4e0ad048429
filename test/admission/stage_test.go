// Package admission tests how the installed guard admits: refusals that are overridden, and
// changes that are made at the same moment through two replicas. The guards are processes with
// the rights of the manifests, behind the webhooks of the manifests on a real API server.
package admission

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// stageHand sets up the stage: the webhooks do not match what this user does.
const stageHand = "stage-hand"

// A stage is a cluster with two images in use: cart, which only its source has, and legacy, which
// only the mirror has that is set up for it. Two guards share what they admit; a third is
// alone.
type stage struct {
	dir, binary string
	cluster     *cluster.Cluster
	kube        kubernetes.Interface
	front       *registries.Front
	ca          []byte
	guards      []*guard // two that share, and one alone
	next        atomic.Uint64
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir()}
	s.binary = filepath.Join(s.dir, "mirrorset-guard")
	t.Setenv("GORACE", cluster.GORACE)
	s.cluster = cluster.New(t)
	s.front = registries.Start(t)
	must(t, cluster.BuildGuard(s.binary))
	var err error
	s.kube, err = kubernetes.NewForConfig(s.cluster.Config)
	must(t, err)
	must(t, os.Mkdir(filepath.Join(s.dir, "tls"), 0o700))
	s.ca, err = certificates.SelfSigned(filepath.Join(s.dir, "tls"), []string{"127.0.0.1"}, 24*time.Hour)
	must(t, err)
	must(t, os.WriteFile(s.registryCA(), s.front.CA, 0o600))
	s.front.PushImage(t, "quay.io/shop/cart:v1", "tag")
	s.front.PushImage(t, "mirror.example.com/legacy/app:v1", "tag")
	s.populate(t)
	for _, args := range [][]string{{"--leader-elect"}, {"--leader-elect"}, nil} {
		s.guards = append(s.guards, s.start(t, args...))
	}
	for _, g := range s.guards {
		g.AwaitReady(t)
	}
	s.register(t)
	s.registerOther(t)
	return s
}

// registryCA is the file with the CA of the registries.
func (s *stage) registryCA() string { return filepath.Join(s.dir, "registries.crt") }

// legacy is what is pulled from its mirror.
const legacy = `
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: legacy, namespace: shop}
spec:
  selector: {matchLabels: {app: legacy}}
  template:
    metadata: {labels: {app: legacy}}
    spec: {containers: [{name: app, image: "legacy.example.com/app:v1"}]}
---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: legacy}
spec: {imageTagMirrors: [{source: legacy.example.com, mirrors: [mirror.example.com/legacy]}]}
`

// populate creates the workloads, the users, and the guard's account with its rights.
func (s *stage) populate(t *testing.T) {
	t.Helper()
	process.Install(t, s.cluster, process.Cart+legacy, map[string][]authorizationv1.ResourceAttributes{
		process.User: {{Verb: "list", Group: "config.openshift.io", Resource: "imagetagmirrorsets"}, leaseRight()},
		"alice":      {{Verb: webhook.OverrideVerb, Group: "config.openshift.io", Resource: "imagetagmirrorsets", Name: "a"}},
	})
}

func leaseRight() authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Namespace: webhook.Namespace, Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "mirrorset-guard-recent"}
}

// stage runs kubectl as the user who sets up the stage.
func (s *stage) stage(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	return s.mustDo(t, stageHand, stdin, append(args, "--as-group=system:masters")...)
}

// do runs kubectl as a user, and again where a busy machine had no verdict in time.
func (s *stage) do(t *testing.T, user, stdin string, args ...string) (string, error) {
	t.Helper()
	for start := time.Now(); ; {
		out, err := s.cluster.Kubectl(t.Context(), stdin, append(slices.Clip(args), "--as="+user)...)
		undecided := err != nil && (strings.Contains(out, "there is no verdict") || strings.Contains(out, "failed calling webhook"))
		if !undecided || time.Since(start) > process.Patience {
			return out, err
		}
	}
}

func (s *stage) mustDo(t *testing.T, user, stdin string, args ...string) string {
	t.Helper()
	out, err := s.do(t, user, stdin, args...)
	if err != nil {
		t.Fatalf("%s: kubectl %q: %v\n%s\n%s", user, args, err, out, stdin)
	}
	return out
}

// mustFail is mustDo of what has to be refused, with these words.
func (s *stage) mustFail(t *testing.T, user, stdin string, words string, args ...string) string {
	t.Helper()
	out, err := s.do(t, user, stdin, args...)
	if err == nil || !strings.Contains(out, words) {
		t.Fatalf("%s: kubectl %q: %v, want a refusal that says %q\n%s\n%s", user, args, err, words, out, stdin)
	}
	return out
}

// register registers the webhooks of the manifests, at an address that spreads requests over
// the two guards that share. Changes of objects whose name begins with "alone" go to the third.
func (s *stage) register(t *testing.T) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(s.spread))
	t.Cleanup(server.Close)
	config, err := process.Webhooks(server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	must(t, err)
	for i := range config.Webhooks {
		w := &config.Webhooks[i]
		w.MatchConditions = append(w.MatchConditions, admissionregistrationv1.MatchCondition{
			Name: "not-the-stage-hand", Expression: "request.userInfo.username != '" + stageHand + "'",
		})
	}
	text, err := yaml.Marshal(config)
	must(t, err)
	s.stage(t, string(text), "create", "-f", "-")
	s.guards[0].Eventually(t, "the API server asks the guards", func() bool {
		out, err := s.do(t, "alice", tagSet("probe", "quay.io/shop", ""), "create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(out, "is refused")
	})
}

// registerOther registers another webhook, which takes its time over objects whose name begins
// with "race", so that they are stored a while after the guard has admitted them, and refuses
// those that begin with "refused". It is not asked about others, and given more time than a busy
// machine takes to answer.
func (s *stage) registerOther(t *testing.T) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		name := review.Request.Name
		if strings.HasPrefix(name, "race") {
			time.Sleep(rand.N(250 * time.Millisecond))
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: !strings.HasPrefix(name, "refused")}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // the API server may have gone
	}))
	t.Cleanup(server.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	s.stage(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: other}
webhooks:
- name: other.example.com
  timeoutSeconds: 30
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {url: %q, caBundle: %s}
  rules: [{operations: [CREATE], apiGroups: ["*"], apiVersions: ["*"], resources: [imagetagmirrorsets, imagedigestmirrorsets]}]
  matchConditions: [{name: by-name, expression: "request.name.startsWith('race') || request.name.startsWith('refused')"}]
`, server.URL, ca), "create", "-f", "-")
	s.guards[0].Eventually(t, "the API server asks the other webhook", func() bool {
		out, err := s.do(t, "alice", tagSet("refused", "unused.example.com", ""), "create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(out, "other.example.com")
	})
}

func (s *stage) spread(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	to := s.guards[s.next.Add(1)%2]
	var review admissionv1.AdmissionReview
	if json.Unmarshal(body, &review) == nil && review.Request != nil && strings.HasPrefix(review.Request.Name, "alone") {
		to = s.guards[2]
	}
	to.proxy.ServeHTTP(w, r)
}

// A guard is a running process, behind a proxy.
type guard struct {
	*process.Process
	proxy *httputil.ReverseProxy
}

func (s *stage) start(t *testing.T, flags ...string) *guard {
	t.Helper()
	args := []string{
		"--kubeconfig", process.Kubeconfig(t, s.cluster, s.dir), "--tls-dir", filepath.Join(s.dir, "tls"), "--registry-ca", s.registryCA(), "--verify-every", "0s",
	}
	for _, host := range []string{"quay.io", "legacy.example.com", "mirror.example.com"} {
		args = append(args, "--resolve", host+"="+s.front.Addr(host))
	}
	p := process.Start(t, s.binary, append(args, flags...)...)
	return &guard{p, p.Proxy(s.ca)}
}

// tagSet returns an ImageTagMirrorSet for a source, with an override unless that is "".
func tagSet(name, source, override string) string {
	text := fmt.Sprintf("apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: %s%s}\nspec: {imageTagMirrors: [{source: %s, mirrors: [mirror.example.com/empty]}]}\n", name, "%s", source)
	if override == "" {
		return fmt.Sprintf(text, "")
	}
	return fmt.Sprintf(text, fmt.Sprintf(", annotations: {%s: %q}", webhook.OverrideAnnotation, override))
}
