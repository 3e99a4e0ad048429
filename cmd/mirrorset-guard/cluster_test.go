package main

import (
	"os"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// A realCluster is an API server with OpenShift's kinds.
type realCluster struct{ *cluster.Cluster }

func newCluster(t *testing.T, options ...cluster.Option) realCluster {
	t.Helper()
	return realCluster{cluster.New(t, options...)}
}

// apply does what kubectl apply does.
func (c realCluster) apply(t *testing.T, manifests string) {
	t.Helper()
	if out, err := c.Kubectl(t.Context(), manifests, "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// kubeconfigAs returns a kubeconfig for another user.
func (c realCluster) kubeconfigAs(t *testing.T, user string) string {
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
	file := written(t, "kubeconfig", string(data))
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
