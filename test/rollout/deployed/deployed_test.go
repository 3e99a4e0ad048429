package deployed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// TestDeployed: whatever a cluster does to the guard costs no change, as long as it has two
// replicas or more. If it has one, that may be drained, and changes are kept out until the next
// one is ready.
func TestDeployed(t *testing.T) {
	registries.Need(t)
	binary := filepath.Join(t.TempDir(), "mirrorset-guard")
	must(t, cluster.BuildRelease(binary))
	for _, by := range []routing{
		{name: "as on OpenShift", direct: true},
		{name: "by kube-proxy", lag: 500 * time.Millisecond},
	} {
		// One after the other: an API server that gets no processor for 5 s after it has connected
		// finds that a replica which ends has closed the connection (http.Server.Shutdown).
		if by.direct || os.Getenv("ROLLOUT_FULL") != "" {
			t.Run(by.name, func(t *testing.T) { test(t, by, binary) })
		}
	}
}

func test(t *testing.T, by routing, binary string) {
	i := install(t, by, binary)
	i.settle(t, 2)
	load.AwaitGuarded(t, i.api)
	for _, step := range []struct {
		what     string
		replicas int
		disrupt  func(t *testing.T, replicas int)
		under    func(t testing.TB, api dynamic.Interface, what string, disrupt func())
	}{
		{"rolling restart", 2, i.restart, load.Under},
		{"node drain", 2, i.drain, load.Under},
		{"drain of two nodes at once", 2, i.drainTwo, load.Under},
		{"scaling up", 3, i.scale, load.Under},
		{"rolling restart", 3, i.restart, load.Under},
		{"node drain", 3, i.drain, load.Under},
		{"scaling down", 1, i.scale, load.Under},
		{"node drain", 1, i.drain, load.UnderOutage},
		{"scaling up", 2, i.scale, load.Under},
	} {
		step.under(t, i.api, fmt.Sprintf("%s, replicas: %d", step.what, step.replicas), func() { step.disrupt(t, step.replicas) })
	}
	for _, p := range i.kubelet.ended() {
		if i.network.connections(p.ip) == 0 {
			t.Errorf("pod %s was never used", p.Name)
		}
	}
}

func (i *installation) scale(t *testing.T, replicas int) {
	i.guardctl(t, "scale", "deployment/"+webhook.ServiceName, fmt.Sprint("--replicas=", replicas))
	i.settle(t, replicas)
}

// guardctl runs kubectl in the guard's namespace.
func (i *installation) guardctl(t *testing.T, args ...string) {
	t.Helper()
	i.kubectl(t, "", append(args, "--namespace", webhook.Namespace)...)
}

func (i *installation) restart(t *testing.T, replicas int) {
	before := i.settle(t, replicas)
	i.guardctl(t, "rollout", "restart", "deployment/"+webhook.ServiceName)
	i.guardctl(t, "rollout", "status", "deployment/"+webhook.ServiceName, "--timeout", load.MaxWait.String())
	for name := range i.settle(t, replicas) {
		if before[name] != "" {
			t.Errorf("pod %s was not replaced", name)
		}
	}
}

// drain drains the node of a replica.
func (i *installation) drain(t *testing.T, replicas int) {
	before := i.settle(t, replicas)
	node := i.occupied(before)[0]
	i.startDrain(t, node).await(t)
	i.left(t, node, i.settle(t, replicas))
	i.kubectl(t, "", "uncordon", node)
}

// drainTwo drains the nodes of two replicas at the same time, while no other node has room. The
// budget lets one replica go, and holds the other back until the first has found a place.
func (i *installation) drainTwo(t *testing.T, replicas int) {
	before := i.settle(t, replicas)
	drained := i.occupied(before)[:2]
	for _, node := range i.nodes {
		i.kubectl(t, "", "cordon", node)
	}
	drains := []*drain{i.startDrain(t, drained[0]), i.startDrain(t, drained[1])}
	load.Await(t, "the budget holds one back", func(context.Context) error {
		for _, d := range drains {
			if strings.Contains(d.output(), "violate the pod's disruption budget") {
				return nil
			}
		}
		return errors.New(drains[0].output() + drains[1].output())
	})
	for _, node := range i.nodes {
		if !slices.Contains(drained, node) {
			i.kubectl(t, "", "uncordon", node)
		}
	}
	for _, d := range drains {
		d.await(t)
	}
	after := i.settle(t, replicas)
	for _, node := range drained {
		i.left(t, node, after)
		i.kubectl(t, "", "uncordon", node)
	}
}

// occupied returns the nodes that have a replica.
func (i *installation) occupied(where map[string]string) []string {
	return slices.Compact(slices.Sorted(maps.Values(where)))
}

// left wants no replica on a node that was drained.
func (i *installation) left(t *testing.T, node string, where map[string]string) {
	t.Helper()
	if slices.Contains(i.occupied(where), node) {
		t.Errorf("after %s was drained, pods are on %v", node, where)
	}
}

// A drain is one under way.
type drain struct {
	ended chan struct{}
	err   error // once it has ended

	mu   sync.Mutex
	said bytes.Buffer
}

// startDrain starts to drain a node as an administrator does.
func (i *installation) startDrain(t *testing.T, node string) *drain {
	t.Helper()
	d := &drain{ended: make(chan struct{})}
	command := i.KubectlCommand(t.Context(), "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout", load.MaxWait.String())
	command.Stdout, command.Stderr = d, d
	must(t, command.Start())
	go func() {
		d.err = command.Wait()
		close(d.ended)
	}()
	t.Cleanup(func() { <-d.ended }) // its context has ended
	return d
}

// Write takes what kubectl says.
func (d *drain) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.Write(text)
}

func (d *drain) output() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.String()
}

func (d *drain) await(t *testing.T) {
	t.Helper()
	<-d.ended
	if d.err != nil {
		t.Errorf("kubectl drain: %v\n%s", d.err, d.output())
	}
}
