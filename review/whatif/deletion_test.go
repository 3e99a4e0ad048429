package whatif

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// BenchmarkJudge: 100,000 items, a digest each under a tag of its own, against 2,000 images in 199
// repositories of a mirror that has all of them; reading the list included. The mirror answers at once: a real one is
// asked for each tag on top of it.
func BenchmarkJudge(b *testing.B) {
	const items, images, repositories = 100_000, 2_000, 199
	list := deletions(items, repositories)
	r := reviewerOf(b, images, repositories)
	b.ResetTimer()
	for b.Loop() {
		l, err := ReadDeleteList("delete-images.yaml", strings.NewReader(list))
		if err != nil {
			b.Fatal(err)
		}
		d, err := Judge(b.Context(), r, l, review.Coming{})
		if err != nil || len(d.Images) != images || len(d.Needed) != images/2 || d.Allowed {
			b.Fatalf("%v: %d images, %d needed", err, len(d.Images), len(d.Needed))
		}
	}
}

// TestJudgeGrowsWithTheList: eight times the items and images take some eight times as much of a processor, where each compared with
// each would take 64 times, and no place is asked for twice. What is compared are the best of some runs, as others use the machine, too.
func TestJudgeGrowsWithTheList(t *testing.T) {
	judged := func(items, images int) time.Duration {
		r := reviewerOf(t, images, 199)
		asked := 0
		r.Registries = review.RegistriesFunc(func(ctx context.Context, locs []mirrors.Location) policy.Facts {
			asked += len(locs)
			return holdsAll(ctx, locs)
		})
		l, err := ReadDeleteList("delete-images.yaml", strings.NewReader(deletions(items, 199)))
		if err != nil {
			t.Fatal(err)
		}
		fastest := time.Hour
		for range 5 {
			asked = 0
			start := processorTime(t)
			d, err := Judge(t.Context(), r, l, review.Coming{})
			fastest = min(fastest, processorTime(t)-start)
			if err != nil || len(d.Needed) != images/2 {
				t.Fatalf("%v: %d needed", err, len(d.Needed))
			}
			// Each tag of the list, to learn its digest; and each image as it is, and as it will be.
			if asked > items+2*images {
				t.Errorf("%d places were asked for, with %d items and %d images", asked, items, images)
			}
		}
		return fastest
	}
	few := judged(2_500, 250)
	many := judged(20_000, 2_000)
	t.Logf("%v and %v", few, many)
	if many > 24*few {
		t.Errorf("eight times as much takes %v instead of %v", many, few)
	}
}

// processorTime is what this process has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// digestOf is that of the n-th image.
func digestOf(n int) string { return fmt.Sprintf("sha256:%064x", n) }

func repositoryOf(n, repositories int) string { return fmt.Sprintf("team/app-%d", n%repositories) }

// deletions deletes every second of the images that there may be.
func deletions(items, repositories int) string {
	var b strings.Builder
	b.WriteString("apiVersion: mirror.openshift.io/v2alpha1\nitems:\n")
	for i := range items {
		n := 2 * i
		fmt.Fprintf(&b, "- imageName: docker://quay.io/%[1]s@%[2]s\n  imageReference: docker://m.example.com:8443/%[1]s:%[3]s\n  type: operatorRelatedImage\n", repositoryOf(n, repositories), digestOf(n), digestOf(n)[7:])
	}
	b.WriteString("kind: DeleteImageList\n")
	return b.String()
}

// reviewerOf is that of a cluster with images that are all at a mirror.
func reviewerOf(t testing.TB, images, repositories int) *review.Reviewer {
	t.Helper()
	var all []policy.Image
	for n := range images {
		all = append(all, policy.Image{
			Ref:       "quay.io/" + repositoryOf(n, repositories) + "@" + digestOf(n),
			Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: fmt.Sprintf("app-%d", n), Container: "app"}},
		})
	}
	set := mirrors.Set{Objects: []mirrors.Object{&configv1.ImageDigestMirrorSet{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{{
			Source: "quay.io", Mirrors: []configv1.ImageMirror{"m.example.com:8443"}, MirrorSourcePolicy: configv1.NeverContactSource,
		}}},
	}}}
	return &review.Reviewer{
		Inventory:  fixed{plan.Cluster{Images: policy.NewImages(all...)}, set},
		Registries: review.RegistriesFunc(holdsAll),
	}
}

// holdsAll has every image at the mirror, by the digest or under the tag that is made of it.
func holdsAll(_ context.Context, locs []mirrors.Location) policy.Facts {
	facts := make(policy.Facts, len(locs))
	for _, l := range locs {
		digest := "sha256:" + l.Ref[len(l.Ref)-64:]
		facts[l] = &policy.Fact{Presence: policy.Present, Digest: digest, MediaType: "application/vnd.oci.image.manifest.v1+json", AsNodes: true}
	}
	return facts
}

// fixed is a cluster that does not change.
type fixed struct {
	cluster plan.Cluster
	set     mirrors.Set
}

func (f fixed) Mirrors(context.Context) (mirrors.Set, error)  { return f.set, nil }
func (f fixed) Cluster(context.Context) (plan.Cluster, error) { return f.cluster, nil }
func (f fixed) Notes() []string                               { return nil }
func (f fixed) Rendered(context.Context, string) (*rollout.Rendered, error) {
	return nil, rollout.ErrGone
}
