package disconnected

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// A gateway is a proxy that is reached by TLS, and lets connections through to one host.
type gateway struct {
	address string

	mu    sync.Mutex
	asked map[string]bool // hosts
}

// newGateway starts one with a certificate in dir, that forwards connections to host.
func newGateway(t *testing.T, dir, host, to string) *gateway {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certs.CertFile), filepath.Join(dir, certs.KeyFile))
	must(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	must(t, err)
	g := &gateway{address: listener.Addr().String(), asked: map[string]bool{}}
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.asked[r.Method+" "+r.Host] = true
		g.mu.Unlock()
		if r.Method != http.MethodConnect || r.Host != host+":443" {
			http.Error(w, "this cluster is disconnected", http.StatusForbidden)
			return
		}
		g.forward(w, to)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return g
}

func (g *gateway) forward(w http.ResponseWriter, to string) {
	upstream, err := net.Dial("tcp", to)
	if err != nil {
		http.Error(w, "it does not answer", http.StatusBadGateway)
		return
	}
	defer upstream.Close()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err == nil {
		cluster.Forward(bufferedConn{conn, buffered.Reader}, upstream)
	}
}

// bufferedConn is a connection of which something was read already.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c bufferedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

func (g *gateway) hosts() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var hosts []string
	for h := range g.asked {
		hosts = append(hosts, h)
	}
	slices.Sort(hosts)
	return hosts
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDisconnected: a guard starts where the source of every image is out of reach, and judges: a change to a mirror
// that has the images is admitted, one to a mirror that lacks them is refused.
func TestDisconnected(t *testing.T) {
	registries.Need(t)
	c := cluster.New(t)
	front := load.Registry(t)
	dir, tlsDir := t.TempDir(), t.TempDir()
	proxyCA, err := certificates.SelfSigned(dir, []string{"127.0.0.1"}, time.Hour)
	must(t, err)
	proxy := newGateway(t, dir, load.MirrorHost, front.Addr(load.MirrorHost))
	apply(t, c, load.Workload+guard.PullSecret, map[string]string{"user-ca-bundle ca-bundle.crt": string(proxyCA), "registry-cas " + load.MirrorHost: string(front.CA)})
	apply(t, c, `
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster}
spec: {additionalTrustedCA: {name: registry-cas}}
---
apiVersion: config.openshift.io/v1
kind: Proxy
metadata: {name: cluster}
spec: {trustedCA: {name: user-ca-bundle}, httpsProxy: "https://`+proxy.address+`"}
`, nil)
	kubectl(t, c, "", "patch", "proxies.config.openshift.io", "cluster", "--subresource=status", "--type=merge", "-p", `{"status":{"httpsProxy":"https://`+proxy.address+`","noProxy":".cluster.local,.svc"}}`)

	binary := filepath.Join(dir, "mirrorset-guard")
	must(t, cluster.BuildRelease(binary))
	ca, err := certificates.SelfSigned(tlsDir, []string{"127.0.0.1"}, time.Hour)
	must(t, err)
	for _, mode := range []string{"off", "only"} {
		t.Run("fips140="+mode, func(t *testing.T) {
			p := startIn(t, mode, binary, "--kubeconfig", c.Kubeconfig, "--tls-dir", tlsDir, "--verify-every", "0")
			p.AwaitReady(t)
			registration, err := guard.Webhooks("https://"+p.Listen, ca)
			must(t, err)
			text, err := yaml.Marshal(registration)
			must(t, err)
			apply(t, c, string(text), nil)
			judges(t, c)
			kubectl(t, c, "", "delete", "validatingwebhookconfiguration", registration.Name)
		})
	}
	for _, h := range proxy.hosts() {
		if h != "CONNECT "+load.MirrorHost+":443" && h != "CONNECT "+load.SourceHost+":443" {
			t.Errorf("the guard wants %s, and nothing needs that", h)
		}
	}
	if !slices.Contains(proxy.hosts(), "CONNECT "+load.MirrorHost+":443") {
		t.Errorf("the mirror was not asked through the proxy; it was asked for %q", proxy.hosts())
	}
}

// startIn starts a guard in a FIPS 140-3 mode. With "only", all cryptography that is not approved fails.
func startIn(t *testing.T, mode, binary string, flags ...string) *guard.Process {
	t.Helper()
	const variable = "GODEBUG"
	before := os.Getenv(variable)
	must(t, os.Setenv(variable, "fips140="+mode))
	defer func() { must(t, os.Setenv(variable, before)) }() // kubectl and others are not in that mode
	return guard.Start(t, binary, flags...)
}

// judges wants the guard to admit a good change and to refuse a bad one.
func judges(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	api := load.Client(t, c.Config)
	load.AwaitGuarded(t, api)
	load.Await(t, "a good change is admitted", func(ctx context.Context) error { return load.Try(ctx, api, "good", load.Good, metav1.DryRunAll) })
	err := load.Try(t.Context(), api, "bad", load.Bad, metav1.DryRunAll)
	if !load.IsRefusal(err) || !strings.Contains(err.Error(), load.MirrorHost+" answers 404") {
		t.Errorf("a change to a mirror that lacks the image: %v", err)
	}
}

// apply applies a manifest, and ConfigMaps in openshift-config with one key each, by "NAME KEY".
func apply(t *testing.T, c *cluster.Cluster, text string, configMaps map[string]string) {
	t.Helper()
	for key, value := range configMaps {
		name, key, _ := strings.Cut(key, " ")
		data, err := yaml.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "openshift-config"}, "data": map[string]string{key: value},
		})
		must(t, err)
		text += fmt.Sprintf("\n---\n%s", data)
	}
	kubectl(t, c, text, "apply", "-f", "-")
}

func kubectl(t *testing.T, c *cluster.Cluster, stdin string, args ...string) {
	t.Helper()
	if out, err := c.Kubectl(t.Context(), stdin, args...); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
