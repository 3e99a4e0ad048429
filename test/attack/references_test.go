package attack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
)

const (
	// maxWithReferences is what a guard may have resident, in MiB, once it has nothing to do, where there
	// are many references and a change that reroutes all of them was judged.
	maxWithReferences = 300
	// maxLeft is how much more than before it may have once they are gone: it remembers for a while what
	// registries said of them, and a heap that was large stays so in part.
	maxLeft = 64
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

// testReferences: what a tenant takes of memory that names very many images is bounded, and is given
// back.
func testReferences(t *testing.T, s *stage) {
	const each = 2000
	n := campaign.Times(20_000, 100_000)
	s.introduce(t)
	g := s.guards[0]
	images := func() int { return int(g.Value("mirrorset_guard_inventory_images", "")) }
	known, calm := images(), s.residents()
	s.hand(t, "", "create", "namespace", "tenant")
	for i := range n / each {
		s.hand(t, podTemplate(t, i, each), "create", "-f", "-")
	}
	g.Eventually(t, "it knows of the references", func() bool { return images() >= known+n })
	with := g.Resident() >> 20
	resident, took := watch(t, s.guards...), new(sample)
	alice := s.as(t, "alice")
	for range campaign.Times(1, 4) {
		start := time.Now()
		var err error
		for range 5 { // on a machine that has other things to do, an answer may not come in time
			err = alice.dryRun(t.Context(), tagSet("all", "quay.io", "mirror.example.com", never))
			if !isUndecided(err) || strings.Contains(err.Error(), "is refused") {
				break
			}
		}
		took.add(time.Since(start), nil)
		if err == nil || !strings.Contains(err.Error(), "is refused") {
			t.Errorf("the change of all: %v", err)
		}
	}
	peak := resident.read()
	s.settles(t, "with the references", slices.Repeat([]int64{maxWithReferences}, len(s.guards)))
	after := g.Resident() >> 20
	s.hand(t, "", "delete", "podtemplates", "--all", "--namespace=tenant")
	g.Eventually(t, "it knows that they are gone", func() bool { return images() <= known })
	most := slices.Clone(calm)
	for i := range most {
		most[i] += maxLeft
	}
	s.settles(t, "without them", most)
	t.Logf("%d references: %v MiB resident before, %d with them, %d while they were judged (%s), %d afterwards, %v once they are gone",
		n, calm, with, peak, took, after, s.residents())
}

// residents returns what each guard has resident, in MiB.
func (s *stage) residents() []int64 {
	var all []int64
	for _, g := range s.guards {
		all = append(all, g.Resident()>>20)
	}
	return all
}

// settles waits until no guard has more memory resident than so many MiB.
func (s *stage) settles(t *testing.T, when string, most []int64) {
	t.Helper()
	start := time.Now()
	for i, g := range s.guards {
		for g.Resident()>>20 > most[i] {
			if time.Since(start) > backWithin {
				t.Errorf("%s: %d MiB resident after %s, want %d", when, g.Resident()>>20, backWithin, most[i])
				return
			}
			time.Sleep(100 * time.Millisecond) // nothing tells of it
		}
	}
}
