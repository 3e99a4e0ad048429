package clitest

import (
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// A Cluster is an API server with OpenShift's kinds.
type Cluster struct{ *cluster.Cluster }

// NewCluster starts one.
func NewCluster(t *testing.T, options ...cluster.Option) Cluster {
	t.Helper()
	return Cluster{cluster.New(t, options...)}
}

// Apply does what kubectl apply does.
func (c Cluster) Apply(t *testing.T, manifests string) {
	t.Helper()
	if out, err := c.Kubectl(t.Context(), manifests, "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// ApplyWithStatus applies manifests, a document after the other, with what they have as status.
func (c Cluster) ApplyWithStatus(t *testing.T, manifests string) {
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
func (c Cluster) KubeconfigAs(t *testing.T, user string) string {
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
	file := Written(t, "kubeconfig", string(data))
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
