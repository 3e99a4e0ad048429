// Package standing tests the standing verification as installed: the program with the
// rights of its manifests, a real API server and real registries.
package standing

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

const (
	sourceHost = "quay.io"
	mirrorHost = "mirror.example.com"
)

// A stage is a cluster whose shop pulls two images by tag and one by digest from a
// mirror that has them.
type stage struct {
	dir, binary    string
	cluster        *cluster.Cluster
	kube           kubernetes.Interface
	source, mirror *registries.Process
	ca             []byte
	digest         string // of the image that is pulled by digest
}

func setUp(t *testing.T) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir()}
	s.binary = filepath.Join(s.dir, "mirrorset-guard")
	s.cluster = cluster.New(t)
	must(t, cluster.BuildGuard(s.binary))
	var err error
	s.kube, err = kubernetes.NewForConfig(s.cluster.Config)
	must(t, err)
	must(t, os.Mkdir(filepath.Join(s.dir, "tls"), 0o700))
	s.ca, err = certificates.SelfSigned(filepath.Join(s.dir, "tls"), []string{"127.0.0.1", sourceHost, mirrorHost}, 24*time.Hour)
	must(t, err)
	s.source, s.mirror = s.registry(t, "source"), s.registry(t, "mirror")
	for _, host := range []string{sourceHost, mirrorHost} {
		for _, image := range []string{"cart", "legacy", "report"} {
			s.push(t, host, image)
		}
	}
	s.populate(t)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stage) registry(t *testing.T, name string) *registries.Process {
	t.Helper()
	dir := filepath.Join(s.dir, name)
	must(t, os.Mkdir(dir, 0o700))
	tls := filepath.Join(s.dir, "tls")
	p, err := registries.StartProcess(dir, filepath.Join(tls, certs.CertFile), filepath.Join(tls, certs.KeyFile), io.Discard)
	must(t, err)
	t.Cleanup(func() { must(t, p.Stop()) })
	return p
}

// away returns the address of a registry that is gone.
func (s *stage) away(t *testing.T) *registries.Process {
	t.Helper()
	p := s.registry(t, "away")
	must(t, p.Stop())
	return p
}

// push pushes image shop/NAME:v1 to a host.
func (s *stage) push(t *testing.T, host, image string) {
	t.Helper()
	img, err := registries.Image(image)
	must(t, err)
	digest, err := img.Digest()
	must(t, err)
	s.digest = digest.String() // of the last one
	must(t, remote.Write(s.tag(t, host, image), img, s.remote()...))
}

// remove deletes image shop/NAME:v1 from the mirror.
func (s *stage) remove(t *testing.T, image string) {
	t.Helper()
	tag := s.tag(t, mirrorHost, image)
	head, err := remote.Head(tag, s.remote()...)
	must(t, err)
	must(t, remote.Delete(tag.Context().Digest(head.Digest.String()), s.remote()...))
}

func (s *stage) tag(t *testing.T, host, image string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(host + "/shop/" + image + ":v1")
	must(t, err)
	return tag
}

// remote directs the names of the registries to loopback.
func (s *stage) remote() []remote.Option {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.ca)
	return []remote.Option{remote.WithTransport(&http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			to := map[string]string{sourceHost + ":443": s.source.Addr, mirrorHost + ":443": s.mirror.Addr}[addr]
			return new(net.Dialer).DialContext(ctx, network, to)
		},
	})}
}

// populate creates the workloads, the mirror sets and the guard's account.
func (s *stage) populate(t *testing.T) {
	t.Helper()
	for _, namespace := range []string{"shop", "openshift-config", "openshift-config-managed"} {
		s.apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: `+namespace+`}}`)
	}
	for name, ref := range map[string]string{"cart": ":v1", "legacy": ":v1", "report": "@" + s.digest} {
		s.apply(t, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: shop}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: app, image: "quay.io/shop/%[1]s%[2]s"}]}
`, name, ref))
	}
	for kind, field := range map[string]string{"ImageTagMirrorSet": "imageTagMirrors", "ImageDigestMirrorSet": "imageDigestMirrors"} {
		s.apply(t, fmt.Sprintf(`
apiVersion: config.openshift.io/v1
kind: %s
metadata: {name: shop}
spec: {%s: [{source: quay.io/shop, mirrors: [mirror.example.com/shop]}]}
`, kind, field))
	}
	s.applyManifests(t, "namespace.yaml", "serviceaccount.yaml", "role.yaml", "rolebinding.yaml")
}

// applyManifests applies the manifests of some kinds, in this order.
func (s *stage) applyManifests(t *testing.T, kinds ...string) {
	t.Helper()
	entries, err := manifests.Base.ReadDir("base")
	must(t, err)
	for _, kind := range kinds {
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), kind) {
				continue
			}
			text, err := manifests.Base.ReadFile("base/" + e.Name())
			must(t, err)
			s.apply(t, string(text))
		}
	}
}

func (s *stage) apply(t *testing.T, text string) {
	t.Helper()
	s.kubectl(t, text, "apply", "-f", "-")
}

func (s *stage) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := s.cluster.Kubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s\n%s", args, err, out, stdin)
	}
	return out
}

// kubeconfig writes one with a token of the guard's own account.
func (s *stage) kubeconfig(t *testing.T) string {
	t.Helper()
	token := s.kubectl(t, "", "create", "token", webhook.ServiceName, "--namespace", webhook.Namespace, "--duration", "4h")
	path := filepath.Join(s.dir, "guard.kubeconfig")
	must(t, os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority-data: %q}}]
users: [{name: guard, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: guard}}]
current-context: test
`, s.cluster.Config.Host, base64.StdEncoding.EncodeToString(s.cluster.Config.CAData), strings.TrimSpace(token)), 0o600))
	return path
}

// A guard is a running process.
type guard struct {
	health, metrics string
	cmd             *exec.Cmd
	log             *bytes.Buffer // to be read after it has ended
	ended           chan struct{}
}

// start starts a guard that verifies as often as it can, and waits until it is ready.
func (s *stage) start(t *testing.T, args ...string) *guard {
	t.Helper()
	g := &guard{health: freePort(t), metrics: freePort(t), log: new(bytes.Buffer), ended: make(chan struct{})}
	tls := filepath.Join(s.dir, "tls")
	g.cmd = exec.Command(s.binary, append([]string{
		"serve", "--kubeconfig", s.kubeconfig(t), "--tls-dir", tls, "--listen", "127.0.0.1:0", "--health", g.health, "--metrics", g.metrics, "--metrics-plain",
		"--registry-ca", filepath.Join(tls, certificates.CAFile), "--allow-loopback", "--drain", "0s",
		"--resolve", sourceHost + "=" + s.source.Addr, "--resolve", mirrorHost + "=" + s.mirror.Addr,
		"--verify-every", "200ms",
	}, args...)...)
	g.cmd.Stderr = g.log
	must(t, g.cmd.Start())
	go func() {
		_ = g.cmd.Wait() // a signal ends it
		close(g.ended)
	}()
	t.Cleanup(func() {
		g.stop(t)
		if t.Failed() {
			t.Logf("log of a guard:\n%s", g.log)
		}
	})
	g.eventually(t, "the guard is ready", func() bool { return g.ready() })
	return g
}

// stop stops the guard as a cluster does. It may be called twice.
func (g *guard) stop(t *testing.T) {
	t.Helper()
	_ = g.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-g.ended:
	case <-time.After(patience):
		_ = g.cmd.Process.Kill()
		t.Error("the guard does not end")
		<-g.ended
	}
}

func (g *guard) ready() bool {
	status, _ := g.readyz()
	return status == http.StatusOK
}

func (g *guard) readyz() (status int, body string) {
	resp, err := http.Get("http://" + g.health + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// value returns the value of a metric for a label value, -1 if there is none.
func (g *guard) value(name, label string) float64 {
	resp, err := http.Get("http://" + g.metrics + "/metrics")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		series, text, _ := strings.Cut(lines.Text(), " ")
		family, labels, _ := strings.Cut(series, "{")
		if family != name || label != "" && !strings.Contains(labels, `"`+label+`"`) {
			continue
		}
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			return v
		}
	}
	return -1
}

func (g *guard) verifies() bool { return g.value("mirrorset_guard_standing_verifying", "") == 1 }

func (g *guard) images(state string) float64 {
	return g.value("mirrorset_guard_standing_images", state)
}

func (g *guard) rounds() float64 { return g.value("mirrorset_guard_standing_rounds_total", "done") }

// patience is how long a test waits for what must happen soon.
const patience = 90 * time.Second

// eventually waits until ok is true. What it waits for happens in another process, so
// it polls.
func (g *guard) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-g.ended:
			t.Fatalf("the guard has ended, before: %s", what)
		case <-deadline:
			status, body := g.readyz()
			t.Fatalf("still not after %s: %s; /readyz answers %d %s", patience, what, status, body)
		case <-ticker.C:
		}
	}
}

// freePort returns an address on loopback that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}
