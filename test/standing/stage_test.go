// Package standing tests the standing verification as installed: the program with the
// rights of its manifests, a real API server and real registries.
package standing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
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

func setUp(t *testing.T, options ...cluster.Option) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir()}
	s.binary = filepath.Join(s.dir, "mirrorset-guard")
	s.cluster = cluster.New(t, options...)
	must(t, cluster.BuildRelease(s.binary))
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
	process.Install(t, s.cluster, "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", nil)
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
	s.apply(t, process.ApplicableBase(t, "validatingwebhookconfiguration.yaml"))
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

// A guard is a running process.
type guard struct{ *process.Process }

// start starts a guard that verifies as often as it can, and waits until it is ready.
func (s *stage) start(t *testing.T, flags ...string) *guard {
	t.Helper()
	tls := filepath.Join(s.dir, "tls")
	g := &guard{process.Start(t, s.binary, append([]string{
		"--kubeconfig", process.Kubeconfig(t, s.cluster, s.dir), "--tls-dir", tls, "--registry-ca", filepath.Join(tls, certificates.CAFile),
		"--resolve", sourceHost + "=" + s.source.Addr, "--resolve", mirrorHost + "=" + s.mirror.Addr, "--verify-every", "200ms",
	}, flags...)...)}
	g.AwaitReady(t)
	return g
}

// shortly returns a configuration by which facts count for a second.
func (s *stage) shortly(t *testing.T) string {
	t.Helper()
	file := filepath.Join(s.dir, "config.yaml")
	must(t, os.WriteFile(file, []byte(clitest.ConfigHeader+"factLifetime: 1s\n"), 0o600))
	return file
}

func (g *guard) verifies() bool { return g.Value("mirrorset_guard_standing_verifying", "") == 1 }

func (g *guard) images(state string) float64 {
	return g.Value("mirrorset_guard_standing_images", state)
}

func (g *guard) rounds() float64 { return g.Value("mirrorset_guard_standing_rounds_total", "done") }
