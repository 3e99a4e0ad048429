package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// apiServer is a real kube-apiserver with its etcd, started by the first test
// that asks for it and shared by the package. It has no CRDs at first.
var apiServer struct {
	once sync.Once
	env  *envtest.Environment
	err  error
}

func TestMain(m *testing.M) {
	// One of the handlers sleeps until a millisecond after the last error, seen by
	// a clock that synctest's bubbles do not share: there it sleeps for decades.
	utilruntime.ErrorHandlers = nil
	code := m.Run()
	if apiServer.env != nil {
		if err := apiServer.env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// needAPIServer returns the folder with the programs of an API server, or skips the test where
// there are none to start.
func needAPIServer(t *testing.T) (assets string) {
	t.Helper()
	skip.UnlessIntegration(t)
	assets = os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", "bin", "k8s")
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(assets, name)); err != nil {
			skip.Now(t, fmt.Errorf("no API server to test with: %w; set KUBEBUILDER_ASSETS, or build it by test/controlplane", err))
		}
	}
	return assets
}

// startAPIServer starts an API server with its etcd.
func startAPIServer(assets string, options ...cluster.Option) (*envtest.Environment, error) {
	return cluster.StartEnvironment(func() *envtest.Environment {
		env := &envtest.Environment{BinaryAssetsDirectory: assets}
		// Pods name service accounts that no controller makes here.
		env.ControlPlane.GetAPIServer().Configure().Append("disable-admission-plugins", "ServiceAccount")
		for _, option := range options {
			option(&env.ControlPlane)
		}
		return env
	})
}

// fromAPIServer returns the way to the API server as administrator, or skips
// the test where there is no binary to start.
func fromAPIServer(t *testing.T) *rest.Config {
	t.Helper()
	assets := needAPIServer(t)
	apiServer.once.Do(func() { apiServer.env, apiServer.err = startAPIServer(assets) })
	if apiServer.err != nil {
		t.Fatal(apiServer.err)
	}
	return apiServer.env.Config
}

// openshiftCRD returns the path of a CRD in the module openshift/api.
func openshiftCRD(t *testing.T, name string) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api").Output()
	if err != nil {
		t.Fatalf("finding the module openshift/api: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), name)
}

// install adds CRDs to the API server until the test ends.
func install(t *testing.T, cfg *rest.Config, names ...string) {
	t.Helper()
	var options envtest.CRDInstallOptions
	for _, name := range names {
		options.Paths = append(options.Paths, openshiftCRD(t, name))
	}
	if err := cluster.InstallCRDs(cfg, options); err != nil {
		t.Fatalf("installing CRDs: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.UninstallCRDs(cfg, options); err != nil {
			t.Errorf("removing CRDs: %v", err)
		}
	})
}

// maxWait is how long a test waits for what must happen soon.
const maxWait = 90 * time.Second

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	t.Cleanup(cancel)
	return ctx
}

// next waits for what comes from c.
func next[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-timeout(t).Done():
		t.Fatalf("still not after %s: %s", maxWait, what)
		panic("unreachable")
	}
}

// running returns a Cluster that follows what cfg leads to until the test ends.
func running(t *testing.T, cfg *rest.Config, o Options) *Inventory {
	t.Helper()
	c, err := New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, c)
	return c
}

func run(t *testing.T, c *Inventory) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func namespace(t *testing.T, kube kubernetes.Interface, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok is true. What it waits for comes over a watch whose
// other end is not ours to hook into, so it looks again and again.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for ctx := timeout(t); !ok(); {
		select {
		case <-ctx.Done():
			t.Fatalf("still not after %s: %s", maxWait, what)
		case <-ticker.C:
		}
	}
}

// consumersOf returns the users of an image in c, of namespace only.
func consumersOf(t *testing.T, c *Inventory, namespace, ref string) []policy.Consumer {
	t.Helper()
	images, err := c.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var users []policy.Consumer
	for img := range images.All() {
		for _, u := range img.Consumers {
			if img.Ref == ref && u.Namespace == namespace {
				users = append(users, u)
			}
		}
	}
	return users
}
