package standing

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/review/healing"
	"github.com/mirrorset-guard/mirrorset-guard/review/standing"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
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

	s.remove(t, "cart")
	left := s.nextEvent(t, healing.MirrorNotHealed)
	if want := "1 image lost and not copied back: quay.io/shop/cart:v1: it is pulled by tag, and tags are neither moved nor created; mirrorset-guard sync copies it"; left.Note != want {
		t.Errorf("of a tag, it says %q, want %q", left.Note, want)
	}
	s.sync(t)
	g.Eventually(t, "sync has copied it", func() bool { return g.images("held") == 3 })

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

// sync carries out what the guard advises: mirrorset-guard sync, for the configuration in force, against the cluster.
func (s *stage) sync(t *testing.T) {
	t.Helper()
	secret := filepath.Join(s.dir, "push.json")
	must(t, os.WriteFile(secret, fmt.Appendf(nil, `{"auths": {%q: {"auth": %q}}}`, mirrorHost, base64.StdEncoding.EncodeToString([]byte("pusher:"+healCanary))), 0o600))
	out, err := exec.CommandContext(t.Context(), s.binary, "sync", "--kubeconfig", s.cluster.Kubeconfig, "--push-secret", secret,
		"--registry-ca", filepath.Join(s.dir, "tls", certificates.CAFile), "--resolve", sourceHost+"="+s.source.Addr, "--resolve", mirrorHost+"="+s.mirror.Addr).CombinedOutput()
	if err != nil {
		t.Fatalf("sync: %v\n%s", err, out)
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

// many is what TestHealMany does with.
type many struct {
	all, deleted int
	// requests is the budget of an hour, enough for a dozen an image.
	requests int
	// found is how long an image that was found is assumed to be there.
	found string
	// within is the most that it may take until all are back, 0 for any time.
	within time.Duration
	flags  []string
}

// few is for every run. A search takes two seconds, and what it does not find is noticed within 4.5 s.
var few = many{all: 60, deleted: 10, requests: 2000, found: "5s"}

// asInstalled has the defaults for everything that takes time.
var asInstalled = many{all: 2000, deleted: 50, requests: 20000, found: "5m", within: time.Minute, flags: []string{"--verify-every", standing.DefaultEvery.String()}}

// TestHealMany: many of very many images are copied back by one of two replicas, within the budget that they share; the
// other goes on with it. With CAMPAIGN set, 50 of 2,000 images are back within a minute.
func TestHealMany(t *testing.T) {
	size := few
	if os.Getenv("CAMPAIGN") != "" {
		size = asInstalled
	}
	s := setUp(t)
	s.allowHealing(t)
	digests := s.manyImages(t, size.all)
	config := filepath.Join(s.dir, "config.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, healConfig, true, size.requests, size.found), 0o600))
	flags := append([]string{"--config", config, "--leader-elect"}, size.flags...)
	guards := []*guard{s.start(t, flags...), s.start(t, flags...)}
	leader := s.leader(t, guards)
	other := guards[0]
	if other == leader {
		other = guards[1]
	}
	began := time.Now()
	for _, g := range guards { // both have seen them, and know what is lost later
		g.Eventually(t, "all images are known", func() bool {
			return g.Value("mirrorset_guard_standing_facts", "present") == float64(size.all+3)
		})
	}
	t.Logf("both know all %d images after %s", size.all, time.Since(began).Round(time.Second))
	spent := func(g *guard) int { return int(max(0, g.Value("mirrorset_guard_heal_requests_total", ""))) }
	order := rand.Perm(size.all)
	remove := func(some []int) {
		for _, i := range some {
			must(t, remote.Delete(s.many(t, mirrorHost, i).Context().Digest(digests[i]), s.remote()...))
		}
	}
	began = time.Now()
	remove(order[:size.deleted])
	removed := time.Now()
	leader.Eventually(t, "all were copied back", func() bool {
		return leader.Value("mirrorset_guard_heal_images_total", "copied") == float64(size.deleted)
	})
	took := time.Since(began)
	t.Logf("%d of %d images were back %s after the first was deleted (%s after the last), with %d requests", size.deleted, size.all,
		took.Round(time.Millisecond), time.Since(removed).Round(time.Millisecond), spent(leader))
	if size.within > 0 && took > size.within {
		t.Errorf("that took longer than %s", size.within)
	}
	if got := spent(other); got != 0 {
		t.Errorf("%d requests by the replica that is not the leader", got)
	}
	first := spent(leader)
	leader.Stop(t)
	stopped := time.Now()
	s.leader(t, []*guard{other})
	t.Logf("the other replica verifies after %s", time.Since(stopped).Round(time.Millisecond))
	began = time.Now()
	remove(order[size.deleted : size.deleted+1])
	other.Eventually(t, "the other goes on", func() bool { return other.Value("mirrorset_guard_heal_images_total", "copied") == 1 })
	t.Logf("1 of %d images was back after %s", size.all, time.Since(began).Round(time.Millisecond))
	for _, i := range order[:size.deleted+1] {
		if _, err := remote.Head(s.many(t, mirrorHost, i).Context().Digest(digests[i]), s.remote()...); err != nil {
			t.Errorf("the mirror lacks %s: %v", digests[i], err)
		}
	}
	used := other.Value("mirrorset_guard_heal_budget_used_ratio", "requests") * float64(size.requests)
	if sum := first + spent(other); float64(sum) > used || sum > size.requests {
		t.Errorf("%d requests, %v are written down, the budget has %d", sum, used, size.requests)
	}
}

func (s *stage) many(t *testing.T, host string, i int) name.Tag {
	t.Helper()
	tag, err := name.NewTag(fmt.Sprintf("%s/shop/many%02d:v%d", host, i%20, i))
	must(t, err)
	return tag
}

// containersEach is how many of the images a CronJob has.
const containersEach = 20

// manyImages has both registries hold images that CronJobs pull by digest.
func (s *stage) manyImages(t *testing.T, n int) []string {
	t.Helper()
	digests := make([]string, n)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error {
			img, err := registries.Image(fmt.Sprint("many", i))
			if err != nil {
				return err
			}
			digest, err := img.Digest()
			digests[i] = digest.String()
			return errors.Join(err, remote.Write(s.many(t, sourceHost, i), img, s.remote()...), remote.Write(s.many(t, mirrorHost, i), img, s.remote()...))
		})
	}
	must(t, group.Wait())
	var list strings.Builder
	for i, digest := range digests {
		if i%containersEach == 0 {
			fmt.Fprintf(&list, `
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: many%d, namespace: shop}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
`, i)
		}
		fmt.Fprintf(&list, "          - {name: app%d, image: \"quay.io/shop/many%02d@%s\"}\n", i, i%20, digest)
	}
	s.kubectl(t, list.String(), "create", "-f", "-")
	return digests
}
