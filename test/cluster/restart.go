package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mirrorset-guard/mirrorset-guard/test/ports"
)

// Restartable is an Option for a cluster whose API server is killed and started again. Its port is one
// that the system does not give away meanwhile, as it may do with those that envtest chooses.
func Restartable(c *envtest.ControlPlane) {
	addresses, err := ports.Free("127.0.0.1", 1)
	if err != nil {
		return // envtest's choice is most often as good
	}
	serving := &c.GetAPIServer().SecureServing
	serving.Address, serving.Port, _ = net.SplitHostPort(addresses[0]) // it has been listened on
}

// KillAPIServer kills the API server, as a node that loses its power would. StartAPIServer
// starts it again.
func (c *Cluster) KillAPIServer() error {
	if c.restarted != nil {
		return errors.Join(c.restarted.Process.Kill(), ended(c.restarted))
	}
	process, args, err := c.apiServer()
	if err != nil {
		return err
	}
	c.apiServerArgs = args
	return process.Kill() // envtest waits for it
}

// StartAPIServer starts an API server like the one that was killed, and waits until it serves.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	c.restarted = exec.Command(c.apiServerArgs[0], c.apiServerArgs[1:]...)
	if err := c.restarted.Start(); err != nil {
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, nil
	})
}

// apiServer finds the API server of c among the processes that this one has started: envtest
// keeps it to itself.
func (c *Cluster) apiServer() (*os.Process, []string, error) {
	host, err := url.Parse(c.Config.Host)
	if err != nil {
		return nil, nil, err
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		args := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
		if err != nil || filepath.Base(args[0]) != "kube-apiserver" || !strings.Contains(string(data), "--secure-port="+host.Port()+"\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, nil, err
		}
		process, err := os.FindProcess(pid)
		return process, args, err
	}
	return nil, nil, fmt.Errorf("no kube-apiserver listens on %s", c.Config.Host)
}

// ended waits for the end of a process that was killed, which is no failure.
func ended(cmd *exec.Cmd) error {
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}
