package standing

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// A world is everything that a Verifier looks at and tells, in a bubble. It is safe for
// concurrent use.
type world struct {
	mu      sync.Mutex
	set     mirrors.Set
	images  []policy.Image
	broken  error // of the API server
	sick    policy.Presence
	missing map[string]bool // of locations
	kept    []mirrors.Location
	asked   int
	told    []watchloop.Report
	deaf    error // of the watchloop.Reporter
	logged  []string
	metrics *prometheus.Registry
}

// newWorld has a set named apps that sends n images of quay.io to mirror.example.com.
func newWorld(n int) *world {
	w := &world{missing: map[string]bool{}, metrics: prometheus.NewRegistry()}
	w.set.Objects = []mirrors.Object{tagSet("apps", "quay.io", "mirror.example.com")}
	for i := range n {
		w.images = append(w.images, image(fmt.Sprintf("quay.io/app%03d:1", i)))
	}
	return w
}

func tagSet(name, source string, mirror configv1.ImageMirror) mirrors.Object {
	o := &configv1.ImageTagMirrorSet{}
	o.Name, o.UID = name, types.UID("uid of "+name)
	o.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: source, Mirrors: []configv1.ImageMirror{mirror}}}
	return o
}

func image(ref string) policy.Image {
	return policy.Image{Ref: ref, Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: "cart", Container: "app"}}}
}

func (w *world) Mirrors(context.Context) (mirrors.Set, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.set, w.broken
}

func (w *world) Cluster(context.Context) (plan.Cluster, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return plan.Cluster{Images: policy.NewImages(w.images...)}, nil
}

func (w *world) Rendered(context.Context, string) (*rollout.Rendered, error) {
	return nil, rollout.ErrGone
}

func (w *world) Notes() []string { return nil }

func (w *world) Known(locs []mirrors.Location) policy.Facts {
	w.mu.Lock()
	defer w.mu.Unlock()
	facts := policy.Facts{}
	for _, l := range locs {
		fact := &policy.Fact{Presence: policy.Present, Time: time.Now().Add(-time.Minute), AsNodes: true}
		switch {
		case w.sick != policy.Unknown:
			fact.Presence = w.sick
		case w.missing[l.Ref]:
			fact.Presence, fact.Detail = policy.Absent, "mirror.example.com answers 404"
		}
		facts[l] = fact
	}
	return facts
}

func (w *world) Presence(_ context.Context, locs []mirrors.Location, _ policy.Freshness) policy.Facts {
	w.change(func() { w.asked += len(locs) })
	return w.Known(locs)
}

func (w *world) Keep(_ string, locs []mirrors.Location, _ time.Duration) {
	w.change(func() { w.kept = locs })
}

func (w *world) Report(_ context.Context, r watchloop.Report) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf != nil {
		return w.deaf
	}
	w.told = append(w.told, r)
	return nil
}

func (w *world) change(how func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	how()
}

// lose takes the images from first up to, and without, last from the mirror, or puts
// them back.
func (w *world) lose(first, last int, lost bool) {
	w.change(func() {
		for i := first; i < last; i++ {
			w.missing[fmt.Sprintf("mirror.example.com/app%03d:1", i)] = lost
		}
	})
}

// wait lets time pass and returns what was told meanwhile: "apps MirrorLostImage 2".
func (w *world) wait(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	var told []string
	w.change(func() {
		for _, r := range w.told {
			told = append(told, fmt.Sprintf("%s %s %d", r.Object.GetName(), r.Reason, r.Images))
		}
		w.told = nil
	})
	return strings.Join(told, ", ")
}

// verify runs a Verifier of w in a bubble until test ends.
func verifyNow(t *testing.T, w *world, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := funcr.New(func(_, args string) { w.change(func() { w.logged = append(w.logged, args) }) }, funcr.Options{})
		v, err := New(Options{
			Reviewer: review.Reviewer{Inventory: w}, Store: w, Outlet: watchloop.Outlet{Reporter: w.Report, Budget: watchloop.NewBudget(), Log: log}, Metrics: w.metrics, Log: log,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			v.Verify(ctx)
			close(done)
		}()
		test(t)
		cancel()
		<-done
	})
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: told %q, want %q", what, got, want)
	}
}
