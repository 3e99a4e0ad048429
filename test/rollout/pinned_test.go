package rollout

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts/watch"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// pullStalls are the stories that stall as pods cannot be pulled: those of TestStories, and some whose kubelets
// do not ask a registry for what is there.
func pullStalls() []story {
	var all []story
	for _, s := range stories {
		if s.want != nil && len(s.want.cannotPull) > 0 && len(s.want.stalled) > 0 && s.later == nil {
			all = append(all, s)
		}
	}
	return append(all,
		story{
			name:  "source away, pulled once",
			why:   "as long as no node is updated, a pod that moves goes to one that never had the image, and asks the source",
			nodes: nodes("worker", 3), apps: []app{web()}, startOn: names("worker", 1, 2),
			serves: []string{webV1, atMirror + "/web:v1"}, away: "quay.io",
		},
		story{
			name:    "two pools, pulled once",
			why:     "the first node of the routers' pool never had their image",
			setup:   stage.Setup{Pools: []stage.Pool{{Name: "worker"}, {Name: "infra"}}},
			nodes:   slices.Concat(nodes("worker", 3), with(nodes("infra", 3), tainted)),
			apps:    []app{routers().on("infra"), {name: "web", replicas: 2, image: "quay.io/other/web:v1", apart: true, budget: "minAvailable: 1"}},
			startOn: append(names("worker", 1, 3), names("infra", 2, 3)...),
			serves:  []string{routerV1, "quay.io/other/web:v1"},
		},
		story{
			name:  "two at once, pulled once",
			why:   "the two nodes that are updated first never had the image, and both pods of the budget are left on the last ones",
			setup: stage.Setup{Pools: []stage.Pool{{Name: "worker", MaxUnavailable: "2"}}},
			nodes: nodes("worker", 6), apps: []app{{name: "web", replicas: 3, image: webV1, apart: true, budget: "minAvailable: 2"}}, startOn: names("worker", 4, 6),
			serves: []string{webV1},
		},
	)
}

// asksAlways reports whether kubelets ask a registry for an app of s even where its image is there.
func (s story) asksAlways() bool {
	return slices.ContainsFunc(s.apps, func(a app) bool { return a.always })
}

// TestPinnedStalls tells each of pullStalls by digest and with what its pods need pinned on every node. All then
// finish, as the simulation says, and no registry is asked for anything; but for those whose kubelets ask each time,
// which no pin helps. A sample has one of either.
func TestPinnedStalls(t *testing.T) {
	t.Parallel()
	for _, s := range told(pullStalls(), "two pools, pulled once", "always pulled") {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			told := tell(t, s.byDigest(t).pinningAll())
			switch {
			case s.asksAlways():
				if len(told.rest.Stalled) == 0 {
					t.Error("nothing stalls")
				}
			case !told.rest.Finished(), !told.result.Finishes(), told.asked > 0:
				t.Errorf("%q stall, %q wait, and registries are asked %d times; the simulation finishes: %t", told.rest.Stalled, told.rest.Waiting, told.asked, told.result.Finishes())
			}
		})
	}
}

// TestUnpinned: those that pins help stall where nothing is pinned.
func TestUnpinned(t *testing.T) {
	t.Parallel()
	for _, s := range told(pullStalls(), "two pools, pulled once") {
		if s.asksAlways() {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if told := tell(t, s.byDigest(t)); len(told.rest.Stalled) == 0 || told.asked == 0 {
				t.Errorf("%q stall, registries are asked %d times", told.rest.Stalled, told.asked)
			}
		})
	}
}

// TestPinnedWatch: `rollout watch --wait-for` follows sets until MCO's controller has given them to the pools and
// every node holds them, and says which node could not pull one, and why.
func TestPinnedWatch(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(pullStalls(), func(s story) bool { return s.name == "two pools, pulled once" })
	told := begin(t, pullStalls()[i].byDigest(t))
	ctx := t.Context()
	guard := filepath.Join(t.TempDir(), "mirrorset-guard")
	if err := cluster.BuildGuard(guard); err != nil {
		t.Fatal(err)
	}
	told.story = told.pinningAll()
	_, first := told.pinnedSets(t)
	watched := startWatch(ctx, t, guard, told.stage.Kubeconfig, first)
	told.pinImages(ctx)
	watched.end(ctx)
	if held := told.foresee(ctx, told.change).cluster.Held(); len(held) != len(told.story.nodes) {
		t.Errorf("the watch has ended, and only these nodes hold images: %q", held)
	}

	missing, err := stage.ByDigest(sources + "/missing:v1")
	if err != nil {
		t.Fatal(err)
	}
	told.pin("infra", missing)
	sets, manifests := told.pinnedSets(t)
	told.stage.Apply(ctx, manifests)
	told.awaitPinFailed(ctx, "infra-1", "pinned-infra")
	objects := convert.Each(sets, func(s *mcfgv1.PinnedImageSet) mirrors.Object { return s })
	reached, seen := watchImpatiently(ctx, t, told.stage.Kubeconfig, watch.Options{StallAfter: 5 * time.Second}, objects...).end(ctx)
	if last := seen[len(seen)-1].Message; reached || !strings.Contains(last, "infra-1") || !strings.Contains(last, "could not pull or pin them") {
		t.Errorf("an image that no registry has: the watch ends with %q", last)
	}
}

// awaitPinFailed waits until a node says that it could not pull a set.
func (t *telling) awaitPinFailed(ctx context.Context, node, set string) {
	t.Helper()
	t.stage.Wait(ctx, node+" to fail with "+set, func() (bool, error) {
		var o mcfgv1.MachineConfigNode
		err := t.stage.Client.Get(ctx, client.ObjectKey{Name: node}, &o)
		return slices.ContainsFunc(o.Status.PinnedImageSets, func(s mcfgv1.MachineConfigNodeStatusPinnedImageSet) bool {
			return s.Name == set && s.LastFailedGeneration != 0
		}), err
	})
}

// TestPinnedStories tells ROLLOUT_PINNED random stories (12 if all is told, else none) in which some of the images are pinned in some of the
// pools. What comes of them is compared with the simulation. ROLLOUT_FIRST is the number of the first.
func TestPinnedStories(t *testing.T) {
	t.Parallel()
	first := times(t, "ROLLOUT_FIRST", 0)
	for seed := first; seed < first+times(t, "ROLLOUT_PINNED", ifWhole(12)); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := newRandom(seed)
			s := r.story().byDigest(t)
			for _, pool := range s.setup.Pools {
				for _, image := range s.images() {
					if r.chance(70) {
						s.pin(pool.Name, image)
					}
				}
			}
			t.Logf("%+v", s)
			tell(t, s)
		})
	}
}

// byDigest returns s with digests for all tags: before, a mirror without any image is in force that may be passed by,
// and the change is to the mirror of the story alone.
func (s story) byDigest(t *testing.T) story {
	t.Helper()
	named := func(ref string) string {
		digested, err := stage.ByDigest(ref)
		if err != nil {
			t.Fatal(err)
		}
		return digested
	}
	all := func(refs []string) []string {
		refs = slices.Clone(refs)
		for i := range refs {
			refs[i] = named(refs[i])
		}
		return refs
	}
	s.apps, s.nodes = slices.Clone(s.apps), slices.Clone(s.nodes)
	for i := range s.apps {
		s.apps[i].image = named(s.apps[i].image)
	}
	for i := range s.nodes {
		s.nodes[i].Cached = all(s.nodes[i].Cached)
	}
	s.serves = all(s.serves)
	before := digestSet("apps", sources)
	after := before.(*configv1.ImageDigestMirrorSet).DeepCopy()
	after.Spec.ImageDigestMirrors[0].MirrorSourcePolicy = configv1.NeverContactSource
	before.(*configv1.ImageDigestMirrorSet).Spec.ImageDigestMirrors[0].Mirrors = []configv1.ImageMirror{mirrorHost + "/old"}
	s.before, s.change, s.want, s.pins = []mirrors.Object{before}, change{apply: []mirrors.Object{after}}, nil, map[string][]string{}
	return s
}

// images are those of the apps, each once.
func (s story) images() []string {
	var images []string
	for _, a := range s.apps {
		images = append(images, a.image)
	}
	slices.Sort(images)
	return slices.Compact(images)
}

func (s story) pin(pool, image string) { s.pins[pool] = append(s.pins[pool], image) }

// pinningAll has every pool pin all images.
func (s story) pinningAll() story {
	pools := s.setup.Pools
	if len(pools) == 0 {
		pools = []stage.Pool{{Name: "worker"}}
	}
	for _, pool := range pools {
		for _, image := range s.images() {
			s.pin(pool.Name, image)
		}
	}
	return s
}

// pinnedSets are the PinnedImageSets of a story, with their manifests.
func (s story) pinnedSets(t *testing.T) (sets []*mcfgv1.PinnedImageSet, manifests string) {
	t.Helper()
	for pool, images := range s.pins {
		set := &mcfgv1.PinnedImageSet{
			TypeMeta:   metav1.TypeMeta{APIVersion: mirrors.PinnedSetGVK.GroupVersion().String(), Kind: mirrors.PinnedSetGVK.Kind},
			ObjectMeta: metav1.ObjectMeta{Name: "pinned-" + pool, Labels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: pool}},
		}
		for _, image := range images {
			set.Spec.PinnedImages = append(set.Spec.PinnedImages, mcfgv1.PinnedImageRef{Name: mcfgv1.ImageDigestFormat(image)})
		}
		data, err := yaml.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		sets, manifests = append(sets, set), manifests+"---\n"+string(data)
	}
	return sets, manifests
}

// pinImages applies the PinnedImageSets of a story, by kubectl, and waits until the nodes have tried them.
func (t *telling) pinImages(ctx context.Context) {
	t.Helper()
	if len(t.pins) == 0 {
		return
	}
	sets, manifests := t.pinnedSets(t.T)
	t.stage.Apply(ctx, manifests)
	counts := map[string]int{}
	var pools mcfgv1.MachineConfigPoolList
	if err := t.stage.Client.List(ctx, &pools); err != nil {
		t.Fatal(err)
	}
	for i := range pools.Items {
		for _, set := range sets {
			if rollout.TakesPinnedSet(&pools.Items[i], set) {
				counts[pools.Items[i].Name]++
			}
		}
	}
	t.nodes.AwaitPinned(ctx, counts)
	t.Logf("pinned: %s", strings.ReplaceAll(fmt.Sprint(t.pins), "quay.io/app/", ""))
}
