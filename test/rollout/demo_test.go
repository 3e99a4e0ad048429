package rollout

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// demo is a cluster with its output: what an administrator types, and what comes back.
type demo struct {
	*scene
	of  stalling
	out io.Writer
	dir string // of files that are applied
}

// TestDemo is the story of this project's seed: without the guard a change of mirrors stalls the rollout
// at the routers, `rollout diagnose` says why and what to type, and that ends it. With the guard, the
// same change is refused, and no node is touched. With DEMO=1 it shows what happens (make demo-rollout).
func TestDemo(t *testing.T) {
	t.Parallel()
	d := &demo{out: io.Discard, dir: t.TempDir()}
	if os.Getenv("DEMO") != "" {
		d.out = os.Stdout
	}
	d.say("Three nodes, two routers, the controllers of MCO and Kubernetes. Only what runs on nodes is played.")
	d.begin(t)
	ctx := t.Context()
	for _, act := range []struct {
		narration string
		play      func(context.Context)
	}{
		{"There is no guard yet. An ImageTagMirrorSet takes the apps to a mirror that lacks the routers.", d.stall},
		{"Half an hour of looking at pods, or one question.", d.diagnose},
		{"The first remedy, as it stands there.", d.remedy},
		{"The mirror set is taken back, and the mirror loses the image again. Now the guard is installed first.", d.guarded},
	} {
		d.say(act.narration)
		act.play(ctx)
	}
	d.say("It came out as it should.")
}

func (d *demo) say(text string) { fmt.Fprintf(d.out, "\n# %s\n", text) }

// begin sets the scene.
func (d *demo) begin(t *testing.T) {
	t.Helper()
	routers := routers().on("infra").pulledAlways()
	routers.name = "infra" // as its pool
	d.of = stalling{
		change: change{apply: []mirrors.Object{tagSet()}},
		kinds:  []kind{{broken: broken{pool: "infra", nodes: 3, apps: []app{routers}, cause: causes.ImageNotPulled}, serves: []string{routerV1}}},
	}
	d.scene = newStalling(t, d.of)
	if err := os.WriteFile(filepath.Join(d.dir, "apps.yaml"), []byte(manifest(t, tagSet())), 0o600); err != nil {
		t.Fatal(err)
	}
}

// types types a command, and shows what comes back. More are arguments that are of this stage alone.
func (d *demo) types(ctx context.Context, command string, more ...string) (string, error) {
	d.Helper()
	fmt.Fprintf(d.out, "\n$ %s\n", command)
	out, err := d.shell.try(ctx, "cd "+d.dir+" && "+strings.Join(append([]string{command}, more...), " "))
	fmt.Fprint(d.out, out)
	return out, err
}

// ask types a command of the guard, and wants its exit code and answer.
func (d *demo) ask(ctx context.Context, command string, fails bool, want ...string) {
	d.Helper()
	more := []string{"--registry-ca", d.registries.CA}
	for _, host := range []string{"quay.io", mirrorHost} {
		more = append(more, "--resolve", host+"="+d.registries.Front.Addr(host))
	}
	if !strings.Contains(command, "diagnose") {
		more = nil // only this one asks registries
	}
	out, err := d.types(ctx, command, more...)
	if (err != nil) != fails {
		d.Fatalf("%s: %v\n%s", command, err, out)
	}
	for _, part := range want {
		if !strings.Contains(out, part) {
			d.Fatalf("%s does not say %q:\n%s", command, part, out)
		}
	}
}

// stall applies the change, and waits until nothing moves any more.
func (d *demo) stall(ctx context.Context) {
	before := d.nodes.Configs(ctx)
	if out, err := d.types(ctx, "kubectl apply -f apps.yaml"); err != nil {
		d.Fatal(out)
	}
	for pool, config := range before {
		d.stage.Rendered(ctx, pool, config)
	}
	if open, _ := d.rest(ctx, d.of.kinds); len(open) != 1 {
		d.Fatal("the rollout does not stall")
	}
	d.ask(ctx, "mirrorset-guard rollout", false, "is being drained")
}

func (d *demo) diagnose(ctx context.Context) {
	d.ask(ctx, "mirrorset-guard rollout diagnose", true, routerV1, "skopeo copy")
}

// remedy carries out the first remedy that changes something, and waits for the end.
func (d *demo) remedy(ctx context.Context) {
	_, found := d.rest(ctx, d.of.kinds)
	command := effective(findingOf(found, "infra"))
	d.nodes.Note(stage.Changed, command)
	if out, err := d.types(ctx, command); err != nil {
		d.Fatal(out)
	}
	if open, _ := d.rest(ctx, d.of.kinds); len(open) > 0 {
		d.Fatal("the rollout does not finish")
	}
	d.nodes.AwaitUpdated(ctx)
	d.ask(ctx, "mirrorset-guard rollout verify", true, "3 of 3", "node outside is selected by no pool")
}

// guarded takes the change back, installs the guard and applies the change again.
func (d *demo) guarded(ctx context.Context) {
	before := d.nodes.Configs(ctx)
	if out, err := d.types(ctx, "kubectl delete -f apps.yaml"); err != nil {
		d.Fatal(out)
	}
	if rest := d.nodes.Await(ctx, before); len(rest.Stalled) > 0 {
		d.Fatalf("%+v", rest)
	}
	d.registries.Front.Set(atMirror+"/router:v1", registries.Absent)
	d.stage.InstallGuard(ctx, d.registries, "quay.io", mirrorHost)
	change := manifest(d.T, tagSet())
	d.stage.Wait(ctx, "the API server to ask the guard", func() (bool, error) {
		out, err := d.stage.Kubectl(ctx, change, "create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(out, routerV1), nil
	})
	start, untouched := time.Now(), d.nodes.Configs(ctx)
	var out string
	var err error
	d.stage.Wait(ctx, "a verdict", func() (bool, error) {
		out, err = d.types(ctx, "kubectl apply -f apps.yaml")
		return !stage.IsUndecided(out), nil
	})
	if err == nil || !strings.Contains(out, routerV1) {
		d.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	d.ask(ctx, "mirrorset-guard rollout verify", true, "3 of 3")
	if now := d.nodes.Configs(ctx); !maps.Equal(now, untouched) {
		d.Errorf("the pools have %v, before %v", now, untouched)
	}
	for _, e := range d.nodes.Events() {
		if e.Time.After(start) && (e.Kind == stage.DrainAsked || e.Kind == stage.Evicted) {
			d.Errorf("after the refusal: %v", e)
		}
	}
}
