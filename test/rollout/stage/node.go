package stage

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/oracle"
)

// annotation is the prefix of those by which daemon and controllers talk (MCO's
// pkg/daemon/constants).
const annotation = "machineconfiguration.openshift.io/"

// poll is how often a daemon or kubelet looks. Upstream waits 10 s for a drain.
const poll = 200 * time.Millisecond

// A Node is one of the stage.
type Node struct {
	Name string
	// Roles are those that it has labels for: pools select by them.
	Roles []string
	// Zone is its topology.kubernetes.io/zone, "" for none.
	Zone string
	// Cached are the images that it has pulled before.
	Cached []string
	// Taints keep pods away.
	Taints []corev1.Taint
	// Unmanaged is set for a node that no pool updates.
	Unmanaged bool
}

// Nodes are those of a stage, whose daemon and kubelet are played. All else about them is
// real.
type Nodes struct {
	stage      *Stage
	oracle     *oracle.Oracle
	registries *Registries
	// dir has the files of each rendered config, in a folder of its name.
	dir   string
	names []string

	mu    sync.Mutex
	nodes map[string]*state
	pods  map[string]seen // by "namespace/name"
	// lap is how long the kubelets last took for all pods, and lapBegan when they last began.
	lap      time.Duration
	lapBegan time.Time
	// daemons are the nodes on which a pod of the daemon runs, nil where that does not matter.
	daemons map[string]bool
	// controlled is set while the controllers of MCO run, where that depends on their pod.
	controlled bool
}

// A state is what the stage knows of a node beside what the API server has.
type state struct {
	pool   string
	busy   bool
	fails  bool     // the daemon is to give up on the next config
	failed string   // the config that the daemon could not apply
	disk   string   // the config whose files it has
	down   bool     // it reboots
	images []string // what it has pulled
	// pinned are images that it holds by PinnedImageSets. As on a node with many images, its status does not name them.
	pinned []string
	told   map[string]mcfgv1.MachineConfigNodeStatusPinnedImageSet // what its MachineConfigNode says, by set
	faults
}

// AddNodes adds nodes, the first the oldest, and plays them until the test ends. It returns
// when the pools have them all as updated.
func (s *Stage) AddNodes(ctx context.Context, registries *Registries, nodes ...Node) *Nodes {
	s.t.Helper()
	n := &Nodes{
		stage: s, oracle: oracle.New(s.t), registries: registries, dir: s.t.TempDir(),
		nodes: map[string]*state{}, pods: map[string]seen{},
	}
	var configs []string
	created := map[string]time.Time{} // by zone and pool
	for _, node := range nodes {
		among := node.Zone + "/"
		if !node.Unmanaged {
			among += s.poolOf(node)
		}
		sleep(ctx, time.Second-time.Since(created[among])) // the node controller goes by their ages, in seconds
		s.must(s.Client.Create(ctx, node.Object()))
		created[among] = time.Now()
		n.names = append(n.names, node.Name)
	}
	for _, node := range nodes {
		if node.Unmanaged {
			n.nodes[node.Name] = &state{images: slices.Clone(node.Cached), told: map[string]mcfgv1.MachineConfigNodeStatusPinnedImageSet{}}
			continue
		}
		pool := s.poolOf(node)
		config := s.Rendered(ctx, pool, "")
		if !slices.Contains(configs, config) {
			s.must(n.write(ctx, config))
			configs = append(configs, config)
		}
		n.nodes[node.Name] = &state{pool: pool, disk: config, images: slices.Clone(node.Cached), told: map[string]mcfgv1.MachineConfigNodeStatusPinnedImageSet{}}
		s.must(n.annotate(ctx, node.Name, "currentConfig", config, "desiredConfig", config, "state", "Done", "reason", "",
			"desiredDrain", "uncordon-"+config, "lastAppliedDrain", "uncordon-"+config))
	}
	n.play()
	n.AwaitUpdated(ctx)
	return n
}

// poolOf returns the pool that updates a node: a custom one before worker, and master before
// any.
func (s *Stage) poolOf(node Node) string {
	pool := ""
	for _, p := range s.setup.Pools {
		if slices.Contains(node.Roles, p.Name) && (pool == "" || pool == "worker") {
			pool = p.Name
		}
	}
	if pool == "" {
		s.t.Fatalf("node %s is in no pool", node.Name)
	}
	return pool
}

// PoolOf returns the pool that updates a node.
func (n *Nodes) PoolOf(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.nodes[name]; s != nil {
		return s.pool
	}
	return ""
}

// Object is the node as its kubelet registers it. It has an annotation from the start, as
// without any the node controller of MCO crashes (node_controller.go:1199).
func (n Node) Object() *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.Name,
		Labels: map[string]string{
			corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		},
		Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}}
	for _, role := range n.Roles {
		node.Labels["node-role.kubernetes.io/"+role] = ""
	}
	if n.Zone != "" {
		node.Labels[corev1.LabelTopologyZone] = n.Zone
	}
	node.Spec.Taints = n.Taints
	return node
}

// play runs until the test ends.
func (n *Nodes) play() {
	ctx, stop := context.WithCancel(context.Background())
	var playing sync.WaitGroup
	for _, loop := range []func(context.Context) error{n.beat, n.runPods, n.pin, func(ctx context.Context) error { return n.update(ctx, &playing) }} {
		playing.Go(func() {
			for ctx.Err() == nil {
				if err := loop(ctx); err != nil && ctx.Err() == nil {
					n.note(Event{Kind: Trouble, Text: err.Error()})
				}
				sleep(ctx, poll)
			}
		})
	}
	n.stage.t.Cleanup(func() {
		stop()
		playing.Wait()
		if n.stage.t.Failed() {
			for _, event := range n.Events() {
				n.stage.t.Log(event.Time.Format("05.000"), event)
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

// Events returns what has happened, by time.
func (n *Nodes) Events() []Event { return n.stage.timeline.all() }

func (n *Nodes) note(e Event) { n.stage.timeline.add(e) }

// Note adds an event of the test's own to the timeline.
func (n *Nodes) Note(kind Kind, text string) { n.note(Event{Kind: kind, Text: text}) }

// beatEvery is how often a node says that it is ready, which its controller forgets after 50 s or
// Setup.NotReadyAfter; beatsAtOnce are how many do so at once, as each waits for an answer.
const (
	beatEvery   = 5 * time.Second
	beatsAtOnce = 8
)

func (n *Nodes) beat(ctx context.Context) error {
	var beats errgroup.Group
	beats.SetLimit(beatsAtOnce)
	for _, name := range n.names {
		beats.Go(func() error {
			if n.isSilent(ctx, name) {
				return nil
			}
			return n.report(ctx, name)
		})
	}
	err := beats.Wait()
	sleep(ctx, beatEvery)
	return err
}

// report writes the status of a node, as its kubelet does.
func (n *Nodes) report(ctx context.Context, name string) error {
	n.mu.Lock()
	down, images := n.nodes[name].down, slices.Clone(n.nodes[name].images)
	n.mu.Unlock()
	status := NodeStatus(!down)
	for _, image := range images {
		status.Images = append(status.Images, corev1.ContainerImage{Names: []string{image}, SizeBytes: imageSize})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": status.Conditions, "allocatable": status.Allocatable, "capacity": status.Capacity, "images": status.Images,
	}})
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return n.stage.Client.Status().Patch(ctx, node, client.RawPatch("application/strategic-merge-patch+json", patch))
}

// NodeStatus is what the kubelet of a node says of it, but for its images.
func NodeStatus(isReady bool) corev1.NodeStatus {
	now := metav1.Now()
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now}
	if !isReady {
		ready.Status, ready.Reason = corev1.ConditionFalse, "KubeletNotReady"
	}
	status := corev1.NodeStatus{
		Conditions:  []corev1.NodeCondition{ready},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("250")},
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure} {
		status.Conditions = append(status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, LastHeartbeatTime: now})
	}
	status.Capacity = status.Allocatable
	return status
}

// imageSize is what a node says of any image. The scheduler prefers nodes that have one, by
// its size.
const imageSize = 300 << 20

// annotate sets annotations, given as names and values, in one patch.
func (n *Nodes) annotate(ctx context.Context, name string, pairs ...string) error {
	set := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		set[annotation+pairs[i]] = pairs[i+1]
	}
	return n.patch(ctx, name, map[string]any{"metadata": map[string]any{"annotations": set}})
}

func (n *Nodes) patch(ctx context.Context, name string, change map[string]any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return n.stage.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch("application/merge-patch+json", patch))
}

// Cordon makes nodes unschedulable, or schedulable again.
func (n *Nodes) Cordon(ctx context.Context, cordoned bool, names ...string) {
	n.stage.t.Helper()
	for _, name := range names {
		n.stage.must(n.patch(ctx, name, map[string]any{"spec": map[string]any{"unschedulable": cordoned}}))
	}
}

// Enforce makes namespace app refuse pods that do not meet a level of pod security.
func (n *Nodes) Enforce(ctx context.Context, level string) {
	n.stage.t.Helper()
	n.stage.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: app, labels: {pod-security.kubernetes.io/enforce: "+level+"}}\n")
}

// Degrade makes the daemon of a node say that it has given up although the node has its
// config, as when somebody changed a file.
func (n *Nodes) Degrade(ctx context.Context, name string) {
	n.stage.t.Helper()
	n.stage.must(n.annotate(ctx, name, "state", "Degraded", "reason", "the test says so"))
}

// FailNext makes the daemon of a node give up on the next config.
func (n *Nodes) FailNext(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes[name].fails = true
}

// AwaitUpdated waits until all pools have all their nodes, updated.
func (n *Nodes) AwaitUpdated(ctx context.Context) {
	n.stage.t.Helper()
	n.stage.Wait(ctx, "the pools to be updated", func() (bool, error) {
		pools, err := n.stage.pools(ctx)
		total := 0
		for _, pool := range pools {
			total += int(pool.Status.MachineCount)
			if pool.Status.UpdatedMachineCount != pool.Status.MachineCount || pool.Status.ReadyMachineCount != pool.Status.MachineCount || !isUpdated(pool) && !pool.Spec.Paused {
				return false, err
			}
		}
		return total == n.managed(), err
	})
}

// managed is how many nodes are in a pool.
func (n *Nodes) managed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, s := range n.nodes {
		if s.pool != "" {
			count++
		}
	}
	return count
}

func (s *Stage) pools(ctx context.Context) ([]mcfgv1.MachineConfigPool, error) {
	var pools mcfgv1.MachineConfigPoolList
	err := s.Client.List(ctx, &pools)
	return pools.Items, err
}

func isUpdated(pool mcfgv1.MachineConfigPool) bool {
	return slices.ContainsFunc(pool.Status.Conditions, func(c mcfgv1.MachineConfigPoolCondition) bool {
		return c.Type == mcfgv1.MachineConfigPoolUpdated && c.Status == corev1.ConditionTrue
	})
}
