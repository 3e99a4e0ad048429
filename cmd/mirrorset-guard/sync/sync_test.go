package sync

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	gosync "sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/inspect"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Run(ctx, append([]string{"mirrorset-guard"}, args...), stdin, stdout, stderr, append(inspect.Commands(), New())...)
}

// The credentials with which the mirror may be written to.
const (
	pusher = "pusher"
	canary = "canary-4711"
)

// A mirror is a registry that anybody may read, and that only pusher may write to.
type mirror struct {
	host string
	mu   gosync.Mutex
	sent []string // the authorizations seen
	// pushed counts what writes.
	pushed int
	held   chan struct{} // if not nil, blobs are read once it is closed
	// denies is set if nobody but pusher may read either.
	denies atomic.Bool
	// readOnly is set if nothing may be written.
	readOnly atomic.Bool
	// on is told of each request, if it is set.
	on atomic.Pointer[func(*http.Request)]
}

func (m *mirror) front(t *testing.T, real string, protected bool) *httptest.Server {
	t.Helper()
	proxy := httputil.ReverseProxy{
		Rewrite:  func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: real}); p.Out.Host = p.In.Host },
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.sent = append(m.sent, r.Header.Get("Authorization"))
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			m.pushed++
		}
		m.mu.Unlock()
		if on := m.on.Load(); on != nil {
			(*on)(r)
		}
		if m.held != nil && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			<-m.held
		}
		user, password, _ := r.BasicAuth()
		reads := !m.denies.Load() && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		if protected && (!reads || r.URL.Path == "/v2/") && (user != pusher || password != canary) {
			w.Header().Set("WWW-Authenticate", `Basic realm="mirror"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if m.readOnly.Load() && r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	m.host = strings.TrimPrefix(server.URL, "http://")
	return server
}

// writes returns how many requests were not for reading.
func (m *mirror) writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pushed
}

// A shop has a source with a router by digest, signed, and a cart by tag; and a change that sends both to a mirror.
type shop struct {
	source, mirror mirror
	router         string // digest
	dump, change   string // files
	secret         string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{}
	for at, protected := range map[*mirror]bool{&s.source: false, &s.mirror: true} {
		at.front(t, registries.Run(t).Addr, protected)
	}
	router, err := registries.IndexOf("router", "linux/amd64", "linux/arm64")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := router.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.router = digest.String()
	s.push(t, "ocp/router:v1", nil, router)
	list, err := router.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range list.Manifests {
		signature := signer.Key("release").Sign(s.source.host+"/ocp/router@"+part.Digest.String(), part.Digest.String())
		attached, err := registries.NewAttached(signer.Attach(signature))
		if err != nil {
			t.Fatal(err)
		}
		s.push(t, "ocp/router:"+signer.Tag(part.Digest.String()), attached, nil)
	}
	cart, err := registries.Image("cart")
	if err != nil {
		t.Fatal(err)
	}
	s.push(t, "shop/cart:v1", cart, nil)
	s.dump = clitest.Written(t, "cluster.yaml", s.objects())
	s.change = clitest.Written(t, "mirrors.yaml", s.mirrorSets())
	secret, err := json.Marshal(map[string]any{"auths": map[string]any{s.mirror.host: map[string]string{"auth": encoded}}})
	if err != nil {
		t.Fatal(err)
	}
	s.secret = clitest.Written(t, "push.json", string(secret))
	return s
}

func (s *shop) push(t *testing.T, to string, img v1.Image, index v1.ImageIndex) {
	t.Helper()
	tag, err := name.NewTag(s.source.host+"/"+to, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if index != nil {
		err = remote.WriteIndex(tag, index)
	} else {
		err = remote.Write(tag, img)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *shop) objects() string {
	deployment := func(namespace, name, image string) string {
		return fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: %s, name: %s}
spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: app, image: %q}]}}}
`, namespace, name, s.source.host+"/"+image)
	}
	return deployment("openshift-ingress", "router-default", "ocp/router@"+s.router) + deployment("shop", "cart", "shop/cart:v1") + fmt.Sprintf(`---
apiVersion: v1
kind: Node
metadata: {name: a}
status: {nodeInfo: {operatingSystem: linux, architecture: amd64}}
%s---
apiVersion: config.openshift.io/v1
kind: ClusterImagePolicy
metadata: {name: signed}
spec:
  scopes: [%q]
  policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: %s}}}
`, inPlainHTTP(fmt.Sprintf(`{"auths":{%q:{"auth":"bm9kZTpub2Rl"}}}`, s.source.host), s.source.host, s.mirror.host), s.source.host+"/ocp", base64.StdEncoding.EncodeToString(signer.Key("release").PEM()))
}

// inPlainHTTP returns the pull secret of nodes, and Image cluster with registries that nodes ask by HTTP.
func inPlainHTTP(pullSecret, source, mirror string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Secret
metadata: {namespace: openshift-config, name: pull-secret}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: %s}
---
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster}
spec: {registrySources: {insecureRegistries: [%q, %q]}}
`, base64.StdEncoding.EncodeToString([]byte(pullSecret)), source, mirror)
}

func (s *shop) mirrorSets() string {
	return fmt.Sprintf(`apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: platform}
spec: {imageDigestMirrors: [{source: %q, mirrors: [%q]}]}
---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: shop}
spec: {imageTagMirrors: [{source: %q, mirrors: [%q]}]}
`, s.source.host+"/ocp", s.mirror.host+"/ocp", s.source.host+"/shop", s.mirror.host+"/team/shop")
}

func (s *shop) sync(t *testing.T, args ...string) clitest.Outcome {
	t.Helper()
	return clitest.Invoke(t, run, "", append([]string{"sync", "--from", s.dump, "--allow-loopback"}, args...)...)
}

func wantCode(t *testing.T, o clitest.Outcome, code int, out ...string) {
	t.Helper()
	if o.Code != code {
		t.Fatalf("exit code %d, want %d\n%s\n%s", o.Code, code, o.Out, o.Err)
	}
	for _, want := range out {
		if !strings.Contains(o.Out+o.Err, want) {
			t.Errorf("there is no %q in\n%s\n%s", want, o.Out, o.Err)
		}
	}
}

// TestSync fills the mirror, signatures included, with a credential that nobody else sees.
func TestSync(t *testing.T) {
	s := newShop(t)
	t.Setenv("REGISTRY_AUTH_FILE", clitest.Written(t, "nothing.json", "{}"))
	dry := s.sync(t, "-f", s.change, "--dry-run", "--push-secret", s.secret)
	wantCode(t, dry, 1, "To "+s.mirror.host+": 2 images, ", "is refused")

	without := s.sync(t, "-f", s.change)
	wantCode(t, without, 1, "there are no credentials to push to it with", "is refused")

	events := s.sync(t, "-f", s.change, "--push-secret", s.secret, "-o", "json")
	wantCode(t, events, 0)
	filled := s.sync(t, "-f", s.change, "--push-secret", s.secret)
	wantCode(t, filled, 0, "Nothing is to be copied", "is admitted", "all verified")
	for _, o := range []clitest.Outcome{dry, without, events, filled} {
		if strings.Contains(o.Out+o.Err, canary) || strings.Contains(o.Out+o.Err, encoded) {
			t.Errorf("the credential is in\n%s\n%s", o.Out, o.Err)
		}
	}
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	for _, authorization := range s.source.sent {
		if decoded, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(authorization, "Basic ")); strings.Contains(string(decoded), canary) {
			t.Fatal("the source saw the credential for the mirror")
		}
	}
	wantEvents(t, events.Out)
}

// wantEvents holds events to what is documented: a plan and what happens to images, then the end, and a Review.
func wantEvents(t *testing.T, out string) {
	t.Helper()
	var kinds []string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var e struct{ Kind, Type, To string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		kinds = append(kinds, e.Kind+e.Type)
	}
	got := strings.Join(kinds, " ")
	if !strings.HasSuffix(got, " SyncEventEnded Review") || strings.Count(got, "SyncEventPlanned ") != 1 || strings.Count(got, "SyncEventStarted ") != 2 || strings.Count(got, "SyncEventCopied ") != 2 {
		t.Errorf("the events are %s\n%s", got, out)
	}
}

// TestUsage: mistakes name the flag and the value.
func TestUsage(t *testing.T) {
	dump := clitest.Written(t, "cluster.yaml", `apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: cart}
spec: {containers: [{name: app, image: "quay.io/shop/cart:v1"}]}
`)
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--max-bytes", "much"}, `--max-bytes "much": want a number of bytes, such as 20Gi or 500M`},
		{[]string{"--max-bytes", "0"}, `--max-bytes "0": want a number of bytes`},
		{[]string{"--max-bytes", "-1Gi"}, `--max-bytes "-1Gi": want a number of bytes`},
		{[]string{"--delete"}, "--delete: only with -f"},
		{[]string{"--for-user", "ann"}, "--for-user and --for-group: only with -f"},
		{[]string{"--release", "next", "-f", dump}, "-f has no effect beside --release"},
		{[]string{"--release", "next", "--history"}, "--history has no effect beside --release"},
		{[]string{"--release", "next", "--rescue"}, "--rescue has no effect beside --release"},
		{[]string{"-o", "yaml"}, `--output "yaml": choose one of`},
		{[]string{"--push-secret", "missing.json"}, "--push-secret: open missing.json"},
		{[]string{"--push-secret", dump}, "--push-secret " + dump + ": the pull secret is not the JSON"},
	} {
		o := clitest.Invoke(t, run, "", append([]string{"sync", "--from", dump}, row.args...)...)
		if o.Code != 2 || !strings.Contains(o.Err, row.want) {
			t.Errorf("%q: exit code %d, want 2 and %q:\n%s%s", row.args, o.Code, row.want, o.Out, o.Err)
		}
	}
}
