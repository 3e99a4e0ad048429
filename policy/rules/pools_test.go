package rules

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
)

// TestPools: where the nodes of some pools have files of their own, the worst that comes of
// a change on any of them counts.
func TestPools(t *testing.T) {
	const dropIn = "/etc/containers/registries.conf.d/50-lab.conf"
	lab := func(role, mirror string) mirrors.File {
		return mirrors.File{MachineConfig: "50-lab", Role: role, Path: dropIn, Contents: []byte("[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = \"" + mirror + "\"\n")}
	}
	before := func(files ...mirrors.File) mirrors.Set {
		s := set()
		s.Files = files
		return s
	}
	quay := mirrors.Put(itms("a", "quay.io", allow, "n.local"))
	for _, tt := range []struct {
		name   string
		before mirrors.Set
		facts  policy.Facts
		want   string
		on     string // the last line of the first finding's details
	}{
		{"no files", before(), facts("n.local/x:1 absent", "quay.io/x:1 present"), "deny ImageMissing", "quay.io/x:1: found"},
		{"the drop-in goes before what is generated", before(lab("worker", "lab.local"), lab("master", "lab.local")), facts("n.local/x:1 absent", "quay.io/x:1 present"), "", ""},
		{"on some nodes it is the mirror of the change that counts", before(lab("worker", "lab.local")), facts("n.local/x:1 absent", "quay.io/x:1 present"), "deny ImageMissing", "on the nodes of pool master"},
		{"on others", before(lab("master", "lab.local")), facts("n.local/x:1 absent", "quay.io/x:1 present"), "deny ImageMissing", "on the nodes of pool worker"},
		{"on all but those of one pool", before(lab("infra", "lab.local")), facts("n.local/x:1 absent", "quay.io/x:1 present"), "deny ImageMissing", "on the nodes of pools master, worker"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := shallow(policy.Change{Before: tt.before, After: quay.Apply(tt.before)}, []policy.Image{{Ref: tag, Consumers: running}}, settings.Settings{})
			got := Decide(p, tt.facts)
			if summary(got) != tt.want {
				t.Fatalf("got %q, want %q\n%s", summary(got), tt.want, words.Answer(got, "it"))
			}
			if tt.want == "" {
				return
			}
			detail := got.Findings[0].Detail
			if last := detail[len(detail)-1]; last != tt.on || got.Counts.Rerouted != 1 {
				t.Errorf("details end with %q, want %q; %d rerouted", last, tt.on, got.Counts.Rerouted)
			}
		})
	}
}

// TestWorstOfPools: one image that takes two new routes is counted and told of once, by what
// is worst.
func TestWorstOfPools(t *testing.T) {
	s := set()
	for role, mirror := range map[string]string{"worker": "w.local", "master": "m.local"} {
		s.Files = append(s.Files, mirrors.File{MachineConfig: "50-lab", Role: role, Path: "/etc/containers/registries.conf.d/50.conf", Contents: []byte("[[registry]]\nlocation = \"n.local\"\nblocked = true\n[[registry]]\nlocation = \"" + mirror + "\"\nblocked = true\n")})
	}
	c := policy.Change{Before: s, After: mirrors.Put(itms("a", "quay.io", never, "m.local", "w.local")).Apply(s)}
	p := shallow(c, []policy.Image{{Ref: tag, Consumers: running}}, settings.Settings{})
	if len(p.Reroutes) != 2 {
		t.Fatalf("reroutes %+v", p.Reroutes)
	}
	verdict := Decide(p, facts("m.local/x:1 present", "w.local/x:1 absent"))
	if got := summary(verdict); got != "deny NotFullySynced" {
		t.Errorf("got %q\n%s", got, words.Answer(verdict, "it"))
	}
	message := words.Refusal(verdict, "ImageTagMirrorSet a")
	if !strings.Contains(message, "the one image it reroutes") || !strings.Contains(message, "- on the nodes of pool master\n") {
		t.Errorf("got %s", message)
	}
}

// TestLaggingPools: what nodes of a pool have that lags behind is no matter of another pool's, whatever files tell them apart.
func TestLaggingPools(t *testing.T) {
	before := set()
	before.Files = []mirrors.File{{MachineConfig: "50-lab", Role: "worker", Path: "/etc/containers/registries.conf.d/50.conf", Contents: []byte("[[registry]]\nlocation = \"other.io\"\n[[registry.mirror]]\nlocation = \"lab.local\"\n")}}
	c := policy.Change{Before: before, After: mirrors.Put(itms("a", "quay.io", allow, "n.local")).Apply(before)}
	for _, pool := range []string{"master", "worker", ""} {
		unread := []evidence.CurrentConfig{{CurrentConfig: rollout.CurrentConfig{Name: "rendered-1", Pool: pool, Lags: true}}}
		p := shallower(newPlan(c, plan.Cluster{Images: policy.NewImages(policy.Image{Ref: tag, Consumers: running}), Current: unread}, settings.Settings{}))
		if got := summary(Decide(p, facts("n.local/x:1 absent", "quay.io/x:1 absent"))); !strings.Contains(got, "deny ImageMissing") {
			t.Errorf("nodes of pool %q may have had it elsewhere: %s", pool, got)
		}
	}
}

// TestLastObjectUncoversFiles: the file that MCO generates hides one that a MachineConfig
// lays in its place, until the last mirror object goes.
func TestLastObjectUncoversFiles(t *testing.T) {
	for _, tc := range []struct {
		name, role, file, image string
		want                    string
	}{
		{"for masters, with a block", "master", "[[registry]]\nlocation='quay.io'\nblocked=true\n", tag, "deny NoRoute"},
		{"for workers, with a block", "worker", "[[registry]]\nlocation='quay.io'\nblocked=true\n", tag, "deny NoRoute"},
		{"for masters, without search registries", "master", "", "nginx:1", "deny RewriteError"},
		{"for workers, without search registries", "worker", "", "nginx:1", "deny RewriteError"},
		{"a qualified name needs none", "worker", "", tag, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := set(itms("a", "example.com", allow, "m.local"))
			before.Files = []mirrors.File{{MachineConfig: "50-registries", Role: tc.role, Path: mirrors.RegistriesConfPath, Contents: []byte(tc.file)}}
			after := before
			after.Objects = nil
			v := Decide(shallow(policy.Change{Before: before, After: after}, []policy.Image{{Ref: tc.image, Consumers: consumers(isRouter)}}, settings.Settings{}), facts("quay.io/x:1 present"))
			if got := summary(v); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
