package disruption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
)

// timings are those of a cluster around the guard.
type timings struct {
	// drain is the flag of that name.
	drain time.Duration
	// lag is how long a Service goes on sending connections to a pod that is being
	// deleted: until the EndpointSlice has reached every node.
	lag time.Duration
}

// A pod is a process of the guard, as a kubelet runs it.
type pod struct {
	name           string
	listen, health string
	tlsDir         string
	process        *exec.Cmd
	log            bytes.Buffer
	ended          chan error
	deleted        bool
}

// start starts a pod; it is not in the Service yet.
func (s *stage) start(t *testing.T, tlsDir string, with timings) *pod {
	t.Helper()
	s.pods++
	p := &pod{name: fmt.Sprint("guard-", s.pods), listen: guard.FreeAddress(t), health: guard.FreeAddress(t), tlsDir: tlsDir, ended: make(chan error, 1)}
	p.process = exec.Command(s.binary, append([]string{
		"serve", "--kubeconfig", s.Kubeconfig, "--tls-dir", tlsDir, "--webhook-bind-address", p.listen, "--health-probe-bind-address", p.health,
		"--shutdown-delay", with.drain.String(), "--registry-ca", filepath.Join(s.dir, "registry.pem"), "--allow-loopback", "--verify-every", "0",
		"--resolve", load.MirrorHost + "=" + s.registry.address, "--resolve", load.SourceHost + "=" + s.registry.address,
	}, s.flags...)...)
	p.process.Env = append(os.Environ(), "GORACE="+cluster.GORACE)
	p.process.Stderr = &p.log
	if err := p.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.process.Wait() }()
	t.Cleanup(func() { s.delete(t, p, timings{}) })
	return p
}

// probe is the kubelet's: it returns nil if the pod is ready, and what it says in any case.
func (p *pod) probe(ctx context.Context) (answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.health+"/readyz", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer = read(response.Body)
	if response.StatusCode != http.StatusOK {
		return answer, errors.New(answer)
	}
	return answer, nil
}

// join waits until a pod is ready, and adds it to the Service.
func (s *stage) join(t *testing.T, p *pod) {
	t.Helper()
	load.Await(t, p.name+" is ready", func(ctx context.Context) error {
		_, err := p.probe(ctx)
		return err
	})
	s.guard.add(p.listen)
}

// delete deletes a pod: it gets SIGTERM, leaves the Service a while later, and ends before it
// would be killed.
func (s *stage) delete(t *testing.T, p *pod, with timings) {
	t.Helper()
	if p.deleted {
		return
	}
	p.deleted = true
	if err := p.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
	leaves := time.AfterFunc(with.lag, func() { s.guard.remove(p.listen) })
	defer leaves.Stop()
	select {
	case err := <-p.ended:
		if err != nil || t.Failed() {
			t.Errorf("%s ended: %v\n%s", p.name, err, guard.Tail(p.log.Bytes()))
		}
	case <-time.After(gracePeriod):
		_ = p.process.Process.Kill() // it is still there
		err := <-p.ended
		t.Errorf("%s did not end within %s: %v\n%s", p.name, gracePeriod, err, guard.Tail(p.log.Bytes()))
	}
	s.guard.remove(p.listen)
}

// gracePeriod is terminationGracePeriodSeconds of the deployment.
const gracePeriod = 45 * time.Second
