package rollout

import (
	"cmp"
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// TestRandomStories tells ROLLOUT_STORIES random stories (10 if all is told, else none), of which only the simulation
// says what comes of them. The number of one that differs is its seed; ROLLOUT_FIRST is that
// of the first.
func TestRandomStories(t *testing.T) {
	t.Parallel()
	first := times(t, "ROLLOUT_FIRST", 0)
	for seed := first; seed < first+times(t, "ROLLOUT_STORIES", ifWhole(10)); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newRandom(seed).story()
			t.Logf("%+v", s)
			tell(t, s)
		})
	}
}

// story is about few nodes and apps, some of which can hardly move.
func (r random) story() story {
	s := story{setup: stage.Setup{Pools: []stage.Pool{{Name: "worker", MaxUnavailable: pick(r, "", "", "2", "50%")}}}}
	s.nodes = nodes("worker", 3+r.IntN(3))
	roles := []string{""}
	if r.chance(30) {
		s.setup.Pools = append(s.setup.Pools, stage.Pool{Name: "infra", Paused: r.chance(20)})
		s.nodes = append(s.nodes, with(nodes("infra", 2+r.IntN(2)), tainted)...)
		roles = append(roles, "infra")
	}
	images := []string{routerV1, webV1, "quay.io/app/api:v1"}
	for i := range 1 + r.IntN(4) {
		s.apps = append(s.apps, r.app(i, s, pick(r, roles...), pick(r, images...)))
	}
	for _, image := range images {
		s.serves = append(s.serves, image)
		if r.chance(50) {
			s.serves = append(s.serves, atMirror+image[len(sources):])
		}
	}
	s.nodes = with(s.nodes, func(_ int, n *stage.Node) {
		n.Zone = pick(r, "", "", "", "a", "b")
		for _, image := range images {
			if r.chance(15) {
				n.Cached = append(n.Cached, image)
			}
		}
	})
	if r.chance(15) {
		s.away = "quay.io"
	}
	set := tagSet().(*configv1.ImageTagMirrorSet)
	if r.chance(25) {
		set.Spec.ImageTagMirrors[0].MirrorSourcePolicy = configv1.AllowContactingSource
	}
	s.change.apply = []mirrors.Object{set}
	if r.chance(10) {
		s.change.apply = []mirrors.Object{digestSet("apps", sources)}
	}
	return s
}

// app is one that can start on the nodes of a role.
func (r random) app(i int, s story, role, image string) app {
	room := 0
	for _, n := range s.nodes {
		if n.Roles[0] == cmp.Or(role, "worker") {
			room++
		}
	}
	a := app{
		name: fmt.Sprintf("app%d", i), image: image, role: role, always: r.chance(50), apart: r.chance(60), replicas: min(room, 1+r.IntN(4)),
		kind: pick(r, "", "", "", "StatefulSet", "DaemonSet"),
	}
	if r.chance(30) {
		a.ports = []int{8000 + i}
	}
	switch r.IntN(6) {
	case 0, 1, 2:
		a.budget = fmt.Sprintf("minAvailable: %d", max(a.replicas-1, 1))
	case 3:
		a.budget = fmt.Sprintf("minAvailable: %d", 1+r.IntN(a.replicas))
	case 4:
		a.budget = pick(r, "maxUnavailable: 1", "maxUnavailable: 50%", `minAvailable: "50%"`)
	}
	if a.kind == "DaemonSet" { // has a pod on each node anyway
		a.budget, a.apart, a.replicas = "", false, 0
	}
	return a
}
