//go:build integration

package cluster

import (
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// apiServer is a real kube-apiserver with its etcd, started by the first test
// that asks for it and shared by the package. It has no CRDs at first.
var apiServer struct {
	once sync.Once
	env  *envtest.Environment
	err  error
}

// needAPIServer returns the folder with the programs of an API server, or skips the test where there are none to start.
func needAPIServer(t *testing.T) (assets string) {
	t.Helper()
	assets, err := repo.Assets()
	if err != nil {
		skip.Now(t, err)
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
	apiServer.once.Do(func() {
		if apiServer.env, apiServer.err = startAPIServer(assets); apiServer.err == nil {
			atEnd = apiServer.env.Stop
		}
	})
	if apiServer.err != nil {
		t.Fatal(apiServer.err)
	}
	return apiServer.env.Config
}

// install adds CRDs to the API server until the test ends.
func install(t *testing.T, cfg *rest.Config, names ...string) {
	t.Helper()
	api, err := cluster.OpenShiftAPI()
	if err != nil {
		t.Fatal(err)
	}
	var options envtest.CRDInstallOptions
	for _, name := range names {
		options.Paths = append(options.Paths, filepath.Join(api, name))
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

func namespace(t *testing.T, kube kubernetes.Interface, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
