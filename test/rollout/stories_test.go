package rollout

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// whole reports whether every story is told (ROLLOUT_FULL=1, make rollout-full), which takes half an hour, rather than a sample.
func whole() bool { return os.Getenv("ROLLOUT_FULL") != "" }

// told are those of the stories that are told: all, or the ones of a sample.
func told(stories []story, sample ...string) []story {
	if whole() {
		return stories
	}
	return slices.DeleteFunc(slices.Clone(stories), func(s story) bool { return !slices.Contains(sample, s.name) })
}

// TestStories tells each story on a stage of its own. A sample has one of each thing that may come of a rollout: a stall, an
// end, pools that do not wait for each other, a second change meanwhile, other files, reboots.
func TestStories(t *testing.T) {
	t.Parallel()
	for _, s := range told(stories, "deadlock", "deadlock averted", "two pools", "second change", "image policy", "reboot by policy") {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			tell(t, s)
		})
	}
}

// names returns PREFIX-FROM to PREFIX-TO.
func names(prefix string, from, to int) []string {
	var names []string
	for i := from; i <= to; i++ {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	return names
}

// nodes returns n nodes of a pool ("worker-1", the oldest, and on). Those of a custom pool
// are workers as well.
func nodes(pool string, n int) []stage.Node {
	roles := []string{pool}
	if pool != "worker" && pool != "master" {
		roles = append(roles, "worker")
	}
	var nodes []stage.Node
	for _, name := range names(pool, 1, n) {
		nodes = append(nodes, stage.Node{Name: name, Roles: roles})
	}
	return nodes
}

// with returns nodes that were changed.
func with(nodes []stage.Node, change func(i int, n *stage.Node)) []stage.Node {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		change(i, &nodes[i])
	}
	return nodes
}

const (
	sources    = "quay.io/app"
	mirrorHost = "mirror.example.com"
	routerV1   = "quay.io/app/router:v1"
	webV1      = "quay.io/app/web:v1"
	atMirror   = "mirror.example.com/app"
)

// tagSet mirrors tags of quay.io/app, which nodes then pull from nowhere else.
func tagSet() mirrors.Object {
	return &configv1.ImageTagMirrorSet{
		ObjectMeta: metav1.ObjectMeta{Name: "apps"},
		Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: []configv1.ImageTagMirrors{
			{Source: sources, Mirrors: []configv1.ImageMirror{atMirror}, MirrorSourcePolicy: configv1.NeverContactSource},
		}},
	}
}

// digestSet mirrors digests of a source.
func digestSet(name, source string) mirrors.Object {
	return &configv1.ImageDigestMirrorSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{
			{Source: source, Mirrors: []configv1.ImageMirror{atMirror}},
		}},
	}
}

// clusterPolicy requires signatures of the images in a scope.
func clusterPolicy(scope configv1.ImageScope) mirrors.Object {
	o := &configv1.ClusterImagePolicy{ObjectMeta: metav1.ObjectMeta{Name: "signed"}}
	o.Spec.Scopes, o.Spec.Policy = []configv1.ImageScope{scope}, configv1.ImageSigstoreVerificationPolicy{RootOfTrust: configv1.PolicyRootOfTrust{
		PolicyType: configv1.PublicKeyRootOfTrust, PublicKey: &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: signer.Key("release").PEM()},
	}}
	return o
}

// routers are those of the default ingress controller: two on the network of their nodes, of
// which one has to be there.
func routers() app {
	return app{name: "router", replicas: 2, image: routerV1, apart: true, ports: []int{80, 443, 1936}, budget: "minAvailable: 1"}
}

// web has two replicas that cannot share a node, one of which has to be there.
func web() app {
	return app{name: "web", replicas: 2, image: webV1, apart: true, budget: "minAvailable: 1"}
}

func (a app) pulledAlways() app { a.always = true; return a }

func (a app) on(role string) app { a.role = role; return a }

// onRegistriesConf has a NodeDisruptionPolicy for registries.conf.
func onRegistriesConf(action operatorv1.NodeDisruptionPolicySpecActionType) stage.Setup {
	return stage.Setup{Policies: []operatorv1.NodeDisruptionPolicySpecFile{
		{Path: mirrors.RegistriesConfPath, Actions: []operatorv1.NodeDisruptionPolicySpecAction{{Type: action}}},
	}}
}

var stories = []story{
	{
		name: "deadlock",
		why: "the seed of this project: the mirror lacks the routers. The first one that moves goes to an updated node and cannot be " +
			"pulled; the budget then allows no eviction, and the last drain never ends",
		nodes: nodes("worker", 6), apps: []app{routers()}, startOn: names("worker", 5, 6),
		serves: []string{routerV1},
		change: change{apply: []mirrors.Object{tagSet()}},
		want: &want{
			drained: names("worker", 1, 6), updated: names("worker", 1, 5), stalled: []string{"worker-6"},
			evicted: []string{"router"}, cannotPull: []string{"router"}, blocking: []string{"router"},
		},
	},
	{
		name:  "deadlock averted",
		why:   "the same with the routers at the mirror",
		nodes: nodes("worker", 6), apps: []app{routers()}, startOn: names("worker", 5, 6),
		serves: []string{routerV1, atMirror + "/router:v1"},
		change: change{apply: []mirrors.Object{tagSet()}},
		want:   &want{drained: names("worker", 1, 6), updated: names("worker", 1, 6), evicted: []string{"router"}},
	},
	{
		name:  "source away",
		why:   "the mirror has everything, but as long as no node is updated, a pod that moves goes to one that still asks the source",
		nodes: nodes("worker", 3), apps: []app{web().pulledAlways()}, startOn: names("worker", 1, 2),
		serves: []string{webV1, atMirror + "/web:v1"}, away: "quay.io",
		change: change{apply: []mirrors.Object{tagSet()}},
		want: &want{
			drained: names("worker", 1, 2), updated: []string{"worker-1"}, stalled: []string{"worker-2"}, waiting: []string{"worker-3"},
			evicted: []string{"web"}, cannotPull: []string{"web"}, blocking: []string{"web"},
		},
	},
	{
		name:  "digests",
		why:   "mirrors for digests only are taken without a drain",
		nodes: nodes("worker", 3), apps: []app{web()},
		serves: []string{webV1},
		change: change{apply: []mirrors.Object{digestSet("apps", sources)}},
		want:   &want{updated: names("worker", 1, 3)},
	},
	{
		name:  "single node",
		why:   "there is no other node that pods could go to, and none are evicted",
		setup: stage.Setup{Topology: configv1.SingleReplicaTopologyMode, Pools: []stage.Pool{{Name: "master"}, {Name: "worker"}}},
		nodes: []stage.Node{{Name: "master-1", Roles: []string{"master", "worker"}}}, apps: []app{{name: "web", replicas: 1, image: webV1, budget: "maxUnavailable: 0"}},
		serves: []string{webV1},
		change: change{apply: []mirrors.Object{tagSet()}},
		want:   &want{updated: []string{"master-1"}},
	},
	{
		name:  "paused",
		why:   "a config is rendered, and no node gets it",
		setup: stage.Setup{Pools: []stage.Pool{{Name: "worker", Paused: true}}},
		nodes: nodes("worker", 3), apps: []app{web()},
		serves: []string{webV1},
		change: change{apply: []mirrors.Object{tagSet()}},
		want:   &want{waiting: names("worker", 1, 3)},
	},
	{
		name:  "ten percent",
		why:   "of 20 nodes two go at once, by their zones",
		setup: stage.Setup{Pools: []stage.Pool{{Name: "worker", MaxUnavailable: "10%"}}},
		nodes: with(nodes("worker", 20), func(i int, n *stage.Node) { n.Zone = fmt.Sprintf("zone-%02d", i) }), apps: []app{{name: "web", replicas: 3, image: webV1, apart: true, budget: "minAvailable: 2"}},
		serves: []string{webV1, atMirror + "/web:v1"},
		change: change{apply: []mirrors.Object{tagSet()}},
		want:   &want{drained: names("worker", 1, 20), updated: names("worker", 1, 20), evicted: []string{"web"}},
	},
	{
		name:   "two pools",
		why:    "pools go side by side: that of the routers stalls, as its two nodes are all that routers may run on, and the other ends",
		setup:  stage.Setup{Pools: []stage.Pool{{Name: "worker"}, {Name: "infra"}}},
		nodes:  slices.Concat(nodes("worker", 3), with(nodes("infra", 2), tainted)),
		apps:   []app{routers().on("infra").pulledAlways(), {name: "web", replicas: 2, image: "quay.io/other/web:v1", apart: true, budget: "minAvailable: 1"}},
		serves: []string{routerV1, "quay.io/other/web:v1"},
		change: change{apply: []mirrors.Object{tagSet()}},
		want: &want{
			drained: slices.Concat(names("worker", 1, 3), names("infra", 1, 2)),
			updated: append(names("worker", 1, 3), "infra-1"), stalled: []string{"infra-2"},
			evicted: []string{"router", "web"}, cannotPull: []string{"router"}, blocking: []string{"router"},
		},
	},
	{
		name:   "gpu paused",
		why:    "the other pool ends, and what runs on the nodes of the paused one stays",
		setup:  stage.Setup{Pools: []stage.Pool{{Name: "worker"}, {Name: "gpu", Paused: true}}},
		nodes:  slices.Concat(nodes("worker", 3), with(nodes("gpu", 2), tainted)),
		apps:   []app{web(), {name: "trainer", replicas: 2, image: "quay.io/app/trainer:v1", role: "gpu"}},
		serves: []string{webV1, atMirror + "/web:v1", "quay.io/app/trainer:v1"},
		change: change{apply: []mirrors.Object{tagSet()}},
		want:   &want{drained: names("worker", 1, 3), updated: names("worker", 1, 3), waiting: names("gpu", 1, 2), evicted: []string{"web"}},
	},
	{
		name:  "budget of 0",
		why:   "no drain would ever end, with whatever change",
		nodes: nodes("worker", 3), apps: []app{{name: "web", replicas: 1, image: webV1, budget: "maxUnavailable: 0"}}, startOn: []string{"worker-2"},
		serves: []string{webV1, atMirror + "/web:v1"},
		change: change{apply: []mirrors.Object{tagSet()}},
		want: &want{
			drained: names("worker", 1, 2), updated: []string{"worker-1"}, stalled: []string{"worker-2"}, waiting: []string{"worker-3"}, blocking: []string{"web"},
		},
	},
	{
		name:  "five ingress controllers",
		why:   "each has ports and a budget of its own, and all move",
		nodes: nodes("worker", 4), apps: ingressControllers(),
		serves: []string{routerV1, atMirror + "/router:v1"},
		change: change{apply: []mirrors.Object{tagSet()}},
		want: &want{
			drained: names("worker", 1, 4), updated: names("worker", 1, 4), evicted: []string{"default", "internal", "shard-a", "shard-b", "shard-c"},
		},
	},
	{
		name:  "degraded",
		why:   "a node on which somebody changed a file is unavailable, and the pool takes no other",
		nodes: nodes("worker", 3), apps: []app{web()}, serves: []string{webV1},
		prepare: func(ctx context.Context, nodes *stage.Nodes) { nodes.Degrade(ctx, "worker-2") },
		change:  change{apply: []mirrors.Object{tagSet()}},
		want:    &want{waiting: names("worker", 1, 3)},
	},
	{
		name:  "failed before",
		why:   "a node that could not apply the last config is not unavailable, and is given the next in its turn",
		nodes: nodes("worker", 3), apps: []app{web()}, serves: []string{webV1, atMirror + "/web:v1"},
		prepare: func(_ context.Context, nodes *stage.Nodes) { nodes.FailNext("worker-1") },
		change:  change{apply: []mirrors.Object{digestSet("other", "quay.io/other")}},
		after:   stage.Degraded, later: &change{apply: []mirrors.Object{tagSet()}},
		want: &want{drained: names("worker", 1, 3), updated: names("worker", 1, 3), evicted: []string{"web"}},
	},
	{
		name:  "pod security",
		why:   "the namespace forbids the pods that run in it since they have started: what is evicted is not made again",
		nodes: nodes("worker", 3), apps: []app{web()}, startOn: names("worker", 2, 3), serves: []string{webV1, atMirror + "/web:v1"},
		prepare: func(ctx context.Context, nodes *stage.Nodes) { nodes.Enforce(ctx, "restricted") },
		change:  change{apply: []mirrors.Object{tagSet()}},
		want: &want{
			drained: names("worker", 1, 3), updated: names("worker", 1, 2), stalled: []string{"worker-3"}, evicted: []string{"web"}, blocking: []string{"web"},
		},
	},
	{
		name:  "cordoned",
		why:   "one node that somebody cordoned uses up maxUnavailable",
		nodes: nodes("worker", 3), apps: []app{web()}, serves: []string{webV1},
		prepare: func(ctx context.Context, nodes *stage.Nodes) { nodes.Cordon(ctx, true, "worker-3") },
		change:  change{apply: []mirrors.Object{tagSet()}},
		want:    &want{waiting: names("worker", 1, 3)},
	},
	{
		name:  "second change",
		why:   "nodes that have the first are drained once more for the second, the oldest first again",
		nodes: nodes("worker", 3), apps: []app{web()}, serves: []string{webV1, atMirror + "/web:v1"},
		change: change{apply: []mirrors.Object{tagSet()}},
		after:  stage.Done, later: &change{apply: []mirrors.Object{otherTags()}},
		want: &want{drained: names("worker", 1, 3), updated: names("worker", 1, 3), evicted: []string{"web"}},
	},
	{
		name:  "revert",
		why:   "to take a mirror away drains as well",
		nodes: nodes("worker", 3), apps: []app{web()}, serves: []string{webV1, atMirror + "/web:v1"},
		before: []mirrors.Object{tagSet()},
		change: change{remove: []mirrors.Object{tagSet()}},
		want:   &want{drained: names("worker", 1, 3), updated: names("worker", 1, 3), evicted: []string{"web"}},
	},
	{
		name:  "image policy",
		why:   "a policy that requires signatures, and the files that come with it, are taken without a drain",
		nodes: nodes("worker", 3), apps: []app{web()}, serves: []string{webV1, atMirror + "/web:v1"},
		before: []mirrors.Object{tagSet()},
		change: change{apply: []mirrors.Object{clusterPolicy("quay.io/other")}},
		want:   &want{updated: names("worker", 1, 3)},
	},
	{
		name:  "reboot by policy",
		why:   "a NodeDisruptionPolicy reboots for what would be taken without a drain",
		setup: onRegistriesConf(operatorv1.RebootSpecAction),
		nodes: nodes("worker", 3), apps: []app{web()}, serves: []string{webV1},
		change: change{apply: []mirrors.Object{digestSet("apps", sources)}},
		want: &want{
			drained: names("worker", 1, 3), updated: names("worker", 1, 3), rebooted: names("worker", 1, 3), evicted: []string{"web"},
		},
	},
	{
		name:  "nothing by policy",
		why:   "a NodeDisruptionPolicy spares nodes the drain: pods that are there keep running",
		setup: onRegistriesConf(operatorv1.NoneSpecAction),
		nodes: nodes("worker", 3), apps: []app{web().pulledAlways()}, serves: []string{webV1},
		change: change{apply: []mirrors.Object{tagSet()}},
		want:   &want{updated: names("worker", 1, 3)},
	},
	{
		name:  "always pulled",
		why:   "each start asks the registry: what the node has does not help",
		nodes: nodes("worker", 3), apps: []app{web().pulledAlways()}, serves: []string{webV1},
		change: change{apply: []mirrors.Object{tagSet()}},
		want: &want{
			drained: names("worker", 1, 3), updated: names("worker", 1, 2), stalled: []string{"worker-3"},
			evicted: []string{"web"}, cannotPull: []string{"web"}, blocking: []string{"web"},
		},
	},
	{
		name:  "cached",
		why:   "the deadlock, but for nodes that have the image from before",
		nodes: with(nodes("worker", 6), func(_ int, n *stage.Node) { n.Cached = []string{routerV1} }), apps: []app{routers()}, startOn: names("worker", 5, 6),
		serves: []string{routerV1},
		change: change{apply: []mirrors.Object{tagSet()}},
		want:   &want{drained: names("worker", 1, 6), updated: names("worker", 1, 6), evicted: []string{"router"}},
	},
	{
		name:  "as many replicas as nodes",
		why:   "a pod that moves has to wait for its own node, where the new route does not serve it",
		nodes: nodes("worker", 3), apps: []app{{name: "web", replicas: 3, image: webV1, apart: true, always: true, budget: "minAvailable: 2"}}, serves: []string{webV1},
		change: change{apply: []mirrors.Object{tagSet()}},
		want: &want{
			drained: names("worker", 1, 2), updated: []string{"worker-1"}, stalled: []string{"worker-2"}, waiting: []string{"worker-3"},
			evicted: []string{"web"}, cannotPull: []string{"web"}, blocking: []string{"web"},
		},
	},
}

// tainted keeps pods away that do not say that they go to nodes of that role.
func tainted(_ int, n *stage.Node) {
	n.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/" + n.Roles[0], Effect: corev1.TaintEffectNoSchedule}}
}

// ingressControllers are five, two routers each.
func ingressControllers() []app {
	var apps []app
	for i, name := range []string{"default", "internal", "shard-a", "shard-b", "shard-c"} {
		a := routers()
		a.name, a.ports = name, []int{80 + i, 443 + i, 1936 + i}
		apps = append(apps, a)
	}
	return apps
}

// otherTags mirrors tags of a source that no pod pulls from.
func otherTags() mirrors.Object {
	o := tagSet().(*configv1.ImageTagMirrorSet)
	o.Name = "other"
	o.Spec.ImageTagMirrors[0].Source, o.Spec.ImageTagMirrors[0].Mirrors = "quay.io/other", []configv1.ImageMirror{"mirror.example.com/other"}
	return o
}
