package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// A kind is a way in which the rollout of a pool stalls, and in how many rounds at most of the first remedy
// that changes something it then finishes. Fewer may do, as MCO takes nodes in any order.
type kind struct {
	broken
	// serves are the references that registries serve; nil for the images of its apps and those at
	// the mirror.
	serves []string
	// foreseen is what the simulation says before the change.
	foreseen string
	rounds   int
	// first is on how many nodes the apps are placed at first, 0 for all: where the scheduler is free, a
	// rollout that may stall need not.
	first int
}

// A stalling is a change that stalls pools, each in a way of its own, in a namespace of its name.
type stalling struct {
	name   string
	before []mirrors.Object
	change change
	// blocks are the blockedRegistries of the change; away are hosts out of reach once apps run.
	blocks, away []string
	// ahead is by how much the simulation's clock is: so much later a pod is past its end.
	ahead time.Duration
	kinds []kind
}

// atHost is an app whose image is at another host.
func (a app) atHost(host string) app {
	a.image = strings.Replace(a.image, sources, host+"/app", 1)
	return a
}

func (a app) with(more ...string) app { a.more = append(slices.Clone(a.more), more...); return a }
func (a app) onPorts(p ...int) app    { a.ports = p; return a }
func (a app) asking(cpus int) app     { a.cpus = cpus; return a }

// mirrorsOf mirrors tags of sources, which nodes then pull from nowhere else.
func mirrorsOf(name, mirror string, sources ...string) mirrors.Object {
	set := tagSet().(*configv1.ImageTagMirrorSet)
	set.Name, set.Spec.ImageTagMirrors = name, nil
	for _, source := range sources {
		set.Spec.ImageTagMirrors = append(set.Spec.ImageTagMirrors, configv1.ImageTagMirrors{
			Source: source, Mirrors: []configv1.ImageMirror{configv1.ImageMirror(mirror)}, MirrorSourcePolicy: configv1.NeverContactSource,
		})
	}
	return set
}

const away, moved, dead = "away.example.com", "moved.example.com", "dead.example.com"

// oneMore makes an app have one pod more than its nodes have places for.
func oneMore(pool string) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		s.shell.run(ctx, "kubectl -n "+pool+" scale deployment "+pool+" --replicas=4")
		s.await(ctx, "a pod that has no place", func(p *corev1.Pod) bool {
			return p.Namespace == pool && p.Spec.NodeName == "" && len(p.Status.Conditions) > 0
		})
	}
}

// keep puts a finalizer on the pods of an app.
func keep(pool string) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		s.shell.run(ctx, fmt.Sprintf(`for p in $(kubectl -n %s get pod -o name); do kubectl -n %[1]s patch "$p" --type=merge -p '{"metadata":{"finalizers":["example.com/keep"]}}'; done`, pool))
	}
}

// deny has a policy forbid that pods of an app are made.
func deny(pool string) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		s.stage.Apply(ctx, strings.NewReplacer("pods/eviction", "pods", "name: vm", "name: "+pool, "!object.metadata.name.startsWith('vm-')", "!object.metadata.generateName.startsWith('"+pool+"-')", "policyName: vm", "policyName: "+pool).Replace(noEviction))
		s.stage.Wait(ctx, "the policy to be in force", func() (bool, error) {
			out, err := s.shell.try(ctx, fmt.Sprintf(`echo '{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"%s-","namespace":"%[1]s"},"spec":{"containers":[{"name":"c","image":"x"}]}}' | kubectl create --dry-run=server -f -`, pool))
			return err != nil && strings.Contains(out, "it is migrated first"), nil
		})
	}
}

// bare makes two pods that nothing makes again, of which one has to be there.
func bare(ctx context.Context, s *scene) {
	for _, name := range names("bare", 1, 2) {
		s.stage.Apply(ctx, "{apiVersion: v1, kind: Pod, metadata: {name: "+name+", namespace: bare, labels: {app: bare}}, spec: {automountServiceAccountToken: false, "+
			`nodeSelector: {node-role.kubernetes.io/bare: ""}, containers: [{name: app, image: "`+sources+`/bare:v1"}]}}`)
	}
	s.stage.Apply(ctx, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: bare, namespace: bare}, spec: {minAvailable: 1, selector: {matchLabels: {app: bare}}}}")
	s.shell.run(ctx, "kubectl -n bare wait pod --all --for=jsonpath='{.status.phase}'=Running --timeout=2m")
	s.shell.run(ctx, "kubectl -n bare wait pdb/bare --for=jsonpath='{.status.currentHealthy}'=2 --timeout=2m")
}

// inOrder makes an app a StatefulSet, whose pods are made one after the other.
func inOrder(a app) app { a.kind = "StatefulSet"; return a }

var stallings = []stalling{
	{
		name:   "several",
		change: change{apply: []mirrors.Object{mirrorsOf("apps", atMirror, sources, away+"/app", moved+"/app")}},
		away:   []string{away, moved},
		kinds: []kind{
			{broken: broken{pool: "lacks", nodes: 3, apps: []app{shop("lacks").apartFromEachOther().pulledAlways()}, cause: causes.ImageNotPulled, link: "lacks:v1 does not have it"}, serves: []string{sources + "/lacks:v1"}, foreseen: mayStall, rounds: 1},
			{broken: broken{pool: "moved", nodes: 3, apps: []app{shop("moved").atHost(moved).apartFromEachOther().pulledAlways()}, cause: causes.ImageNotPulled, link: "moved:v1 does not have it"}, serves: []string{moved + "/app/moved:v1"}, foreseen: mayStall, rounds: 2},
			{broken: broken{pool: "away", nodes: 3, apps: []app{shop("away").atHost(away).apartFromEachOther().pulledAlways()}, cause: causes.ImageNotPulled, link: "away:v1 is out of reach"}, first: 2, foreseen: mayStall, rounds: 1},
			{broken: broken{pool: "apart", nodes: 3, apps: []app{shop("apart").times(3).apartFromEachOther().withBudget("minAvailable: 3")}, prepare: oneMore("apart"), cause: causes.PodNotPlaced, link: "didn't match pod anti-affinity rules"}, foreseen: mayStall, rounds: 1},
			{broken: broken{pool: "ports", nodes: 3, apps: []app{shop("ports").times(3).onPorts(8443).withBudget("minAvailable: 3")}, prepare: oneMore("ports"), cause: causes.PodNotPlaced, link: "didn't have free ports for the requested pod ports"}, foreseen: mayStall, rounds: 1},
			{broken: broken{pool: "beside", nodes: 3, apps: []app{shop("beside").withBudget("minAvailable: 2")}, prepare: func(ctx context.Context, s *scene) {
				s.stage.Apply(ctx, strings.ReplaceAll(shop("beside").with("affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {app: leader}}, topologyKey: kubernetes.io/hostname}]}}").withBudget("minAvailable: 2").manifest(), "namespace: app", "namespace: beside"))
				s.await(ctx, "a pod that has no place", func(p *corev1.Pod) bool {
					return p.Namespace == "beside" && p.Spec.NodeName == "" && len(p.Status.Conditions) > 0
				})
			}, cause: causes.PodNotPlaced, link: "didn't match pod affinity rules"}, foreseen: mayStall, rounds: 1},
			{broken: broken{pool: "cpus", nodes: 3, apps: []app{shop("cpus").times(3).asking(6).withBudget("minAvailable: 2")}, prepare: func(ctx context.Context, s *scene) {
				keep("cpus")(ctx, s)
				s.shell.run(ctx, "kubectl -n cpus delete pod --wait=false $(kubectl -n cpus get pod --field-selector spec.nodeName=cpus-3 -o name | cut -d/ -f2)")
				s.shell.run(ctx, `for p in $(kubectl -n cpus get pod --field-selector spec.nodeName!=cpus-3 -o name); do kubectl -n cpus patch "$p" --type=merge -p '{"metadata":{"finalizers":null}}'; done`)
			}, cause: causes.PodNotPlaced, link: "is being deleted and has not ended: it keeps its place"}, foreseen: mayStall, rounds: 2},
			{broken: broken{pool: "sick", nodes: 3, apps: []app{shop("sick").apartFromEachOther()}, prepare: func(_ context.Context, s *scene) { s.nodes.Sicken("sick-1") }, cause: causes.PodNotReady, link: "on sick-1 is not ready"}, foreseen: finishes, rounds: 1},
			{broken: broken{pool: "kept", nodes: 3, apps: []app{shop("kept").times(1).withBudget("")}, prepare: func(ctx context.Context, s *scene) {
				keep("kept")(ctx, s)
				s.shell.run(ctx, "kubectl -n kept delete pod --all --wait=false")
			}, cause: causes.PodNotEnding, link: "example.com/keep"}, foreseen: mayStall, rounds: 1},
			{broken: broken{pool: "keeps", nodes: 2, apps: []app{shop("keeps").apartFromEachOther()}, prepare: keep("keeps"), cause: causes.PodNotEnding, link: "example.com/keep"}, foreseen: mayStall, rounds: 2},
			{broken: broken{pool: "ordered", nodes: 3, apps: []app{inOrder(shop("ordered").times(3).apartFromEachOther().withBudget("maxUnavailable: 2"))}, prepare: func(ctx context.Context, s *scene) {
				node := strings.TrimSpace(s.shell.run(ctx, "kubectl -n ordered get pod ordered-0 -o jsonpath='{.spec.nodeName}'"))
				s.nodes.Sicken(node)
				s.shell.run(ctx, "kubectl -n ordered delete pod ordered-0")
				s.await(ctx, "the first pod to run again", func(p *corev1.Pod) bool {
					return p.Namespace == "ordered" && p.Name == "ordered-0" && p.Status.Phase == corev1.PodRunning
				})
			}, cause: causes.PodNotReady, link: "pod ordered/ordered-0"}, foreseen: mayStall, rounds: 1},
			{broken: broken{pool: "silent", nodes: 2, prepare: func(ctx context.Context, s *scene) {
				s.nodes.Silence("silent-1", true)
				s.shell.run(ctx, "kubectl wait node/silent-1 --for=condition=Ready=Unknown --timeout=5m")
			}, cause: causes.NodeNotReady, link: "its kubelet says: Kubelet stopped posting node status."}, foreseen: someWait, rounds: 1},
			{broken: broken{pool: "zero", nodes: 3, apps: []app{shop("zero").withBudget("maxUnavailable: 0")}, cause: causes.BudgetFull, link: "it leaves no room for a drain"}, foreseen: mayStall, rounds: 1},
		},
	},
	{
		name:   "forbidden",
		change: change{apply: []mirrors.Object{mirrorsOf("apps", atMirror, sources)}},
		kinds: []kind{
			{broken: broken{pool: "quota", nodes: 3, apps: []app{shop("quota").apartFromEachOther()}, prepare: func(ctx context.Context, s *scene) {
				s.stage.Apply(ctx, "{apiVersion: v1, kind: ResourceQuota, metadata: {name: small, namespace: quota}, spec: {hard: {pods: 1}}}")
				s.shell.run(ctx, "kubectl -n quota wait resourcequota/small --for=jsonpath='{.status.used.pods}'=2 --timeout=2m")
			}, cause: causes.PodNotCreated, link: "exceeded quota: small"}, foreseen: mayStall, rounds: 1},
			{broken: broken{pool: "restricted", nodes: 3, apps: []app{shop("restricted").apartFromEachOther()}, prepare: func(ctx context.Context, s *scene) {
				s.shell.run(ctx, "kubectl label namespace restricted pod-security.kubernetes.io/enforce=restricted")
			}, cause: causes.PodNotCreated, link: `violates PodSecurity "restricted:latest"`}, foreseen: mayStall, rounds: 1},
			{broken: broken{pool: "denied", nodes: 3, apps: []app{shop("denied").apartFromEachOther()}, prepare: deny("denied"), cause: causes.PodNotCreated, link: "with binding 'denied' denied request"}, foreseen: finishes, rounds: 1},
			{broken: broken{pool: "failed", nodes: 3, apps: []app{shop("failed").apartFromEachOther()}, prepare: func(ctx context.Context, s *scene) {
				deny("failed")(ctx, s)
				s.shell.run(ctx, "kubectl -n failed scale deployment failed --replicas=3")
				s.shell.run(ctx, "kubectl -n failed wait deployment/failed --for=condition=ReplicaFailure --timeout=2m")
			}, cause: causes.PodNotCreated, link: "with binding 'failed' denied request"}, foreseen: mayStall, rounds: 1},
		},
	},
	{
		name:   "further",
		change: change{apply: []mirrors.Object{mirrorsOf("apps", atMirror, sources)}},
		ahead:  3 * time.Minute,
		kinds: []kind{
			{broken: broken{pool: "lingers", nodes: 2, apps: []app{shop("lingers").times(1).with("terminationGracePeriodSeconds: 1").withBudget("")}, prepare: func(ctx context.Context, s *scene) {
				s.shell.run(ctx, "kubectl -n lingers label pod --all "+stage.LingerLabel+"=yes")
				s.shell.run(ctx, "kubectl -n lingers delete pod --all --wait=false")
			}, cause: causes.PodNotEnding, link: "has for it was over"}, foreseen: mayStall, rounds: 1},
			{broken: broken{pool: "zones", nodes: 3, apps: []app{shop("zones").times(3).with("topologySpreadConstraints: [{maxSkew: 1, minDomains: 4, topologyKey: topology.kubernetes.io/zone, " +
				"whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: zones}}}]").withBudget("minAvailable: 3")}, prepare: oneMore("zones"), cause: causes.PodNotPlaced, link: "pod topology spread constraints"}, foreseen: mayStall, rounds: 1},
			{broken: broken{pool: "bare", nodes: 3, prepare: bare, cause: causes.BudgetFull, link: "it leaves no room for a drain"}, serves: []string{sources + "/bare:v1", atMirror + "/bare:v1"}, foreseen: mayStall, rounds: 1},
		},
	},
	{
		name: "blocked", change: change{}, blocks: []string{"quay.io/app"},
		kinds: []kind{{broken: broken{pool: "blocked", nodes: 3, apps: []app{shop("blocked").apartFromEachOther().pulledAlways()}, cause: causes.ImageNotPulled, link: "blockedRegistries of Image cluster lists quay.io/app now"}, foreseen: mayStall, rounds: 1}},
	},
	{
		name: "removed", before: []mirrors.Object{tagSet()}, change: change{remove: []mirrors.Object{tagSet()}}, away: []string{},
		kinds: []kind{{
			broken: broken{pool: "removed", nodes: 3, apps: []app{shop("removed").apartFromEachOther().pulledAlways()}, cause: causes.ImageNotPulled, link: "the mirror object that had this mirror of quay.io/app has been deleted or changed since"},
			serves: []string{atMirror + "/removed:v1"}, foreseen: mayStall, rounds: 1,
		}},
	},
	{
		name: "dead", change: change{apply: []mirrors.Object{mirrorsOf("dead", dead+"/app", sources)}}, away: []string{dead},
		kinds: []kind{{
			broken: broken{pool: "dead", nodes: 3, apps: []app{shop("dead").apartFromEachOther().pulledAlways()}, cause: causes.ImageNotPulled, link: "ImageTagMirrorSet dead says NeverContactSource"},
			serves: []string{sources + "/dead:v1"}, foreseen: mayStall, rounds: 1,
		}},
	},
}

// TestRemedies stalls pools, carries out the first remedy of each that changes something, as people paste
// it, and counts after how many rounds the rollout finishes.
func TestRemedies(t *testing.T) {
	t.Parallel()
	for i, s := range stallings {
		if i > 0 && !whole() { // the first one has most pools
			break
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			remedy(t, s)
		})
	}
}

func remedy(t *testing.T, of stalling) {
	t.Helper()
	s := newStalling(t, of)
	ctx := t.Context()
	s.before = s.nodes.Configs(ctx)
	foreseen := s.foresee(ctx, of)
	s.make(ctx, of)
	rounds, open := map[string]int{}, of.kinds
	for round := 1; len(open) > 0; round++ {
		var d v1alpha1.Diagnosis
		if open, d = s.rest(ctx, open); len(open) == 0 {
			break
		}
		if round == 1 {
			s.compare(ctx, foreseen, of.kinds, open)
		}
		for _, k := range open {
			f := findingOf(d, k.pool)
			chain := strings.Join(f.Chain, "\n")
			if round == 1 && (f.Cause != string(k.cause) || !strings.Contains(chain, k.link)) {
				t.Errorf("pool %s: want %s, %q; got %s:\n%s", k.pool, k.cause, k.link, f.Cause, chain)
			}
			command := effective(f)
			rounds[k.pool]++
			s.nodes.Note(stage.Changed, command)
			out, err := s.shell.try(ctx, command)
			t.Logf("pool %s, round %d, %s: %s (%v)\n%s", k.pool, rounds[k.pool], f.Cause, command, err, chain)
			if err != nil {
				t.Errorf("pool %s: %s", k.pool, out)
			}
		}
		if round > 3 {
			t.Fatalf("%d pools do not finish", len(open))
		}
	}
	for _, k := range of.kinds {
		if n := rounds[k.pool]; n == 0 || n > k.rounds {
			t.Errorf("pool %s finished in %d rounds, want 1 to %d", k.pool, n, k.rounds)
		}
	}
}

// foresee simulates the change of a stalling.
func (s *scene) foresee(ctx context.Context, of stalling) foresight {
	s.Helper()
	told := &telling{T: s.T, stage: s.stage, nodes: s.nodes, ahead: of.ahead}
	for _, ref := range s.served {
		if !slices.ContainsFunc(of.away, func(host string) bool { return strings.HasPrefix(ref, host+"/") }) {
			told.serves = append(told.serves, ref)
		}
	}
	blocks := of.change
	if len(of.blocks) > 0 {
		blocks.apply = append(slices.Clone(blocks.apply), &configv1.Image{
			ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: configv1.ImageSpec{RegistrySources: configv1.RegistrySources{BlockedRegistries: of.blocks}},
		})
	}
	return told.foresee(ctx, blocks)
}

// compare holds what was foreseen to how the pools have come to rest: open are those that have not
// finished.
func (s *scene) compare(ctx context.Context, f foresight, all, open []kind) {
	s.Helper()
	behind, err := s.behind(ctx)
	if err != nil {
		s.Fatal(err)
	}
	for _, k := range all {
		stuck := slices.ContainsFunc(open, func(o kind) bool { return o.pool == k.pool })
		ending := f.ending(k.pool)
		s.Logf("pool %s: foreseen %q, stuck %t with %d of %d nodes updated", k.pool, ending, stuck, k.nodes-behind[k.pool], k.nodes)
		if ending != k.foreseen {
			s.Errorf("pool %s: foreseen %q, want %q: %q", k.pool, ending, k.foreseen, f.result.Stalls)
		}
	}
}

// newStalling makes a cluster with the pools of a stalling, which are paused, and whose apps run.
func newStalling(t *testing.T, of stalling) *scene {
	t.Helper()
	setup := stage.Setup{Pools: []stage.Pool{{Name: "worker"}}}
	for _, k := range of.kinds {
		setup.Pools = append(setup.Pools, stage.Pool{Name: k.pool})
	}
	const mcoImage = "quay.io/mco/daemon:v1"
	nodes := []stage.Node{{Name: "outside", Roles: []string{"outside"}, Cached: []string{mcoImage}, Unmanaged: true}}
	for i := range 3 { // those of a pool differ in age
		for _, k := range of.kinds {
			if i < k.nodes {
				nodes = append(nodes, stage.Node{Name: fmt.Sprintf("%s-%d", k.pool, i+1), Roles: []string{k.pool, "worker"}, Zone: string("abc"[i]), Cached: []string{mcoImage}})
			}
		}
	}
	s := &scene{T: t, stage: stage.New(t, setup), registries: stage.NewRegistries(t), guard: filepath.Join(t.TempDir(), "mirrorset-guard"), hosts: []string{away, moved, dead}}
	if err := cluster.BuildGuard(s.guard); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, k := range of.kinds {
		if k.serves == nil {
			for _, a := range k.apps {
				s.served = append(s.served, a.image, atMirror+"/"+k.pool+":v1")
			}
		}
		s.served = append(s.served, k.serves...)
	}
	s.registries.Push(s.served...)
	told := &telling{T: t, story: story{before: of.before}, stage: s.stage, registries: s.registries}
	told.makeBefore(ctx)
	s.nodes = s.stage.AddNodes(ctx, s.registries, nodes...)
	s.shell = newShell(t, s.stage.KubectlPath(), s.stage.Kubeconfig, s.guard, s.play)
	s.stage.Apply(ctx, mcoPods[:strings.LastIndex(mcoPods, "---")]) // their mirrors are not needed
	pods := 1 + len(nodes)
	s.later(ctx, of, "cordon")
	for _, k := range of.kinds {
		s.stage.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+k.pool+"}}")
		for _, a := range k.apps {
			s.stage.Apply(ctx, strings.ReplaceAll(a.manifest(), "namespace: app", "namespace: "+k.pool))
			pods += a.replicas
		}
	}
	s.stage.Wait(ctx, "the apps to run", func() (bool, error) {
		var list corev1.PodList
		err := s.stage.Client.List(ctx, &list)
		return len(list.Items) == pods && !slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning }), err
	})
	s.later(ctx, of, "uncordon")
	for _, host := range of.away {
		s.registries.Front.Set(host, registries.Down)
	}
	for _, k := range of.kinds {
		if k.prepare != nil {
			k.prepare(ctx, s)
		}
	}
	return s
}

// later cordons or uncordons the nodes that get no app at first.
func (s *scene) later(ctx context.Context, of stalling, do string) {
	s.Helper()
	for _, k := range of.kinds {
		for i := k.first; k.first > 0 && i < k.nodes; i++ {
			s.shell.run(ctx, fmt.Sprintf("kubectl %s %s-%d", do, k.pool, i+1))
		}
	}
}

// make makes the change, all of which the pools get at once.
func (s *scene) make(ctx context.Context, of stalling) {
	s.Helper()
	told := &telling{T: s.T, stage: s.stage, nodes: s.nodes}
	told.make(ctx, of.change)
	if len(of.blocks) > 0 {
		list, err := json.Marshal(of.blocks)
		if err != nil {
			s.Fatal(err)
		}
		s.shell.run(ctx, fmt.Sprintf(`kubectl patch image.config.openshift.io cluster --type=merge -p '{"spec":{"registrySources":{"blockedRegistries":%s}}}'`, list))
	}
	for pool, config := range s.before {
		s.stage.Rendered(ctx, pool, config)
	}
}

// rests is longer than the drain controller waits before it tries again, 5 s, and than the scheduler leaves
// a pod alone, 10 s. Kubelets that are late come on top: a pod that is about to start is no reason to stall.
const rests = 15 * time.Second

// rest waits until each pool is updated or has come to rest, and returns those that are not updated, with
// what is found about them. A pool rests where something is found, and nothing happens on its nodes.
func (s *scene) rest(ctx context.Context, kinds []kind) ([]kind, v1alpha1.Diagnosis) {
	s.Helper()
	var open []kind
	var d v1alpha1.Diagnosis
	s.stage.Wait(ctx, "the pools to finish or to rest", func() (bool, error) {
		behind, err := s.behind(ctx)
		if err != nil {
			return false, err
		}
		open = slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return behind[k.pool] == 0 })
		moves := func(k kind) bool { return time.Since(s.lastMove(k.pool)) < rests+2*s.nodes.Lap() }
		if i := slices.IndexFunc(open, moves); i >= 0 {
			return false, fmt.Errorf("pool %s moves", open[i].pool)
		}
		if len(open) == 0 {
			return true, nil
		}
		d, _ = s.diagnose(ctx, "")
		unknown := func(k kind) bool { f := findingOf(d, k.pool); return f == nil || effective(f) == "" }
		if i := slices.IndexFunc(open, unknown); i >= 0 {
			return false, fmt.Errorf("pool %s rests, and nothing to do is found: %+v", open[i].pool, findingOf(d, open[i].pool))
		}
		return !slices.ContainsFunc(open, moves), nil
	})
	return open, d
}

// lastMove is when something last happened on the nodes of a pool, or was done about it. A pod that does
// not end is evicted again and again.
func (s *scene) lastMove(pool string) time.Time {
	var last time.Time
	evicted := map[string]bool{}
	for _, e := range s.nodes.Events() {
		if e.Kind == stage.Evicted {
			if evicted[e.Pod] {
				continue
			}
			evicted[e.Pod] = true
		}
		if e.Kind != stage.Refused && e.Kind != stage.PullFailed && (strings.HasPrefix(e.Node, pool+"-") || e.Kind == stage.Changed) {
			last = e.Time
		}
	}
	return last
}

// behind returns how many nodes of each pool do not have what they are to have.
func (s *scene) behind(ctx context.Context) (map[string]int, error) {
	var nodes corev1.NodeList
	if err := s.stage.Client.List(ctx, &nodes); err != nil {
		return nil, err
	}
	targets, behind := s.nodes.Configs(ctx), map[string]int{}
	for _, n := range nodes.Items {
		const prefix = "machineconfiguration.openshift.io/"
		pool := s.nodes.PoolOf(n.Name)
		if n.Annotations[prefix+"currentConfig"] != targets[pool] || n.Annotations[prefix+"state"] != "Done" {
			behind[pool]++
		}
	}
	return behind, nil
}
