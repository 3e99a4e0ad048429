package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/oracle"
)

// annotation is the prefix of those by which daemon and controllers talk (MCO's
// pkg/daemon/constants).
const annotation = "machineconfiguration.openshift.io/"

// poll is how often a daemon or kubelet looks. Upstream waits 10 s for a drain.
const poll = 200 * time.Millisecond

// Nodes are workers whose daemon and kubelet are played. All else about them is real.
type Nodes struct {
	stage  *Stage
	oracle *oracle.Oracle
	serves func(ref string) bool
	// dir has the files of each rendered config, in a folder of its name.
	dir string

	mu     sync.Mutex
	steps  []string
	busy   map[string]bool
	disk   map[string]string          // by node: the config whose files it has
	images map[string]map[string]bool // by node: what it has pulled
}

// Workers adds nodes that have the config of pool worker, the first the oldest, and plays
// them until the test ends. Serves says whether the registries serve a reference.
func (s *Stage) Workers(ctx context.Context, serves func(ref string) bool, names ...string) *Nodes {
	s.t.Helper()
	n := &Nodes{
		stage: s, oracle: oracle.New(s.t), serves: serves, dir: s.t.TempDir(),
		busy: map[string]bool{}, disk: map[string]string{}, images: map[string]map[string]bool{},
	}
	config := s.Rendered(ctx, "worker", "")
	s.must(n.write(ctx, config))
	for i, name := range names {
		if i > 0 {
			time.Sleep(time.Second) // the node controller goes by their ages, in seconds
		}
		n.disk[name], n.images[name] = config, map[string]bool{}
		s.must(s.Client.Create(ctx, worker(name, config)))
	}
	n.play()
	return n
}

// worker is a node after its first boot.
func worker(name, config string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{"node-role.kubernetes.io/worker": "", corev1.LabelHostname: name, corev1.LabelOSStable: "linux"},
		Annotations: map[string]string{
			annotation + "currentConfig": config, annotation + "desiredConfig": config,
			annotation + "state": "Done", annotation + "reason": "",
			annotation + "desiredDrain": "uncordon-" + config, annotation + "lastAppliedDrain": "uncordon-" + config,
		},
	}}
}

// play runs until the test ends.
func (n *Nodes) play() {
	ctx, stop := context.WithCancel(context.Background())
	var playing sync.WaitGroup
	for _, loop := range []func(context.Context) error{n.beat, n.runPods, func(ctx context.Context) error { return n.update(ctx, &playing) }} {
		playing.Go(func() {
			for ctx.Err() == nil {
				if err := loop(ctx); err != nil && ctx.Err() == nil {
					n.note("error: %v", err)
				}
				sleep(ctx, poll)
			}
		})
	}
	n.stage.t.Cleanup(func() {
		stop()
		playing.Wait()
		if n.stage.t.Failed() {
			for _, step := range n.Steps() {
				n.stage.t.Log(step)
			}
		}
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Steps returns what the nodes have done, in order: "worker-1: drain", "worker-1: done".
func (n *Nodes) Steps() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.steps...)
}

func (n *Nodes) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.steps = append(n.steps, fmt.Sprintf(format, args...))
}

// beat says that the nodes are ready, which their controller forgets after 50 s.
func (n *Nodes) beat(ctx context.Context) error {
	now := metav1.Now()
	status := corev1.NodeStatus{
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now}},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("250")},
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure} {
		status.Conditions = append(status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, LastHeartbeatTime: now})
	}
	status.Capacity = status.Allocatable
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": status.Conditions, "allocatable": status.Allocatable, "capacity": status.Capacity,
	}})
	if err != nil {
		return err
	}
	for name := range n.images {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := n.stage.Client.Status().Patch(ctx, node, client.RawPatch("application/strategic-merge-patch+json", patch)); err != nil {
			return err
		}
	}
	sleep(ctx, 10*time.Second)
	return nil
}

// update starts the daemons' work that the node controller asks for.
func (n *Nodes) update(ctx context.Context, working *sync.WaitGroup) error {
	for name := range n.images {
		var node corev1.Node
		if err := n.stage.Client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return err
		}
		if node.Annotations[annotation+"currentConfig"] == node.Annotations[annotation+"desiredConfig"] || !n.begin(name) {
			continue
		}
		working.Go(func() {
			defer n.end(name)
			if err := n.updateOne(ctx, &node); err != nil && ctx.Err() == nil {
				n.note("%s: degraded: %v", name, err)
				_ = n.annotate(ctx, name, "state", "Degraded", "reason", err.Error())
				sleep(ctx, 5*time.Second)
			}
		})
	}
	return nil
}

func (n *Nodes) begin(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.busy[name]
	n.busy[name] = true
	return !was
}

func (n *Nodes) end(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy[name] = false
}

// updateOne does what the daemon does (updateOnClusterNodes and completeUpdate in MCO's
// pkg/daemon), by its own decision.
func (n *Nodes) updateOne(ctx context.Context, node *corev1.Node) error {
	from, to := node.Annotations[annotation+"currentConfig"], node.Annotations[annotation+"desiredConfig"]
	if err := n.annotate(ctx, node.Name, "state", "Working"); err != nil {
		return err
	}
	decided, err := n.decide(ctx, from, to)
	if err != nil {
		return err
	}
	single := node.Annotations[annotation+"controlPlaneTopology"] == "SingleReplica"
	if decided.Drain && !single && node.Annotations[annotation+"lastAppliedDrain"] != "drain-"+to {
		n.note("%s: drain", node.Name)
		if err := n.request(ctx, node.Name, "drain-"+to); err != nil {
			return err
		}
	}
	if err := n.write(ctx, to); err != nil {
		return err
	}
	n.mu.Lock()
	n.disk[node.Name] = to // pods pull by it from here on
	n.mu.Unlock()
	n.note("%s: files", node.Name)
	if err := n.request(ctx, node.Name, "uncordon-"+to); err != nil {
		return err
	}
	if err := n.annotate(ctx, node.Name, "currentConfig", to, "state", "Done", "reason", ""); err != nil {
		return err
	}
	n.note("%s: done", node.Name)
	return nil
}

// request asks the drain controller, and waits for as long as it takes.
func (n *Nodes) request(ctx context.Context, name, what string) error {
	if err := n.annotate(ctx, name, "desiredDrain", what); err != nil {
		return err
	}
	for {
		var node corev1.Node
		if err := n.stage.Client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return err
		}
		if node.Annotations[annotation+"lastAppliedDrain"] == what {
			return nil
		}
		sleep(ctx, poll)
	}
}

// annotate sets annotations, given as names and values, in one patch.
func (n *Nodes) annotate(ctx context.Context, name string, pairs ...string) error {
	set := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		set[annotation+pairs[i]] = pairs[i+1]
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": set}})
	if err != nil {
		return err
	}
	return n.stage.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch("application/merge-patch+json", patch))
}

func (n *Nodes) decide(ctx context.Context, from, to string) (*oracle.Decided, error) {
	var before, after mcfgv1.MachineConfig
	if err := n.stage.Client.Get(ctx, client.ObjectKey{Name: from}, &before); err != nil {
		return nil, err
	}
	if err := n.stage.Client.Get(ctx, client.ObjectKey{Name: to}, &after); err != nil {
		return nil, err
	}
	answers, err := n.oracle.Ask(oracle.Question{Update: &oracle.Update{Before: before.Spec.Config.Raw, After: after.Spec.Config.Raw}})
	if err != nil {
		return nil, err
	}
	if decided := answers[0].Decided; decided.Error == "" {
		return decided, nil
	}
	return nil, fmt.Errorf("deciding whether to drain: %s", answers[0].Decided.Error)
}

// write writes the files of a rendered config that the runtime reads.
func (n *Nodes) write(ctx context.Context, config string) error {
	var mc mcfgv1.MachineConfig
	if err := n.stage.Client.Get(ctx, client.ObjectKey{Name: config}, &mc); err != nil {
		return err
	}
	answers, err := n.oracle.Ask(oracle.Question{Read: mc.Spec.Config.Raw})
	if err != nil {
		return err
	}
	for _, path := range []string{mirrors.RegistriesConfPath, mirrors.SearchDropInPath} {
		to := filepath.Join(n.dir, config, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(to, answers[0].Rendered.Files[path], 0o600); err != nil {
			return err
		}
	}
	return nil
}
