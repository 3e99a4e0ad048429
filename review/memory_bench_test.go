package review_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// A notesFunc is a review.NoteSource. A review asks for notes once it has decided.
type notesFunc func() []string

// Notes implements review.NoteSource.
func (f notesFunc) Notes() []string { return f() }

// live returns how many MiB are in use.
func live() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkMemoryOfManyImages reviews a change that takes 100,000 images to a mirror that has none of
// them, or does not answer. It reports how many MiB are in use for the images alone, which is the
// floor, and beyond that once it has decided, and for what is remembered of registries afterwards.
func BenchmarkMemoryOfManyImages(b *testing.B) {
	absent := policy.Fact{Presence: policy.Absent, Detail: "mirror.example.com answered 404 Not Found: manifest unknown", AsNodes: true}
	probers := map[string]presence.ProberFunc{
		"absent": func(context.Context, mirrors.Location) policy.Fact {
			fact := absent
			fact.Time = time.Now()
			return fact
		},
		"silent": func(ctx context.Context, _ mirrors.Location) policy.Fact {
			<-ctx.Done()
			return policy.Fact{}
		},
	}
	for name, prober := range probers {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				before, c := live(), &largeCluster{}
				for i := range 100_000 {
					c.put(fmt.Sprintf("quay.io/shop/application-%d-%d:v1", i/2000, i%2000))
				}
				images, decided := live(), 0.0
				store := presence.NewStore(prober, presence.Options{})
				r := &review.Reviewer{Inventory: c, Registries: store, Told: webhook.Told}
				r.NoteSources = []review.NoteSource{notesFunc(func() []string {
					decided = live()
					return nil
				})}
				ctx, cancel := context.WithTimeout(b.Context(), 15*time.Second)
				if _, err := r.Review(ctx, mirrors.Put(everything()), policy.Requester{}); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(images-before, "MiB-images")
				b.ReportMetric(decided-images, "MiB-decided")
				b.ReportMetric(live()-images, "MiB-remembered")
				runtime.KeepAlive(c)
				cancel()
				store.Close()
			}
		})
	}
}

// everything takes all of a registry to a mirror alone.
func everything() *configv1.ImageTagMirrorSet {
	all := tags("quay.io", "mirror.example.com")
	all.MirrorSourcePolicy = configv1.NeverContactSource
	o := &configv1.ImageTagMirrorSet{Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: []configv1.ImageTagMirrors{all}}}
	o.Name = "all"
	return o
}
