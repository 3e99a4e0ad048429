package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
)

const (
	// maxWithReferences is what a guard may have resident, in MiB, where there are many references, while changes that
	// reroute all of them are judged.
	maxWithReferences = 300
	// maxLeft is how much more than before it may have once they are gone: it remembers for a while what
	// registries said of them, and a heap that was large stays so in part.
	maxLeft = 80
	// backWithin is how long it may take to give back memory.
	backWithin = process.Patience
)

// podTemplate returns one that names so many images that nothing else does.
func podTemplate(t *testing.T, number, images int) string {
	template := corev1.PodTemplate{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"}}
	template.Name, template.Namespace = fmt.Sprint("many-", number), "tenant"
	for i := range images {
		template.Template.Spec.Containers = append(template.Template.Spec.Containers, corev1.Container{
			Name: fmt.Sprint("c", i), Image: fmt.Sprintf("quay.io/shop/application-%d-%d:v1", number, i),
		})
	}
	text, err := json.Marshal(template)
	must(t, err)
	return string(text)
}

// testReferences: what a tenant takes of memory that names very many images is bounded, however many changes of all of
// them are judged at once, and is given back.
func testReferences(t *testing.T, s *stage) {
	const each = 2000
	n := campaign.Times(20_000, 100_000)
	s.introduce(t)
	large := s.startIn(t, []string{"GOMAXPROCS=32"}, s.binary, "--leader-elect") // as on a large node; it is asked by strangers alone
	large.AwaitReady(t)
	guards := append(slices.Clone(s.guards), large)
	images := func(g *guard) int { return int(g.Value("mirrorset_guard_inventory_images", "")) }
	known, calm := images(large), residents(guards)
	s.hand(t, "", "create", "namespace", "tenant")
	for i := range n / each {
		s.hand(t, podTemplate(t, i, each), "create", "-f", "-")
	}
	for _, g := range guards {
		g.Eventually(t, "it knows of the references", func() bool { return images(g) >= known+n })
	}
	with := residents(guards)
	for _, judged := range []struct {
		what   string
		by     *guard // whom strangers ask; nil: the API server asks
		atOnce int
	}{
		{"one", nil, 1},
		{"four at once", nil, 4},
		{"eight forged ones at once", s.guards[0], 8},
		{"as many forged ones at once as a large node has processors", large, 32},
	} {
		if !campaign.On() && judged.atOnce > 1 && judged.by != large {
			continue // each takes all its time
		}
		t.Run(judged.what, func(t *testing.T) {
			resident := watch(t, guards...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			meanwhile := make(chan *sample, 1)
			go func() { meanwhile <- s.others(ctx, t, "alice") }()
			took := new(sample)
			var refused atomic.Int64
			var all sync.WaitGroup
			for i := range judged.atOnce {
				all.Go(func() {
					// On a machine that has other things to do, there may be no verdict in time. The next try knows more.
					for tries := 0; tries < 1 || judged.atOnce == 1 && tries < 5 && refused.Load() == 0; tries++ {
						start := time.Now()
						if s.judgesAll(t, judged.by, i) {
							refused.Add(1)
						}
						took.add(time.Since(start), nil)
					}
				})
			}
			all.Wait()
			cancel()
			during, peak := <-meanwhile, resident.read()
			t.Logf("%d refused, of %s; up to %d MiB resident; small changes meanwhile: %s", refused.Load(), took, peak, during)
			if peak > maxWithReferences {
				t.Errorf("%d MiB resident, want %d", peak, maxWithReferences)
			}
			if judged.atOnce == 1 && refused.Load() == 0 {
				t.Error("none was refused")
			}
			if err := during.failed(); err != nil {
				t.Errorf("small changes failed: %v", err)
			}
		})
	}
	after := residents(guards)
	s.hand(t, "", "delete", "podtemplates", "--all", "--namespace=tenant")
	most := slices.Clone(calm)
	for i, g := range guards {
		g.Eventually(t, "it knows that they are gone", func() bool { return images(g) <= known })
		most[i] += maxLeft
	}
	settles(t, "without them", guards, most)
	t.Logf("%d references: %v MiB resident before, %v with them, %v once they were judged, %v once they are gone", n, calm, with, after, residents(guards))
}

// judgesAll has a change of all images judged, and reports whether it is refused because of what was found. It may be
// that there is no verdict in time; an admission is an error.
func (s *stage) judgesAll(t *testing.T, by *guard, number int) bool {
	change := tagSet(fmt.Sprint("all-", number), "quay.io", "mirror.example.com", never)
	var message string
	if by == nil {
		err := s.as(t, "alice").dryRun(t.Context(), change)
		if message = fmt.Sprint(err); err == nil {
			t.Error("the change of all is admitted")
		}
	} else if _, answer := newStranger(t, 700+number).post(t.Context(), by, forged(t, "mallory", change), 15*time.Second); answer != nil {
		if message = answer.Result.Message; answer.Allowed {
			t.Error("the forged change of all is admitted")
		}
	}
	return strings.Contains(message, "is refused") && !strings.Contains(message, "no verdict")
}

// residents returns what each guard has resident, in MiB.
func residents(guards []*guard) []int64 {
	var all []int64
	for _, g := range guards {
		all = append(all, g.Resident()>>20)
	}
	return all
}

// settles waits until no guard has more memory resident than so many MiB.
func settles(t *testing.T, when string, guards []*guard, most []int64) {
	t.Helper()
	start := time.Now()
	for i, g := range guards {
		for g.Resident()>>20 > most[i] {
			if time.Since(start) > backWithin {
				t.Errorf("%s: %d MiB resident after %s, want %d", when, g.Resident()>>20, backWithin, most[i])
				return
			}
			time.Sleep(100 * time.Millisecond) // nothing tells of it
		}
	}
}
