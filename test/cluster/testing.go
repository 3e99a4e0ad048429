package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// New returns a cluster for one test, except in a run that is not make integration, where the test is
// skipped. A cluster without options is one of the pool, if there is a pool: the test has it alone, and
// leaves it as it found it. Else it is started for the test.
func New(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	skip.UnlessIntegration(t)
	var c *Cluster
	var err error
	if len(options) == 0 {
		c, err = pooled(t.TempDir())
	}
	if c == nil && err == nil {
		c, err = Start(t.TempDir(), options...)
	}
	if errors.Is(err, repo.ErrNoAssets) {
		skip.Now(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// InstallCRD installs a definition of the module openshift/api, or replaces it by that of another feature set, and waits
// until it is in effect.
func (c *Cluster) InstallCRD(t *testing.T, file string) {
	t.Helper()
	api, err := OpenShiftAPI()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(api, filepath.FromSlash(file))
	for _, args := range [][]string{{"apply", "--server-side", "--force-conflicts", "-f", file}, {"wait", "--for=condition=Established", "--timeout=60s", "-f", file}} {
		if out, err := c.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatalf("kubectl %q: %v\n%s", args, err, out)
		}
	}
}

// Apply does what kubectl apply does.
func (c *Cluster) Apply(t *testing.T, manifests string) {
	t.Helper()
	if out, err := c.Kubectl(t.Context(), manifests, "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// ApplyWithStatus applies manifests, a document after the other, with what they have as status.
func (c *Cluster) ApplyWithStatus(t *testing.T, manifests string) {
	t.Helper()
	c.Apply(t, manifests)
	var withStatus []string
	for _, document := range strings.Split(manifests, "---\n") {
		if strings.Contains(document, "\nstatus:") {
			withStatus = append(withStatus, document)
		}
	}
	if out, err := c.Kubectl(t.Context(), strings.Join(withStatus, "---\n"), "apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// KubeconfigAs returns a kubeconfig for another user.
func (c *Cluster) KubeconfigAs(t *testing.T, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range config.AuthInfos {
		info.Impersonate = user
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
