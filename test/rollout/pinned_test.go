package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// TestPinnedStalls tells each story again that stalls as pods cannot be pulled, by digest and with what its pods
// need pinned on every node. All then finish, but for those whose kubelets ask a registry each time, of which the simulation
// says what comes.
func TestPinnedStalls(t *testing.T) {
	for _, s := range stories {
		if s.want == nil || len(s.want.cannotPull) == 0 || len(s.want.stalled) == 0 || s.later != nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			always := slices.ContainsFunc(s.apps, func(a app) bool { return a.always && slices.Contains(s.want.cannotPull, a.name) })
			told := tell(t, s.byDigest(t).pinningAll())
			if stalled := told.rest.Stalled; len(stalled) > 0 && !always {
				t.Errorf("%q stall", stalled)
			}
			if always && told.result.AllPinned {
				t.Error("no drain needs a registry, it says, and kubelets ask")
			}
		})
	}
}

// TestUnpinned: the same stalls where nothing is pinned.
func TestUnpinned(t *testing.T) {
	i := slices.IndexFunc(stories, func(s story) bool { return s.name == "deadlock" })
	if told := tell(t, stories[i].byDigest(t)); len(told.rest.Stalled) == 0 {
		t.Error("nothing stalls")
	}
}

// TestPinnedStories tells ROLLOUT_PINNED random stories (2) in which some of the images are pinned in some of the
// pools. What comes of them is compared with the simulation. ROLLOUT_FIRST is the number of the first.
func TestPinnedStories(t *testing.T) {
	first := times(t, "ROLLOUT_FIRST", 0)
	for seed := first; seed < first+times(t, "ROLLOUT_PINNED", 2); seed++ {
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

// byDigest returns s with digests for all tags: a mirror that may be passed by is in force before, and
// the change keeps nodes from its source.
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

// pinImages applies the PinnedImageSets of a story, by kubectl, and waits until the nodes have tried them.
func (t *telling) pinImages(ctx context.Context) {
	t.Helper()
	if len(t.pins) == 0 {
		return
	}
	var sets []*mcfgv1.PinnedImageSet
	for pool, images := range t.pins {
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
		t.stage.Apply(ctx, string(data))
		sets = append(sets, set)
	}
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
