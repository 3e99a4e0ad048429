package attack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
)

// TestClientCA: with --client-ca only the API server is answered, which has a client certificate by its
// AdmissionConfiguration; the file may be exchanged for one that has another CA.
func TestClientCA(t *testing.T) {
	if !campaign.On() { // which measures times
		t.Parallel()
	}
	dir := t.TempDir()
	clients, others := filepath.Join(dir, "clients"), filepath.Join(dir, "others")
	for _, folder := range []string{clients, others} {
		must(t, os.Mkdir(folder, 0o700))
	}
	ca, err := certificates.Client(clients, "kube-apiserver", time.Hour)
	must(t, err)
	other, err := certificates.Client(others, "somebody", time.Hour)
	must(t, err)
	file := filepath.Join(dir, "client-ca.crt")
	must(t, os.WriteFile(file, ca, 0o600))

	s := newStage(t, cluster.WithAdmission(admissionConfiguration(t, dir, clients)))
	s.binary = program(t, s.dir)
	s.wire, err = cluster.NewWire(s.cluster.Config)
	must(t, err)
	t.Cleanup(s.wire.Close)
	g := s.start(t, s.binary, "--client-ca", file)
	s.guards = []*guard{g}
	g.AwaitReady(t)
	config, err := process.WebhooksAt("https://"+g.Listen, s.ca)
	must(t, err)
	text, err := yaml.Marshal(config)
	must(t, err)
	s.hand(t, string(text), "create", "-f", "-")

	alice := s.as(t, "alice")
	g.Eventually(t, "the API server is answered", func() bool {
		err := alice.dryRun(t.Context(), tagSet("probe", "quay.io/shop", "mirror.example.com/empty"))
		return err != nil && strings.Contains(err.Error(), "is refused")
	})
	insist(t, func() error {
		return alice.create(t.Context(), tagSet("good", "good.example.com", "mirror.example.com/x"))
	})
	review := forged(t, "kubernetes-admin", tagSet("forged", "victim.example.com", "mirror.example.com/x"))
	for name, from := range map[string]stranger{"no certificate": newStranger(t, 400), "another's": newStranger(t, 401).with(t, others)} {
		if code, answer := from.post(context.WithoutCancel(t.Context()), g, review, 15*time.Second); code != http.StatusUnauthorized || answer != nil {
			t.Errorf("%s: answered %d %+v", name, code, answer)
		}
	}
	if n := g.Value("mirrorset_guard_requests_refused_total", "unauthenticated"); n != 2 {
		t.Errorf("%v strangers are counted", n)
	}
	if !g.Ready() || g.Value("mirrorset_guard_ready", "") != 1 {
		t.Error("probes and metrics need no certificate")
	}

	must(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	g.Eventually(t, "it says that it cannot use the file", func() bool {
		_, notes := g.Readyz()
		return strings.Contains(notes, "note: earlier CAs of clients are in use: reading the CAs of clients: "+file+" holds no certificate")
	})
	insist(t, func() error {
		return alice.dryRun(t.Context(), tagSet("good-2", "good-2.example.com", "mirror.example.com/x"))
	})
	must(t, os.WriteFile(file, other, 0o600))
	g.Eventually(t, "the API server has no certificate of the new CA", func() bool {
		err := alice.dryRun(t.Context(), tagSet("good-3", "good-3.example.com", "mirror.example.com/x"))
		return err != nil && strings.Contains(err.Error(), "no client certificate signed by the CA of the API servers")
	})
	if code, _ := newStranger(t, 402).with(t, others).post(t.Context(), g, review, 15*time.Second); code != http.StatusOK {
		t.Errorf("who has one is answered %d", code)
	}
}

// admissionConfiguration writes files by which an API server shows webhooks the certificate in a
// folder, and returns that for its flag.
func admissionConfiguration(t *testing.T, dir, certificate string) string {
	t.Helper()
	kubeconfig, path := filepath.Join(dir, "webhooks.kubeconfig"), filepath.Join(dir, "admission.yaml")
	must(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
users:
- name: "*"
  user: {client-certificate: %[1]s/tls.crt, client-key: %[1]s/tls.key}
`, certificate), 0o600))
	must(t, os.WriteFile(path, fmt.Appendf(nil, `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionWebhook
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: %s}
`, kubeconfig), 0o600))
	return path
}
