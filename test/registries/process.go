// Package registries runs registries on loopback for tests and for the demo: the
// distribution registry in a process of its own, or go-containerregistry's in this one, and a
// front that serves either under any host name and misbehaves on request.
package registries

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
)

// A Process is a running registry with its content in memory.
type Process struct {
	// Addr is where it listens, "127.0.0.1:port".
	Addr string

	here *httptest.Server // nil if it has a process of its own
	cmd  *exec.Cmd
	done chan struct{}
}

// StartHere starts a registry in this process, in plain HTTP. It reports missing manifests in
// distribution's words.
func StartHere() *Process {
	own := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own.ServeHTTP(&worded{ResponseWriter: w, manifest: strings.Contains(r.URL.Path, "/manifests/")}, r)
	}))
	return &Process{Addr: server.Listener.Addr().String(), here: server}
}

// A worded answers 404 as distribution does.
type worded struct {
	http.ResponseWriter
	manifest, replaced bool
}

// WriteHeader implements http.ResponseWriter.
func (w *worded) WriteHeader(status int) {
	if w.replaced = status == http.StatusNotFound; !w.replaced {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	if w.manifest {
		refuse(w.ResponseWriter, status, "MANIFEST_UNKNOWN", "manifest unknown")
	} else {
		refuse(w.ResponseWriter, status, "NAME_UNKNOWN", "repository name not known to registry")
	}
}

// Write implements io.Writer.
func (w *worded) Write(b []byte) (int, error) {
	if w.replaced {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Binary returns the registry program, or an error that says how to get it.
func Binary() (string, error) {
	path := filepath.Join(repo.Root(), "bin", "k8s", "registry")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the registry is not in place: run test/controlplane/assets (make assets): %w", err)
	}
	return path, nil
}

// listening is what distribution logs once it accepts connections.
var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)

// maxWait is how long a registry may take to listen, and to end once it was killed.
const maxWait = 2 * time.Minute

// StartProcess starts a registry. With certFile and keyFile it speaks TLS,
// without them plain HTTP. Its log goes to logs.
func StartProcess(dir, certFile, keyFile string, logs io.Writer) (*Process, error) {
	program, err := Binary()
	if err != nil {
		return nil, err
	}
	return start(program, dir, configText(certFile, keyFile), logs)
}

// OlderBinary returns Debian's registry, distribution 2.8, or an error that says how to get it.
func OlderBinary() (string, error) {
	path, err := exec.LookPath("docker-registry")
	if err != nil {
		return "", fmt.Errorf("install the package docker-registry: %w", err)
	}
	return path, nil
}

// StartOlderProcess is StartProcess for OlderBinary, in plain HTTP.
func StartOlderProcess(dir string, logs io.Writer) (*Process, error) {
	program, err := OlderBinary()
	if err != nil {
		return nil, err
	}
	return start(program, dir, configText("", ""), logs)
}

// StartCache starts distribution 2.8 as a pull-through cache of an upstream, "http://HOST:PORT".
func StartCache(dir, upstream string, logs io.Writer) (*Process, error) {
	program, err := OlderBinary()
	if err != nil {
		return nil, err
	}
	return start(program, dir, configText("", "")+fmt.Sprintf("proxy: {remoteurl: %q}\n", upstream), logs)
}

func start(program, dir, text string, logs io.Writer) (*Process, error) {
	config := filepath.Join(dir, "registry.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "serve", config)
	cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = logs
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the registry: %w", err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	found := make(chan string, 1)
	go p.read(stderr, logs, found)
	select {
	case p.Addr = <-found:
		return p, nil
	case <-p.done:
		return nil, errors.New("the registry ended before it listened")
	case <-time.After(maxWait):
		return nil, errors.Join(fmt.Errorf("the registry did not listen within %s", maxWait), p.Stop())
	}
}

func configText(certFile, keyFile string) string {
	text := `version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage: {inmemory: {}, delete: {enabled: true}}
http:
  addr: 127.0.0.1:0
`
	if certFile != "" {
		text += fmt.Sprintf("  tls: {certificate: %q, key: %q}\n", certFile, keyFile)
	}
	return text
}

// read copies the log until the process ends, and reports its address.
func (p *Process) read(stderr io.Reader, logs io.Writer, found chan<- string) {
	defer close(p.done)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		fmt.Fprintln(logs, lines.Text())
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			select {
			case found <- m[1]:
			default:
			}
		}
	}
	_ = p.cmd.Wait() // a signal ends it
}

// Stop ends the registry and waits for its end. It may be called twice.
func (p *Process) Stop() error {
	if p.here != nil {
		p.here.Close()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	_ = p.cmd.Process.Kill() // it may be gone already
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return errors.New("the registry does not end")
	}
}
