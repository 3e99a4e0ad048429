// Package updates tests what becomes of updates of a cluster that the installed guard reviews: with a real API server
// that has OpenShift's ClusterVersion, its webhooks as the manifests have them, and a release on a real registry.
package updates

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// A stage is a cluster that is offered a release, which its mirror holds.
type stage struct {
	*release.Stage
	cluster     clitest.Cluster
	dir, binary string
	ca          []byte
	// delay is how long the mirror takes for an answer, in nanoseconds; requests counts what it was asked, and open what
	// it has not answered.
	delay, requests, open atomic.Int64
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newStage sets up a cluster that is offered a release of n images.
func newStage(t *testing.T, n int) *stage {
	t.Helper()
	s := &stage{Stage: release.Mirrored(t, n), cluster: clitest.NewCluster(t), dir: t.TempDir()}
	s.slowDown(t)
	s.binary = filepath.Join(s.dir, "mirrorset-guard")
	must(t, cluster.BuildGuard(s.binary))
	must(t, os.Mkdir(filepath.Join(s.dir, "tls"), 0o700))
	var err error
	s.ca, err = certificates.SelfSigned(filepath.Join(s.dir, "tls"), []string{"127.0.0.1"}, 24*time.Hour)
	must(t, err)
	s.cluster.ApplyWithStatus(t, s.Objects(s.Signed))
	s.install(t)
	return s
}

// slowDown puts a proxy before the mirror that may take its time.
func (s *stage) slowDown(t *testing.T) {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.Mirror})
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		s.open.Add(1)
		defer s.open.Add(-1)
		select {
		case <-time.After(time.Duration(s.delay.Load())):
			proxy.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	s.Mirror = strings.TrimPrefix(server.URL, "http://")
}

// install creates the guard's account with its rights.
func (s *stage) install(t *testing.T) {
	t.Helper()
	entries, err := manifests.Base.ReadDir("base")
	must(t, err)
	for _, kind := range []string{"namespace.yaml", "serviceaccount.yaml", "role.yaml", "binding.yaml"} {
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), kind) {
				continue
			}
			text, err := manifests.Base.ReadFile("base/" + e.Name())
			must(t, err)
			s.cluster.Apply(t, string(text))
		}
	}
}

// guard starts a guard that knows nothing yet, with a configuration, and waits until the API server asks it about
// updates.
func (s *stage) guard(t *testing.T, config string) *process.Process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(file, []byte("apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\n"+config), 0o600))
	g := process.Start(t, s.binary, "--kubeconfig", process.Kubeconfig(t, s.cluster.Cluster, s.dir), "--tls-dir", filepath.Join(s.dir, "tls"), "--verify-every", "0s", "--config", file)
	g.AwaitReady(t)
	webhooks, err := process.Webhooks("https://"+g.Listen, s.ca)
	must(t, err)
	text, err := yaml.Marshal(webhooks)
	must(t, err)
	out, err := s.cluster.Kubectl(t.Context(), string(text), "apply", "--server-side", "--force-conflicts", "-f", "-")
	if err != nil {
		t.Fatal(out)
	}
	g.Eventually(t, "the API server asks about updates", func() bool {
		_, err := s.update(t, `{"version": "4.99.0"}`, "--dry-run=server")
		return err == nil && g.Value("mirrorset_guard_review_duration_seconds_count", "allowed") > 0
	})
	return g
}

// knows waits until a guard has looked up all images of the release.
func (s *stage) knows(t *testing.T, g *process.Process) {
	t.Helper()
	g.Eventually(t, "all images of the release are known", func() bool {
		out, _ := s.update(t, toRelease, "--dry-run=server")
		return strings.Contains(out, "release 4.21.3") && !strings.Contains(out, "still being looked up") && !strings.Contains(out, "ReleaseUnknown")
	})
}

// denies refuses an update to what is not ready.
const denies = "severities: {ReleaseNotReady: deny}\n"

// update does what a user does who sets spec.desiredUpdate, and returns what kubectl says.
func (s *stage) update(t *testing.T, desired string, args ...string) (string, error) {
	t.Helper()
	return s.patch(t, fmt.Sprintf(`{"spec": {"desiredUpdate": %s}}`, desired), args...)
}

func (s *stage) patch(t *testing.T, patch string, args ...string) (string, error) {
	t.Helper()
	return s.cluster.Kubectl(t.Context(), "", append([]string{"patch", "clusterversion", "version", "--type=merge", "-p", patch}, args...)...)
}

// silently is patch of what has to be admitted without a word.
func (s *stage) silently(t *testing.T, why, patch string, args ...string) {
	t.Helper()
	if out, err := s.patch(t, patch, args...); err != nil || strings.Contains(out, "Warning") {
		t.Errorf("%s: %v\n%s", why, err, out)
	}
}

// wants checks what kubectl said.
func wants(t *testing.T, why, out string, err error, admitted bool, says ...string) {
	t.Helper()
	if (err == nil) != admitted {
		t.Errorf("%s: %v\n%s", why, err, out)
	}
	for _, text := range says {
		if !strings.Contains(out, text) {
			t.Errorf("%s: it does not say %q:\n%s", why, text, out)
		}
	}
}
