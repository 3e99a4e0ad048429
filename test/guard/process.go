// Package guard runs the guard as a process, for tests of it as it is installed.
package guard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/ports"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// User is the guard's account in the manifests, as the API server knows it.
const User = "system:serviceaccount:" + webhook.Namespace + ":" + webhook.ServiceName

const (
	// Patience is how long a test waits for what must happen soon.
	Patience = 3 * time.Minute
	often    = 20 * time.Millisecond
)

// PullSecret is the global one, with which every cluster is installed. Answers without it prove nothing
// about nodes.
const PullSecret = `
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-config}
---
apiVersion: v1
kind: Secret
metadata: {namespace: openshift-config, name: pull-secret}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths": {}}'}
`

// WebhooksAt returns the webhook configuration of the manifests, changed
// in one point: it reaches a guard that is not a service in the cluster, at base
// ("https://127.0.0.1:9443") and the service's path, with a certificate that
// caBundle (PEM) vouches for.
func WebhooksAt(base string, caBundle []byte) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	c, err := manifests.WebhookConfiguration()
	if err != nil {
		return nil, err
	}
	for i := range c.Webhooks {
		client := &c.Webhooks[i].ClientConfig
		url := base + *client.Service.Path
		*client = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: caBundle}
	}
	return c, nil
}

// Webhooks is the webhook configuration of the manifests for a guard at a URL, with the most time for a review that there is:
// how fast a busy machine is, is no matter of most tests.
func Webhooks(url string, ca []byte) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	config, err := WebhooksAt(url, ca)
	if err != nil {
		return nil, err
	}
	for i := range config.Webhooks {
		config.Webhooks[i].TimeoutSeconds = new(int32(30))
	}
	return config, nil
}

// Kubeconfig writes a kubeconfig with a token of the guard's own account into a folder, and
// returns the file.
func Kubeconfig(t testing.TB, c *cluster.Cluster, dir string) string {
	t.Helper()
	path, err := WriteKubeconfig(t.Context(), c, dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// KubeconfigOf is Kubeconfig for another account of the namespace.
func KubeconfigOf(t testing.TB, c *cluster.Cluster, dir, account string) string {
	t.Helper()
	path, err := writeKubeconfig(t.Context(), c, dir, account)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// WriteKubeconfig is Kubeconfig with flags of `kubectl create token`.
func WriteKubeconfig(ctx context.Context, c *cluster.Cluster, dir string, flags ...string) (path string, err error) {
	return writeKubeconfig(ctx, c, dir, webhook.ServiceName, flags...)
}

func writeKubeconfig(ctx context.Context, c *cluster.Cluster, dir, account string, flags ...string) (path string, err error) {
	token, err := c.Kubectl(ctx, "", append([]string{"create", "token", account, "--namespace", webhook.Namespace, "--duration", "4h"}, flags...)...)
	if err != nil {
		return "", fmt.Errorf("kubectl create token: %w: %s", err, token)
	}
	path = filepath.Join(dir, account+".kubeconfig")
	text := fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority-data: %q}}]
users: [{name: guard, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: guard}}]
current-context: test
`, c.Config.Host, base64.StdEncoding.EncodeToString(c.Config.CAData), strings.TrimSpace(token))
	// In one step: a guard that was started before may be reading the file.
	next := path + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return "", err
	}
	return path, os.Rename(next, path)
}

// FreeAddress returns an unused address on loopback.
func FreeAddress(t testing.TB) string {
	t.Helper()
	addresses, err := ports.Free("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	return addresses[0]
}

// A Process is a guard that serves.
type Process struct {
	// Listen, Health and Metrics are the addresses of its ports; that of metrics is plain HTTP.
	Listen, Health, Metrics string

	cmd   *exec.Cmd
	ended chan struct{}
	log   bytes.Buffer // to be read after it has ended, as is err
	err   error
}

// Tail returns the end of a log, without the ends of long lines: a test's own words about its failure
// have to stand out beside it.
func Tail(log []byte) string {
	const maxLines, maxLine = 12, 300
	lines := slices.Collect(strings.Lines(string(log)))
	var b strings.Builder
	for _, line := range lines[max(0, len(lines)-maxLines):] {
		b.WriteString(text.Cut(strings.TrimRight(line, "\n"), maxLine) + "\n")
	}
	return b.String()
}

// Start starts a guard of a program with further flags of serve. It ends with the test at the
// latest; the end of its log is shown if the test fails.
func Start(t testing.TB, binary string, flags ...string) *Process {
	t.Helper()
	return StartIn(t, nil, binary, flags...)
}

// StartIn is Start with variables of the environment ("NAME=value") beside those of the test.
func StartIn(t testing.TB, env []string, binary string, flags ...string) *Process {
	t.Helper()
	p := &Process{Listen: FreeAddress(t), Health: FreeAddress(t), Metrics: FreeAddress(t), ended: make(chan struct{})}
	p.cmd = exec.Command(binary, append([]string{
		"serve", "--webhook-bind-address", p.Listen, "--health-probe-bind-address", p.Health, "--metrics-bind-address", p.Metrics, "--metrics-plain", "--allow-loopback", "--shutdown-delay", "0s",
	}, flags...)...)
	p.cmd.Stderr = &p.log
	p.cmd.Env = append(append(os.Environ(), "GORACE="+cluster.GORACE), env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Stop(t)
		if t.Failed() {
			t.Logf("the end of a guard's log:\n%s", Tail(p.log.Bytes()))
		}
	})
	return p
}

// Stop stops the guard as a cluster does, which it takes for a good end. It may be called
// twice.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-p.ended:
	case <-time.After(Patience):
		_ = p.cmd.Process.Kill()
		t.Error("the guard does not end")
		<-p.ended
	}
	if p.err != nil {
		t.Errorf("the guard ended: %v", p.err)
	}
}

// Log returns the log of a guard that has ended.
func (p *Process) Log() string { return p.log.String() }

// Kill ends the guard as a node does that loses its power.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	p.err = nil // as it was meant to
}

// Resident returns how many bytes the guard has resident, 0 if it has ended.
func (p *Process) Resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// ForgetPeak has PeakResident be the most from now on.
func (p *Process) ForgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0) // proc_pid_clear_refs(5)
}

// PeakResident returns how many bytes the guard had resident at most, 0 if it has ended.
func (p *Process) PeakResident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, peak, _ := strings.Cut(string(text), "VmHWM:")
	var kB int64
	_, _ = fmt.Sscan(peak, &kB)
	return kB << 10
}

// AwaitReady waits until the guard is ready.
func (p *Process) AwaitReady(t testing.TB) {
	t.Helper()
	p.Eventually(t, "the guard is ready", p.Ready)
}

// Ready reports whether the guard is ready.
func (p *Process) Ready() bool {
	status, _ := p.Readyz()
	return status == http.StatusOK
}

// Readyz returns the answer of /readyz; status is 0 if there was none.
func (p *Process) Readyz() (status int, body string) {
	resp, err := http.Get("http://" + p.Health + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// Value returns the value of a metric for the value of a label, any if that is "", and -1 if
// there is none.
func (p *Process) Value(name, label string) float64 {
	resp, err := http.Get("http://" + p.Metrics + "/metrics")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		series, text, _ := strings.Cut(lines.Text(), " ")
		family, labels, _ := strings.Cut(series, "{")
		if family != name || label != "" && !strings.Contains(labels, `"`+label+`"`) {
			continue
		}
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			return v
		}
	}
	return -1
}

// Eventually waits until ok is true. It polls, as ok depends on another process.
func (p *Process) Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(often)
	defer ticker.Stop()
	deadline := time.After(Patience)
	for !ok() {
		select {
		case <-p.ended:
			t.Fatalf("the guard has ended, before: %s", what)
		case <-deadline:
			status, body := p.Readyz()
			t.Fatalf("still not after %s: %s; /readyz answers %d %s", Patience, what, status, body)
		case <-ticker.C:
		}
	}
}
