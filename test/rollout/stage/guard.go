package stage

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/guard"
)

// installed are what the guard finds in any cluster.
const installed = `
apiVersion: v1
kind: Namespace
metadata: {name: openshift-config-managed}
---
apiVersion: v1
kind: Secret
metadata: {namespace: openshift-config, name: pull-secret}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths": {}}'}
`

// InstallGuard builds the guard and has the API server ask it from now on, by the webhooks of
// its manifests. It is ready when this returns; the API server may take a moment to ask.
// Hosts are those of the registries that it may want. It returns the file of the program.
func (s *Stage) InstallGuard(ctx context.Context, r *Registries, hosts ...string) string {
	s.t.Helper()
	dir := s.t.TempDir()
	binary := filepath.Join(dir, "mirrorset-guard")
	s.must(cluster.BuildGuard(binary))
	ca, err := certificates.SelfSigned(dir, []string{"127.0.0.1"}, 24*time.Hour)
	s.must(err)
	s.Apply(ctx, installed)
	namespace, err := manifests.Base.ReadFile("base/namespace.yaml")
	s.must(err)
	s.Apply(ctx, string(namespace))
	listen, health, metrics := guard.FreeAddress(s.t), guard.FreeAddress(s.t), guard.FreeAddress(s.t)
	args := []string{
		"serve", "--kubeconfig", s.Kubeconfig, "--tls-dir", dir, "--webhook-bind-address", listen, "--health-probe-bind-address", health, "--metrics-bind-address", metrics,
		"--registry-ca", r.CA, "--shutdown-delay", "0s",
	}
	for _, host := range hosts {
		args = append(args, "--resolve", host+"="+r.Front.Addr(host))
	}
	startProgram(s.t, binary, args...)
	s.Wait(ctx, "the guard to be ready", func() (bool, error) { return isReady(ctx, "http://"+health+"/readyz") })
	config, err := guard.Webhooks("https://"+listen, ca)
	s.must(err)
	text, err := yaml.Marshal(config)
	s.must(err)
	s.Apply(ctx, string(text))
	return binary
}

func isReady(ctx context.Context, url string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", body)
	}
	return err == nil, err
}
