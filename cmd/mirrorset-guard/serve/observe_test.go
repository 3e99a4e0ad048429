package serve

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
)

// TestMetricsCertificate: --metrics-tls-dir is for metrics alone, and follows what is mounted there.
func TestMetricsCertificate(t *testing.T) {
	api := &rest.Config{Host: "https://127.0.0.1:1"} // makes no connection before it runs
	dirs := map[string]string{"reviews.example.com": t.TempDir(), "metrics.example.com": t.TempDir()}
	for host, dir := range dirs {
		if _, err := certificates.SelfSigned(dir, []string{host}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	g := &guard{options: &serveOptions{tlsDir: dirs["reviews.example.com"]}, registry: prometheus.NewRegistry()}
	g.options.observe = observeFlags{address: ":8443", tlsDir: dirs["metrics.example.com"]}
	if err := g.options.observe.validate(); err != nil {
		t.Fatal(err)
	}
	if err := g.prepareServing(api); err != nil {
		t.Fatal(err)
	}
	if got := hostOf(t, g.tls.reviewsConfig()); got != "reviews.example.com" {
		t.Errorf("reviews are served as %s", got)
	}
	if got := hostOf(t, g.tls.observedConfig()); got != "metrics.example.com" {
		t.Errorf("metrics are served as %s", got)
	}
	if err := os.WriteFile(filepath.Join(dirs["metrics.example.com"], "tls.crt"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _ = g.tls.observed.Reload()
	if notes := strings.Join(g.tls.notes(), "\n"); !strings.Contains(notes, "an earlier certificate is in use for metrics: ") {
		t.Errorf("notes %q", notes)
	}
	if got := hostOf(t, g.tls.observedConfig()); got != "metrics.example.com" {
		t.Errorf("metrics are served as %s", got)
	}
	if err := (&guard{options: g.options, registry: prometheus.NewRegistry()}).prepareServing(api); err == nil || !strings.HasPrefix(err.Error(), "--metrics-tls-dir: ") {
		t.Errorf("got %v, want it to name the flag", err)
	}
	for _, f := range []observeFlags{{tlsDir: "tls"}, {tlsDir: "tls", address: ":8443", plain: true}} {
		if err := f.validate(); err == nil || !strings.HasPrefix(err.Error(), `--metrics-tls-dir "tls": nothing is served with it`) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// hostOf returns the name in the certificate that a server with config shows.
func hostOf(t *testing.T, config *tls.Config) string {
	t.Helper()
	near, far := net.Pipe()
	server := tls.Server(far, config)
	go func() { _ = server.Handshake() }() // the client says whether it went well
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true})
	if err := client.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	return client.ConnectionState().PeerCertificates[0].DNSNames[0]
}

// TestSaysWhoMayAsk: that strangers may ask is in the log from the start.
func TestSaysWhoMayAsk(t *testing.T) {
	dir := t.TempDir()
	if _, err := certificates.SelfSigned(dir, []string{"reviews.example.com"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	for clientCA, says := range map[string]bool{"": true, filepath.Join(dir, "tls.crt"): false} {
		var logged strings.Builder
		log := funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{})
		g := &guard{options: &serveOptions{tlsDir: dir, clientCA: clientCA}, registry: prometheus.NewRegistry(), log: log}
		if err := g.prepareServing(&rest.Config{Host: "https://127.0.0.1:1"}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(logged.String(), "Any pod that reaches the port may ask") != says {
			t.Errorf("--client-ca %q: %s", clientCA, logged.String())
		}
	}
}
