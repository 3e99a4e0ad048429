package standing

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/review/healing"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// healConfig lets the guard copy back what is lost.
const healConfig = `apiVersion: config.mirrorset-guard.io/v1alpha1
kind: GuardConfiguration
heal: {enabled: %t, requestsPerHour: %d}
lifetimes: {found: %s, foundByTag: 1s}
`

// healCanary is in the password of the push secret.
const healCanary = "canary-0815"

// TestHeal: as installed with the overlay, the guard copies back by digest what a live mirror lost, stops where it
// loses it again, and goes on when it is told to by the command that its Event has.
func TestHeal(t *testing.T) {
	s := setUp(t)
	s.allowHealing(t)
	config := filepath.Join(s.dir, "config.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, healConfig, false, 5000, "1s"), 0o600))
	g := s.start(t, "--config", config, "--leader-elect")
	g.Eventually(t, "all images are held", func() bool { return g.images("held") == 3 })

	s.remove(t, "report")
	s.nextEvent(t, "MirrorLostImage")
	if got := g.Value("mirrorset_guard_heal_requests_total", ""); got != 0 {
		t.Errorf("%v requests while it is off", got)
	}
	must(t, os.WriteFile(config, fmt.Appendf(nil, healConfig, true, 5000, "1s"), 0o600))
	healed := s.nextEvent(t, healing.MirrorHealed)
	wantEvent(t, healed, corev1.EventTypeNormal, "ImageDigestMirrorSet",
		fmt.Sprintf("1 image copied back, 0 bytes of layers sent: mirror.example.com/shop/report@%[1]s from quay.io/shop/report@%[1]s", s.digest))
	s.nextEvent(t, "MirrorRecovered")

	tag := s.tag(t, mirrorHost, "report")
	must(t, remote.Delete(tag.Context().Digest(s.digest), s.remote()...))
	stop := s.nextEvent(t, healing.MirrorHealStopped)
	g.Eventually(t, "the metric says so", func() bool { return g.Value("mirrorset_guard_heal_stopped_registries", "") == 1 })
	command := regexp.MustCompile(`oc (annotate lease .*)$`).FindStringSubmatch(stop.Note)
	if command == nil {
		t.Fatalf("no command in %q", stop.Note)
	}
	s.kubectl(t, "", strings.Fields(command[1])...)
	g.Eventually(t, "it goes on", func() bool {
		return g.Value("mirrorset_guard_heal_images_total", "copied") == 2 && g.Value("mirrorset_guard_heal_stopped_registries", "") == 0
	})
	g.Stop(t)
	for _, e := range s.events(t) {
		if strings.Contains(e.Note, healCanary) {
			t.Errorf("an Event has the credentials: %s", e.Note)
		}
	}
}

// allowHealing applies what the overlay adds, and makes the Secret.
func (s *stage) allowHealing(t *testing.T) {
	t.Helper()
	for _, file := range []string{"role.yaml", "rolebinding.yaml"} {
		text, err := os.ReadFile(filepath.Join(cluster.Root(), "manifests", "overlays", "heal", file))
		must(t, err)
		s.apply(t, string(text))
	}
	s.kubectl(t, "", "create", "secret", "docker-registry", healing.DefaultPushSecret, "-n", webhook.Namespace,
		"--docker-server="+mirrorHost, "--docker-username=pusher", "--docker-password="+healCanary)
}

// TestHealMany: many of very many images are copied back by one of two replicas, within the budget that they share; the
// other goes on with it.
func TestHealMany(t *testing.T) {
	const all, deleted, requests = 60, 10, 2000
	s := setUp(t)
	s.allowHealing(t)
	digests := s.manyImages(t, all)
	config := filepath.Join(s.dir, "config.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, healConfig, true, requests, "3s"), 0o600))
	guards := []*guard{s.start(t, "--config", config, "--leader-elect"), s.start(t, "--config", config, "--leader-elect")}
	leader := s.leader(t, guards)
	other := guards[0]
	if other == leader {
		other = guards[1]
	}
	for _, g := range guards { // both have seen them, and know what is lost later
		g.Eventually(t, "all images are known", func() bool {
			return g.Value("mirrorset_guard_standing_facts", "present") == float64(all+3)
		})
	}
	spent := func(g *guard) int { return int(max(0, g.Value("mirrorset_guard_heal_requests_total", ""))) }
	remove := func(from, to int) {
		for i := from; i < to; i++ {
			must(t, remote.Delete(s.many(t, mirrorHost, i).Context().Digest(digests[i]), s.remote()...))
		}
	}
	began := time.Now()
	remove(0, deleted)
	removed := time.Now()
	leader.Eventually(t, "all were copied back", func() bool { return leader.Value("mirrorset_guard_heal_images_total", "copied") == float64(deleted) })
	t.Logf("%d of %d images were back %s after the last was deleted (%s after the first), with %d requests", deleted, all,
		time.Since(removed).Round(time.Millisecond), time.Since(began).Round(time.Millisecond), spent(leader))
	if got := spent(other); got != 0 {
		t.Errorf("%d requests by the replica that is not the leader", got)
	}
	first := spent(leader)
	leader.Stop(t)
	stopped := time.Now()
	s.leader(t, []*guard{other})
	t.Logf("the other replica verifies after %s", time.Since(stopped).Round(time.Millisecond))
	remove(deleted, deleted+1)
	other.Eventually(t, "the other goes on", func() bool { return other.Value("mirrorset_guard_heal_images_total", "copied") == 1 })
	for i := range deleted + 1 {
		if _, err := remote.Head(s.many(t, mirrorHost, i).Context().Digest(digests[i]), s.remote()...); err != nil {
			t.Errorf("the mirror lacks %s: %v", digests[i], err)
		}
	}
	used := other.Value("mirrorset_guard_heal_budget_used_ratio", "requests") * float64(requests)
	if sum := first + spent(other); float64(sum) > used || sum > requests {
		t.Errorf("%d requests, %v are written down, the budget has %d", sum, used, requests)
	}
}

func (s *stage) many(t *testing.T, host string, i int) name.Tag {
	t.Helper()
	tag, err := name.NewTag(fmt.Sprintf("%s/shop/many%02d:v%d", host, i%20, i))
	must(t, err)
	return tag
}

// manyImages has both registries hold images that a ReplicaSet each pulls by digest.
func (s *stage) manyImages(t *testing.T, n int) []string {
	t.Helper()
	digests := make([]string, n)
	var group sync.WaitGroup
	slots := make(chan struct{}, 8)
	var list strings.Builder
	for i := range n {
		img, err := registries.Image(fmt.Sprint("many", i))
		must(t, err)
		digest, err := img.Digest()
		must(t, err)
		digests[i] = digest.String()
		for _, host := range []string{sourceHost, mirrorHost} {
			tag := s.many(t, host, i)
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				if err := remote.Write(tag, img, s.remote()...); err != nil {
					t.Error(err)
				}
			})
		}
		fmt.Fprintf(&list, `
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: many%[1]d, namespace: shop}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: "quay.io/shop/many%02[2]d@%[3]s"}]}}}}
`, i, i%20, digests[i])
	}
	group.Wait()
	s.kubectl(t, list.String(), "create", "-f", "-")
	_, err := s.kube.BatchV1().CronJobs("shop").List(t.Context(), metav1.ListOptions{Limit: 1})
	must(t, err)
	return digests
}
