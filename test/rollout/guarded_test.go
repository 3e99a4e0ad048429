package rollout

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

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

func applying(o mirrors.Object) change { return change{apply: []mirrors.Object{o}} }
