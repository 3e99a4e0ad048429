package review_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A largeCluster has 50 sources in 20 objects and 100,000 images. Images come and go all
// the time.
type largeCluster struct {
	set   mirrors.Set
	mu    sync.Mutex
	index policy.ImageIndex
	n     int
}

func newLargeCluster() *largeCluster {
	c := &largeCluster{}
	for i := range 20 {
		o := &configv1.ImageTagMirrorSet{}
		o.Name = fmt.Sprintf("set-%d", i)
		for j := i; j < 50; j += 20 {
			o.Spec.ImageTagMirrors = append(o.Spec.ImageTagMirrors, tags(fmt.Sprintf("quay.io/team-%d", j), fmt.Sprintf("mirror.example.com/team-%d", j)))
		}
		c.set.Objects = append(c.set.Objects, o)
	}
	for i := range 98_000 {
		c.put(fmt.Sprintf("quay.io/team-%d/app-%d:v1", i%1000, i))
	}
	for i := range 2000 {
		c.put(fmt.Sprintf("quay.io/wide/app-%d:v1", i))
	}
	return c
}

func tags(source, mirror string) configv1.ImageTagMirrors {
	return configv1.ImageTagMirrors{Source: source, Mirrors: []configv1.ImageMirror{configv1.ImageMirror(mirror)}}
}

func (c *largeCluster) put(ref string) {
	c.index.Put(policy.Image{Ref: ref, Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: "cart"}}})
}

// Mirrors returns objects of its own, as reading them from an API server does.
func (c *largeCluster) Mirrors(context.Context) (mirrors.Set, error) {
	set := c.set
	set.Objects = slices.Clone(set.Objects)
	for i, o := range set.Objects {
		set.Objects[i] = o.(*configv1.ImageTagMirrorSet).DeepCopy()
	}
	return set, nil
}

func (*largeCluster) Rendered(context.Context, string) (*rollout.Rendered, error) {
	return nil, rollout.ErrGone
}

func (*largeCluster) Notes() []string { return nil }

func (c *largeCluster) Cluster(context.Context) (policy.Cluster, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.put(fmt.Sprintf("quay.io/team-%d/new-%d:v1", c.n%1000, c.n))
	return policy.Cluster{Images: c.index.Images()}, nil
}

// BenchmarkReviewsAtOnce has 200 reviews begin at once, whose images are known to the
// Store: of a narrow source with 20 images, and of one with 2,000. It reports when the
// median, the last but one in a hundred, and the last are done.
func BenchmarkReviewsAtOnce(b *testing.B) {
	for name, source := range map[string]string{"narrow": "quay.io/team-900", "2000-images": "quay.io/wide"} {
		b.Run(name, func(b *testing.B) {
			store := presence.NewStore(presence.ProberFunc(func(context.Context, mirrors.Location) policy.Fact {
				return policy.Fact{Presence: policy.Present, Time: time.Now()}
			}), presence.Options{Concurrency: 64, PerRegistry: 64})
			defer store.Close()
			o := &configv1.ImageTagMirrorSet{}
			o.Name = "new"
			o.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{tags(source, "mirror.example.com/new")}
			r := review.Reviewer{Inventory: newLargeCluster(), Registries: store, Limiter: review.NewLimiter(runtime.GOMAXPROCS(0)), InForce: new(review.InForce)}
			if record, err := r.Review(b.Context(), mirrors.Put(o), policy.Requester{}); err != nil || !record.Verdict.Allowed || record.Verdict.Counts.Rerouted < 20 {
				b.Fatalf("%+v, %v", record.Verdict.Counts, err)
			}
			var took []time.Duration
			for b.Loop() {
				took = append(took, atOnce(b, &r, o)...)
			}
			slices.Sort(took)
			for _, q := range []struct {
				name string
				of   float64
			}{{"p50", 0.5}, {"p99", 0.99}, {"last", 1}} {
				b.ReportMetric(took[int(q.of*float64(len(took)-1))].Seconds()*1000, q.name+"-ms")
			}
		})
	}
}

func atOnce(b *testing.B, r *review.Reviewer, o mirrors.Object) []time.Duration {
	took := make([]time.Duration, 200)
	var all sync.WaitGroup
	start := time.Now()
	for i := range took {
		all.Go(func() {
			if record, err := r.Review(b.Context(), mirrors.Put(o), policy.Requester{}); err != nil || !record.Verdict.Allowed {
				b.Errorf("%v, %v", record.Verdict.Allowed, err)
			}
			took[i] = time.Since(start)
		})
	}
	all.Wait()
	return took
}
