package rules

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/forecast"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// manySources returns 500 sources in 200 objects, or as many as asked for.
func manySources(sources, objects int) mirrors.Set {
	var s mirrors.Set
	for i := range objects {
		o := &configv1.ImageTagMirrorSet{}
		o.Name = fmt.Sprintf("set-%d", i)
		for j := i; j < sources; j += objects {
			o.Spec.ImageTagMirrors = append(o.Spec.ImageTagMirrors, configv1.ImageTagMirrors{
				Source:  fmt.Sprintf("quay.io/team-%d", j),
				Mirrors: []configv1.ImageMirror{configv1.ImageMirror(fmt.Sprintf("mirror.example.com/team-%d", j))},
			})
		}
		s.Objects = append(s.Objects, o)
	}
	return s
}

func manyImages(n, sources int) []policy.Image {
	images := make([]policy.Image, n)
	for i := range images {
		images[i] = policy.Image{Ref: fmt.Sprintf("quay.io/team-%d/app-%d:v1", i%(2*sources), i), Consumers: running}
	}
	slices.SortFunc(images, func(a, b policy.Image) int { return strings.Compare(a.Ref, b.Ref) }) // as an inventory is
	return images
}

// halfPresent has one half of the places of plan serve what runs, and the other nothing.
func halfPresent(plan plan.ChangePlan) policy.Facts {
	f := policy.Facts{}
	for i, l := range plan.Locations() {
		f[l] = []*policy.Fact{{Presence: policy.Present, Digest: running[0].Digest}, {Presence: policy.Absent}}[i%2]
	}
	return f
}

// BenchmarkReview is all that a review computes: 500 sources in 200 objects,
// 100,000 references of which a half is covered, and 100,000 facts about these.
func BenchmarkReview(b *testing.B) {
	const n = 100_000
	change, cluster := policy.Change{Before: set(), After: manySources(500, 200)}, plan.Cluster{Images: policy.NewImages(manyImages(n, 500)...), Nodes: nodesOf(onePlatform)}
	f := halfPresent(newPlan(change, cluster, settings.Settings{}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		Decide(newPlan(change, cluster, settings.Settings{}), f) // it resolves both sets
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N)/n, "allocs/ref")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/n, "B/ref")
	b.ReportMetric(float64(len(f)), "facts")
}

// BenchmarkNarrowChange is a review of a change of one narrow source, among 100,000
// references of which 20 are below it: the plan beyond resolving the new configuration,
// and the decision. Its peer compares every image, as is done where a change is not narrow.
func BenchmarkNarrowChange(b *testing.B) {
	const n = 100_000
	for _, sources := range []int{50, 500} {
		before := manySources(sources, sources*2/5)
		c := policy.Change{Before: before, After: mirrors.Put(itms("narrow", "quay.io/team-3/app-narrow", allow, "m.local/narrow")).Apply(before)}
		list := manyImages(n, 500)
		for i := range 20 {
			list[i*100].Ref = fmt.Sprintf("quay.io/team-3/app-narrow:v%d", i)
		}
		known := plan.Cluster{Images: policy.NewImages(list...), InForce: mirrors.NewTables(before), Nodes: nodesOf(onePlatform)}
		facts := policy.Facts{}
		for _, l := range newPlan(c, known, settings.Settings{}).Locations() {
			facts[l] = &policy.Fact{Presence: policy.Present}
		}
		if rerouted := len(newPlan(c, known, settings.Settings{}).Reroutes); rerouted != 20 {
			b.Fatalf("%d images are rerouted", rerouted)
		}
		b.Run(fmt.Sprintf("sources=%d/resolve", sources), func(b *testing.B) {
			for b.Loop() {
				_, _ = mirrors.Resolve(c.After)
			}
		})
		b.Run(fmt.Sprintf("sources=%d/review", sources), func(b *testing.B) {
			for b.Loop() {
				Decide(newPlan(c, known, settings.Settings{}), facts)
			}
		})
	}
}

// BenchmarkRoute is one route next to its floor, the runtime's own rewriting.
func BenchmarkRoute(b *testing.B) {
	table, err := mirrors.Resolve(manySources(500, 200))
	if err != nil {
		b.Fatal(err)
	}
	const image = "quay.io/team-499/app:v1"
	b.Run("route", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := table.Route(image, ""); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		reg := sysregistriesv2.Registry{
			Prefix: "quay.io/team-499", Endpoint: sysregistriesv2.Endpoint{Location: "quay.io/team-499"},
			Mirrors: []sysregistriesv2.Endpoint{{Location: "mirror.example.com/team-499", PullFromMirror: sysregistriesv2.MirrorByTagOnly}},
		}
		ref, err := reference.ParseNamed(image)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := reg.PullSourcesFromReference(ref); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkForecast is what a forecast adds to a review, in a cluster of 500 nodes whose pods
// do not run what the change is about. Rendering the files before and after, which decides
// what MCO does, is the floor.
func BenchmarkForecast(b *testing.B) {
	before := mirrors.Set{}
	for i := range 50 {
		before = mirrors.Put(idms(fmt.Sprintf("m%d", i), fmt.Sprintf("quay.io/ns%d", i), allow, mirrorOf(fmt.Sprintf("m.local/ns%d", i)))).Apply(before)
	}
	through := workers(500, "quay.io/other:v1")
	for _, kind := range []struct {
		name string
		edit mirrors.Edit
	}{
		{"reload", mirrors.Put(idms("shop", "quay.io/shop", allow, "m.local/shop"))},
		{"drain", tagsFromMirror()},
	} {
		c := policy.Change{Before: before, After: kind.edit.Apply(before)}
		p := newPlan(c, plan.Cluster{Images: policy.NewImages(policy.Image{Ref: atSource}), Rollout: through}, settings.Settings{})
		b.Run(kind.name, func(b *testing.B) {
			for b.Loop() {
				forecast.Of(p, policy.Facts{}, forecast.Forecaster{Now: noon})
			}
		})
		b.Run(kind.name+"/floor", func(b *testing.B) {
			for b.Loop() {
				for _, set := range []mirrors.Set{c.Before, c.After} {
					if _, err := mirrors.Rendered(set); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
