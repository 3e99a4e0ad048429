package disruption

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// serviceHost is the name by which the API server verifies the guard's certificate.
const serviceHost = webhook.ServiceName + "." + webhook.Namespace + ".svc"

// A stage is a cluster with the guard's webhook configuration, a Service before its replicas,
// and a registry.
type stage struct {
	*cluster.Cluster
	api      dynamic.Interface
	dir      string
	binary   string
	flags    []string // of pods, besides those that all have
	guard    *service // the Service of the guard
	registry *service // the way to the registry
	front    *registries.Front
	secret   *certificates.Mounted // of the guard's pods
	pair     string                // of the secret that is in use
	ca       []byte                // of that pair
	pods     int
}

// objects are what runs, and how the API server gets to the guard.
var objects = load.Workload + guard.PullSecret + `---
apiVersion: v1
kind: Namespace
metadata: {name: mirrorset-guard}
---
# The API server calls the webhook by its Service. There is no service network here, so the
# Service names the host of the one that the test plays.
apiVersion: v1
kind: Service
metadata: {name: mirrorset-guard, namespace: mirrorset-guard}
spec: {type: ExternalName, externalName: localhost}
`

func newStage(t *testing.T) *stage {
	t.Helper()
	registries.Need(t)
	s := &stage{Cluster: cluster.New(t, cluster.Restartable), dir: t.TempDir(), guard: newService(t), registry: newService(t)}
	s.front = load.Registry(t)
	s.registry.add(s.front.Addr(load.MirrorHost))
	if err := os.WriteFile(filepath.Join(s.dir, "registry.pem"), s.front.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	s.binary = filepath.Join(s.dir, "mirrorset-guard")
	if err := cluster.BuildRelease(s.binary); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.secret, err = certificates.Mount(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	s.pair, s.ca = s.issue(t)
	if err := s.secret.Use(s.pair); err != nil {
		t.Fatal(err)
	}
	s.api = load.Client(t, s.Config)
	s.apply(t, objects)
	s.configure(t, s.ca)
	return s
}

// issue makes a pair for the Service with a CA of its own.
func (s *stage) issue(t *testing.T) (name string, ca []byte) {
	t.Helper()
	name, ca, err := s.secret.Add([]string{serviceHost}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return name, ca
}

func (s *stage) apply(t *testing.T, text string) {
	t.Helper()
	if out, err := s.Kubectl(t.Context(), text, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// configure installs the webhook configuration of the manifests with a caBundle, as the
// service CA does.
func (s *stage) configure(t *testing.T, bundle []byte) {
	t.Helper()
	c, err := manifests.WebhookConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Webhooks {
		c.Webhooks[i].ClientConfig.CABundle = bundle
		c.Webhooks[i].ClientConfig.Service.Port = new(s.guard.port(t))
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, string(text))
}

// read returns what is left to read, at most 64 KiB.
func read(r io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(r, 64<<10)) // what there is of it is of use
	return string(text)
}
