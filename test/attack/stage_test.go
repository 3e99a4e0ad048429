package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// stageHand sets up the stage: the webhooks do not match what this user does.
const stageHand = "stage-hand"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A stage is a cluster with an image in use, cart, which its source has and no mirror.
type stage struct {
	dir     string
	binary  string // the guard's; "" for the one that program returns
	cluster *cluster.Cluster
	wire    *cluster.Wire // the guards' way to the API server
	kube    kubernetes.Interface
	front   *registries.Front
	ca      []byte
	guards  []*guard
	next    atomic.Uint64
	runs    atomic.Int64 // of others
	calm    *sample      // of small changes, before any attack
	// way leads to the guards; where it is nil, the API server's webhooks do by turns.
	server *httptest.Server
}

// other reports whether another program than the one of this repository is attacked.
func other() bool { return os.Getenv("ATTACK") != "" }

// program returns the guard to attack: the one of this repository, without the race detector, which
// takes several times as much memory; or the one that the environment names.
func program(t *testing.T, dir string) string {
	t.Helper()
	if other() {
		return os.Getenv("ATTACK")
	}
	path := filepath.Join(dir, "mirrorset-guard")
	must(t, cluster.BuildRelease(path))
	return path
}

func newStage(t *testing.T, options ...cluster.Option) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir()}
	s.cluster = cluster.New(t, options...)
	s.front = registries.Start(t)
	var err error
	s.kube, err = kubernetes.NewForConfig(s.cluster.Config)
	must(t, err)
	must(t, os.Mkdir(filepath.Join(s.dir, "tls"), 0o700))
	s.ca, err = certificates.SelfSigned(filepath.Join(s.dir, "tls"), []string{"127.0.0.1"}, 24*time.Hour)
	must(t, err)
	must(t, os.WriteFile(s.registryCA(), s.front.CA, 0o600))
	s.front.PushImage(t, "quay.io/shop/cart:v1", "tag")
	s.populate(t)
	return s
}

// startGuards starts guards that share what they admit, and has the API server ask them by turns.
func (s *stage) startGuards(t *testing.T, n int, flags ...string) {
	t.Helper()
	if s.binary == "" {
		s.binary = program(t, s.dir)
	}
	var err error
	s.wire, err = cluster.NewWire(s.cluster.Config)
	must(t, err)
	t.Cleanup(s.wire.Close)
	for range n {
		s.guards = append(s.guards, s.start(t, s.binary, append([]string{"--leader-elect"}, flags...)...))
	}
	for _, g := range s.guards {
		g.AwaitReady(t)
	}
	s.register(t)
}

func (s *stage) registryCA() string { return filepath.Join(s.dir, "registries.crt") }

// populate creates the workloads, the users, and the guard's account with its rights.
func (s *stage) populate(t *testing.T) {
	t.Helper()
	process.Install(t, s.cluster, process.Cart, map[string][]authorizationv1.ResourceAttributes{
		process.User: {{Verb: "list", Group: "config.openshift.io", Resource: "imagetagmirrorsets"}, leaseRight("update")},
		"alice":      {{Verb: webhook.OverrideVerb, Group: "config.openshift.io", Resource: "imagetagmirrorsets", Name: "a"}},
	})
}

func leaseRight(verb string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Namespace: webhook.Namespace, Verb: verb, Group: "coordination.k8s.io", Resource: "leases", Name: recent.LeaseName}
}

// hand runs kubectl as the user who sets up the stage.
func (s *stage) hand(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := s.cluster.Kubectl(t.Context(), stdin, append(args, "--as="+stageHand, "--as-group=system:masters")...)
	if err != nil {
		t.Fatalf("kubectl %q: %v\n%s\n%s", args, err, out, stdin)
	}
	return out
}

// register registers the webhooks of the manifests, at an address that spreads requests over the
// guards.
func (s *stage) register(t *testing.T) {
	t.Helper()
	s.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.guards[s.next.Add(1)%uint64(len(s.guards))].proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.server.Close)
	config, err := process.WebhooksAt(s.server.URL, certificateOf(s.server))
	must(t, err)
	for i := range config.Webhooks {
		config.Webhooks[i].MatchConditions = append(config.Webhooks[i].MatchConditions, admissionregistrationv1.MatchCondition{
			Name: "not-the-stage-hand", Expression: "request.userInfo.username != '" + stageHand + "'",
		})
	}
	text, err := yaml.Marshal(config)
	must(t, err)
	s.hand(t, string(text), "create", "-f", "-")
	alice := s.as(t, "alice")
	s.guards[0].Eventually(t, "the API server asks the guards", func() bool {
		err := alice.dryRun(t.Context(), tagSet("probe", "quay.io/shop", "mirror.example.com/empty"))
		return err != nil && strings.Contains(err.Error(), "is refused")
	})
}

// certificateOf returns the certificate of a server, which signs itself.
func certificateOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// A guard is a running process, behind a proxy that stands for the API server's way to it.
type guard struct {
	*process.Process
	proxy *httputil.ReverseProxy
}

// hosts are those of the stage's registries.
var hosts = []string{"quay.io", "mirror.example.com"}

func (s *stage) start(t *testing.T, binary string, flags ...string) *guard {
	t.Helper()
	return s.startIn(t, nil, binary, flags...)
}

// startIn is start with variables of the environment.
func (s *stage) startIn(t *testing.T, env []string, binary string, flags ...string) *guard {
	t.Helper()
	throughWire := *s.cluster
	throughWire.Config = s.wire.Config
	args := []string{"--kubeconfig", process.Kubeconfig(t, &throughWire, s.dir), "--tls-dir", filepath.Join(s.dir, "tls"), "--registry-ca", s.registryCA()}
	for _, host := range hosts {
		args = append(args, "--resolve", host+"="+s.front.Addr(host))
	}
	p := process.StartIn(t, env, binary, append(args, flags...)...)
	return &guard{p, p.Proxy(s.ca)}
}

// tagSet returns an ImageTagMirrorSet of a source.
func tagSet(name, source, mirror string, more ...string) string {
	return fmt.Sprintf("{apiVersion: config.openshift.io/v1, kind: ImageTagMirrorSet, metadata: {name: %s}, spec: {imageTagMirrors: [{source: %s, mirrors: [%s]%s}]}}", name, source, mirror, strings.Join(more, ""))
}

// never makes the source of a tagSet one that nodes must not ask.
const never = ", mirrorSourcePolicy: NeverContactSource"

// A user makes changes of mirror sets.
type user struct {
	client dynamic.Interface
}

func (s *stage) as(t *testing.T, name string) user {
	t.Helper()
	config := rest.CopyConfig(s.cluster.Config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	config.Impersonate.UserName = name
	if name == stageHand {
		config.Impersonate.Groups = []string{"system:masters"}
	}
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	return user{client}
}

// object reads an object, and returns the way to its kind.
func (u user) object(text string) (*unstructured.Unstructured, dynamic.ResourceInterface, error) {
	o := new(unstructured.Unstructured)
	if err := yaml.Unmarshal([]byte(text), o); err != nil {
		return nil, nil, err
	}
	resource := schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: strings.ToLower(o.GetKind()) + "s"}
	return o, u.client.Resource(resource), nil
}

func (u user) create(ctx context.Context, text string) error {
	o, kind, err := u.object(text)
	if err == nil {
		_, err = kind.Create(ctx, o, metav1.CreateOptions{})
	}
	return err
}

func (u user) dryRun(ctx context.Context, text string) error {
	o, kind, err := u.object(text)
	if err == nil {
		_, err = kind.Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	return err
}

func (u user) remove(ctx context.Context, text string) error {
	o, kind, err := u.object(text)
	if err == nil {
		err = kind.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
	}
	return err
}

// A stranger is a pod that can reach the guards: it has an address, and no credentials.
type stranger struct{ client *http.Client }

// newStranger returns one whose address is that of loopback with a number.
func newStranger(t testing.TB, number int) stranger {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(number>>8+1), byte(number))}}
	transport := &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return stranger{&http.Client{Transport: transport}}
}

// with has s show the client certificate in a folder.
func (s stranger) with(t testing.TB, folder string) stranger {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	// The server says whose certificates it takes, which a stranger does not mind.
	s.client.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return s
}

// post sends the text of a review, and returns the answer to it; code is 0 if there was none. It
// waits for longer than it says: on a machine that has other things to do, answers are late.
func (s stranger) post(ctx context.Context, g *guard, text []byte, timeout time.Duration) (code int, answer *admissionv1.AdmissionResponse) {
	ctx, cancel := context.WithTimeout(ctx, 3*timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("https://%s%s?timeout=%s", g.Listen, webhook.Path, timeout), bytes.NewReader(text))
	if err != nil {
		return 0, nil
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, review.Response
}

// forged returns the review of a creation that nobody has asked the API server for.
func forged(t testing.TB, who, object string) []byte {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(object))
	must(t, err)
	var meta metav1.PartialObjectMetadata
	must(t, json.Unmarshal(text, &meta))
	return fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"forged","operation":"CREATE","name":%q,
		"kind":{"group":"config.openshift.io","version":"v1","kind":%q},"resource":{"group":"config.openshift.io","version":"v1","resource":%q},
		"userInfo":{"username":%q,"groups":["system:masters"]},"object":%s}}`, meta.Name, meta.Kind, strings.ToLower(meta.Kind)+"s", who, text)
}

// A gauge is how much memory guards have resident at most from when it is made.
type gauge []*guard

// watch begins to follow the memory of guards.
func watch(t testing.TB, guards ...*guard) gauge {
	t.Helper()
	for _, g := range guards {
		must(t, g.ForgetPeak())
	}
	return guards
}

// read returns the most that one of them had, in MiB.
func (g gauge) read() (most int64) {
	for _, guard := range g {
		most = max(most, guard.PeakResident()>>20)
	}
	return most
}

// A sample is how long something took, again and again.
type sample struct {
	mu   sync.Mutex
	took []time.Duration
	errs []error
}

func (s *sample) add(took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, took)
	if err != nil {
		s.errs = append(s.errs, err)
	}
}

// at returns the value that a part of the sample does not exceed.
func (s *sample) at(part float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.took))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

// failed returns the errors if any of them is a refusal, or if there are more than those few that a
// machine which has other things to do may cause.
func (s *sample) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	const few = .05
	if !slices.ContainsFunc(s.errs, func(err error) bool { return !isUndecided(err) }) && float64(len(s.errs)) <= 1+few*float64(len(s.took)) {
		return nil
	}
	return errors.Join(s.errs...)
}

// String says what a person wants to know of it.
func (s *sample) String() string {
	return fmt.Sprintf("%d, median %s, 95%% %s, most %s, %d failed", len(s.took), s.at(.5).Round(time.Millisecond), s.at(.95).Round(time.Millisecond), s.at(1).Round(time.Millisecond), len(s.errs))
}

// others makes small changes, one after the other, until ctx ends: each is a creation that is
// admitted, and deleted again after some more, when guards have seen it.
func (s *stage) others(ctx context.Context, t *testing.T, who string) *sample {
	const kept = 10
	u, hand, took := s.as(t, who), s.as(t, stageHand), new(sample)
	run := s.runs.Add(1)
	var made []string
	removeAllBut := func(n int) {
		for ; len(made) > n; made = made[1:] {
			if err := hand.remove(t.Context(), made[0]); err != nil {
				t.Error(err)
			}
		}
	}
	defer removeAllBut(0)
	for i := 0; ctx.Err() == nil; i++ {
		text := tagSet(fmt.Sprintf("others-%d-%d", run, i), fmt.Sprintf("others-%d-%d.example.com", run, i), "mirror.example.com/x")
		start := time.Now()
		err := u.create(t.Context(), text)
		took.add(time.Since(start), err)
		if err == nil {
			made = append(made, text)
			removeAllBut(kept)
		}
	}
	return took
}

// insist makes a change that is to be admitted.
func insist(t *testing.T, change func() error) {
	t.Helper()
	must(t, verdict(t, change))
}

// verdict makes a change until there is a verdict on it, which it returns. On a machine that has other things
// to do, the time of a review may run out; after five tries it says so.
func verdict(t *testing.T, change func() error) error {
	t.Helper()
	err := change()
	for tries := 1; isUndecided(err) && tries < 5; tries++ {
		t.Log(err)
		err = change()
	}
	return err
}
