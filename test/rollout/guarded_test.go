package rollout

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// TestGuarded tells the deadlock with the guard in front of the API server: it never starts.
// The same change is let through once the routers are at the mirror, and rolls out, which
// `rollout watch` and the guard itself follow to the end.
func TestGuarded(t *testing.T) {
	t.Parallel()
	s := stories[0]
	if s.name != "deadlock" {
		t.Fatalf("the first story is %q", s.name)
	}
	told := begin(t, s)
	ctx := t.Context()
	guard := told.stage.InstallGuard(ctx, told.registries, "quay.io", mirrorHost)
	change := manifest(t, s.change.apply[0])
	told.stage.Wait(ctx, "the API server to ask the guard", func() (bool, error) {
		out, err := told.stage.Kubectl(ctx, change, "create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(out, routerV1), nil
	})

	before := told.nodes.Configs(ctx)
	untouched := told.versions()
	out, err := told.stage.TryApply(ctx, change)
	if err == nil {
		t.Fatalf("kubectl apply passes: %s", out)
	}
	for _, part := range []string{"denied the request", routerV1, "app/router"} {
		if !strings.Contains(out, part) {
			t.Errorf("the answer does not name %q:\n%s", part, out)
		}
	}
	if out, err := told.stage.Kubectl(ctx, "", "get", "imagetagmirrorsets", "--output", "name"); err != nil || out != "" {
		t.Errorf("mirror sets: %v %s", err, out)
	}

	// MCO is given another set, so that what it would have made of the first is known to be
	// missing from what it makes.
	told.make(ctx, applying(digestSet("other", "quay.io/other")))
	if rest := told.nodes.Await(ctx, before); !rest.Finished() {
		t.Fatalf("%+v", rest)
	}
	told.configs = told.nodes.Configs(ctx)
	told.same("drained", told.did(stage.DrainAsked), nil)
	told.same("apps evicted", told.appsThat(stage.Evicted), nil)
	if now := told.versions(); !maps.Equal(now, untouched) {
		t.Errorf("pods: %q, before %q", now, untouched)
	}

	before = told.configs
	watched := startWatch(ctx, t, guard, told.stage.Kubeconfig, change)
	told.registries.Push(atMirror + "/router:v1")
	told.stage.Wait(ctx, "the guard to see the image at the mirror", func() (bool, error) {
		_, err := told.stage.Kubectl(ctx, change, "apply", "-f", "-")
		return err == nil, err
	})
	if rest := told.nodes.Await(ctx, before); !rest.Finished() {
		t.Errorf("%+v", rest)
	}
	told.configs = told.nodes.Configs(ctx)
	told.sameOrder("drained", told.did(stage.DrainAsked), names("worker", 1, 6))
	told.same("apps that cannot be pulled", told.appsThat(stage.PullFailed), nil)
	told.followed(ctx, watched, s.change.apply[0])
}

// TestGuardedMove: the mirror has lost the routers after nodes pulled them from it. A change that is
// not about them, and that drains, would move them to nodes that have never had the image. The
// guard refuses it, until the routers are at the mirror again.
func TestGuardedMove(t *testing.T) {
	t.Parallel()
	told := begin(t, story{
		name:  "routers that nobody reroutes",
		nodes: nodes("worker", 4), apps: []app{routers()}, startOn: names("worker", 3, 4),
		before: []mirrors.Object{tagSet()},
		serves: []string{atMirror + "/router:v1"},
	})
	ctx := t.Context()
	told.registries.Front.Set(atMirror+"/router:v1", registries.Absent)
	told.stage.InstallGuard(ctx, told.registries, "quay.io", mirrorHost)
	change := manifest(t, otherTags())
	var out string
	told.stage.Wait(ctx, "the API server to ask the guard", func() (bool, error) {
		var err error
		out, err = told.stage.Kubectl(ctx, change, "apply", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(out, "RolloutStalls"), nil
	})
	for _, part := range []string{routerV1, "app/router", "the change leaves its route as it is"} {
		if !strings.Contains(out, part) {
			t.Errorf("the answer does not name %q:\n%s", part, out)
		}
	}
	before := told.nodes.Configs(ctx)
	told.registries.Front.Set(atMirror+"/router:v1", registries.Honest)
	told.stage.Wait(ctx, "the guard to see the image at the mirror", func() (bool, error) {
		_, err := told.stage.Kubectl(ctx, change, "apply", "-f", "-")
		return err == nil, nil
	})
	if rest := told.nodes.Await(ctx, before); !rest.Finished() {
		t.Errorf("%+v", rest)
	}
	told.configs = told.nodes.Configs(ctx)
	told.sameOrder("drained", told.did(stage.DrainAsked), names("worker", 1, 4))
	told.same("apps that cannot be pulled", told.appsThat(stage.PullFailed), nil)
}

// followed compares what was told of a rollout of o with what came of it.
func (t *telling) followed(ctx context.Context, watched *watching, o mirrors.Object) {
	t.Helper()
	seen := watched.end(ctx)
	t.sameOrder("done, by rollout watch", nodesThat(seen, progress.NodeDone), names("worker", 1, 6))
	if last := seen[len(seen)-1]; last.Type != "Reached" {
		t.Errorf("rollout watch ends with %+v", last)
	}
	for _, e := range seen {
		if e.Type == progress.PoolBegan && e.Pool == "worker" && !slices.Contains(e.Objects, mirrors.NameOf(o)) {
			t.Errorf("the rollout comes from %q, want %s", e.Objects, mirrors.NameOf(o))
		}
	}
	t.same("told by the guard", t.awaitReports(ctx, o), []string{rollouts.MirrorRolloutBegan, rollouts.MirrorRolloutEnded})
}

func applying(o mirrors.Object) change { return change{apply: []mirrors.Object{o}} }

// versions returns where each pod runs, by its UID.
func (t *telling) versions() map[string]string {
	t.Helper()
	var pods corev1.PodList
	if err := t.stage.Client.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	where := map[string]string{}
	for _, pod := range pods.Items {
		where[string(pod.UID)] = pod.Spec.NodeName
	}
	return where
}
