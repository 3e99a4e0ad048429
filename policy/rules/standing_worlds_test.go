package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

// A shared world is one in which sources may share places at mirrors, with what each place holds: the digest of an image, ""
// for none, or a presence.
type sharedWorld struct {
	set    mirrors.Set // one ITMS or IDMS for each source
	images []policy.Image
	holds  map[string]string
}

func randomShared(rng *rand.Rand) sharedWorld {
	w := sharedWorld{holds: map[string]string{}}
	sources := []string{"quay.io", "quay.io/a", "quay.io/b", "docker.io/library"}
	for _, k := range rng.Perm(len(sources))[:1+rng.IntN(3)] {
		to := convert.Each(rng.Perm(3)[:1+rng.IntN(2)], func(m int) configv1.ImageMirror {
			return []configv1.ImageMirror{"m.example.com/t", "m.example.com/t/a", "n.example.com/t"}[m]
		})
		kind := []func(string, string, configv1.MirrorSourcePolicy, ...configv1.ImageMirror) mirrors.Object{itms, itms, itms, idms}[rng.IntN(4)]
		w.set.Objects = append(w.set.Objects, kind(fmt.Sprint("s", k), sources[k], []configv1.MirrorSourcePolicy{allow, never}[rng.IntN(2)], to...))
	}
	for _, ref := range []string{"quay.io/a/x:1", "quay.io/b/x:1", "docker.io/library/x:1", "quay.io/a/x@" + sumA} {
		if rng.IntN(4) == 0 {
			continue
		}
		img := policy.Image{Ref: ref, Consumers: consumers()}
		if rng.IntN(2) == 0 {
			img.Consumers = consumers(isRouter)
		}
		if rng.IntN(4) > 0 {
			runs := img.Consumers[0]
			runs.Use, runs.Digest = policy.Running, []string{sumA, sumB}[rng.IntN(2)]
			img.Consumers = append(img.Consumers, runs)
		}
		w.images = append(w.images, img)
	}
	for _, host := range []string{"m.example.com", "n.example.com", "quay.io", "docker.io"} {
		for _, path := range []string{"/t/x", "/t/a/x", "/t/b/x", "/t/a/a/x", "/t/a/b/x", "/a/x", "/b/x", "/library/x"} {
			w.holds[host+path] = []string{sumA, sumA, sumB, sumB, sumB, "", "unreachable", []string{"denied", "mismatch"}[rng.IntN(2)]}[rng.IntN(8)]
		}
	}
	return w
}

func (w *sharedWorld) find(l mirrors.Location) *policy.Fact {
	name, version, _ := mirrors.Canonical(l.Ref)
	switch held := w.holds[mirrors.OneSpelling(name)]; {
	case held == "", strings.HasPrefix(version, "@") && strings.HasPrefix(held, "sha") && version[1:] != held:
		return &policy.Fact{Presence: policy.Absent, AsNodes: true}
	case strings.HasPrefix(held, "sha"):
		return &policy.Fact{Presence: policy.Present, AsNodes: true, Digest: held, MediaType: "application/vnd.oci.image.manifest.v1+json"}
	default:
		return &policy.Fact{Presence: map[string]policy.Presence{"unreachable": policy.Unreachable, "denied": policy.Denied, "mismatch": policy.Mismatch}[held], AsNodes: true}
	}
}

// judge returns the severity of each finding about an image, by image and rule, and what is to be copied, to which place.
func (w *sharedWorld) judge(p any) (found map[string]policy.Severity, copies []string, facts policy.Facts) {
	p = shallower(p)
	facts = policy.Facts{}
	for _, l := range planOf(p).Locations() { // all, as more known may make a verdict milder
		facts[l] = w.find(l)
	}
	var v policy.Judgement
	switch p := p.(type) {
	case plan.ChangePlan:
		v = Decide(p, facts).Judgement
	case plan.StandingPlan:
		v = DecideStanding(p, facts).Judgement
	}
	found = map[string]policy.Severity{}
	for _, f := range v.Findings {
		if f.Image.Ref != "" && f.Severity > policy.Info {
			found[f.Image.Ref+" "+f.Rule] = f.Severity
		}
	}
	for _, c := range v.Copies() {
		copies = append(copies, fmt.Sprint(mirrors.OneSpelling(c.To.Ref), " ", c.Digest, " ", c.Obstacle != ""))
	}
	slices.Sort(copies)
	return found, copies, facts
}

func (w *sharedWorld) cluster() plan.Cluster {
	return plan.Cluster{Images: policy.NewImages(w.images...)}
}

// fromNothing is the change that brings all of set.
func (w *sharedWorld) fromNothing(set mirrors.Set) plan.ChangePlan {
	return newPlan(policy.Change{Before: mirrors.Set{}, After: set}, w.cluster(), settings.Settings{})
}

// asFiles returns the drop-ins that do what objects do, on the nodes of some roles.
func asFiles(objects []mirrors.Object, roles ...string) (files []mirrors.File) {
	for _, e := range (mirrors.Set{Objects: objects}).Entries() {
		var text strings.Builder
		fmt.Fprintf(&text, "[[registry]]\nprefix = %[1]q\nlocation = %[1]q\nblocked = %[2]v\n", e.Source, e.Policy == never)
		for _, m := range e.Mirrors {
			pull := map[bool]string{true: "tag-only", false: "digest-only"}[mirrors.KindOf(e.Object) == mirrors.TagMirrorSetGVK.Kind]
			fmt.Fprintf(&text, "[[registry.mirror]]\nlocation = %q\npull-from-mirror = %q\n", m, pull)
		}
		for _, role := range roles {
			files = append(files, mirrors.File{MachineConfig: "z-" + e.Object.GetName(), Role: role, Path: "/etc/containers/registries.conf.d/" + e.Object.GetName() + ".conf", Contents: []byte(text.String())})
		}
	}
	return files
}

// standings are the ways in which nodes come to have what set says: by objects alone; some of it by drop-ins; on the nodes of one
// pool, by its files or as they lag behind.
func (w *sharedWorld) standings(rng *rand.Rand) map[string]plan.StandingPlan {
	kept := w.set.Objects[:rng.IntN(len(w.set.Objects)+1)]
	others := w.set.Objects[len(kept):]
	laid, ofPool, lagging := mirrors.Set{Objects: kept}, mirrors.Set{Objects: kept}, w.cluster()
	laid.Files, ofPool.Files = asFiles(others, "worker", "master"), asFiles(others, []string{"worker", "master", "infra"}[rng.IntN(3)])
	lagging.Current = []evidence.CurrentConfig{{CurrentConfig: rollout.CurrentConfig{Name: "rendered-infra-1", Pool: "infra", Lags: true}}}
	lagging.Current[0].Routes, _ = mirrors.Resolve(w.set)
	return map[string]plan.StandingPlan{
		"objects": plan.NewStanding(w.set, w.cluster(), settings.Settings{}),
		"files":   plan.NewStanding(laid, w.cluster(), settings.Settings{}),
		"a pool":  plan.NewStanding(ofPool, w.cluster(), settings.Settings{}),
		"lagging": plan.NewStanding(mirrors.Set{Objects: kept}, lagging, settings.Settings{}),
	}
}

func (w *sharedWorld) String() string {
	var b strings.Builder
	for _, e := range w.set.Entries() {
		fmt.Fprintf(&b, "%s %s->%v %s\n", mirrors.KindOf(e.Object), e.Source, e.Mirrors, e.Policy)
	}
	for _, img := range w.images {
		fmt.Fprintf(&b, "%s in %s runs %v\n", img.Ref, img.Consumers[0].Namespace, evidence.DigestsOf(img))
	}
	for _, place := range slices.Sorted(maps.Keys(w.holds)) {
		fmt.Fprintf(&b, "%s: %s\n", place, cmp.Or(w.holds[place], "absent"))
	}
	return b.String()
}

// eachShared calls try with worlds that MCO would apply, and their seeds.
func eachShared(t *testing.T, try func(t *testing.T, seed uint64, w sharedWorld, rng *rand.Rand)) {
	t.Helper()
	count := campaign.Times(100, 2000)
	denied, met := 0, 0
	for seed := range uint64(count) {
		rng := rand.New(rand.NewPCG(seed, 43))
		w := randomShared(rng)
		if _, err := mirrors.Resolve(w.set); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		found, _, _ := w.judge(w.fromNothing(w.set))
		for key, severity := range found {
			denied += policy.Bit(severity == policy.Deny)
			met += policy.Bit(strings.HasSuffix(key, policy.AnotherImage))
		}
		if try(t, seed, w, rng); t.Failed() {
			return
		}
	}
	t.Logf("seeds 0 to %d: %d images denied, %d meet another", count-1, denied, met)
	if denied < count/4 || met < count/20 {
		t.Errorf("%d of %d are denied, %d meet another: they show too little", denied, count, met)
	}
}

// TestStandingIsAChangeFromNothing: what the change that brings a configuration is refused for, or warned of, is said of it when it is
// in force, however nodes have come to have it. If it is on the nodes of a pool alone, what others have may be worse, and not better.
func TestStandingIsAChangeFromNothing(t *testing.T) {
	eachShared(t, func(t *testing.T, seed uint64, w sharedWorld, rng *rand.Rand) {
		want, _, _ := w.judge(w.fromNothing(w.set))
		for way, plan := range w.standings(rng) {
			got, _, facts := w.judge(plan)
			if everywhere := way == "objects" || way == "files"; everywhere && !maps.Equal(got, want) {
				t.Errorf("seed %d, by %s: got %v, want %v\n%s", seed, way, got, want, &w)
			}
			for _, img := range w.images {
				if severest(got, img) < severest(want, img) {
					t.Errorf("seed %d, by %s: got %v, want no less than %v\n%s", seed, way, got, want, &w)
				}
			}
			for _, s := range Standings(plan, facts) {
				if lost := func(rule string) bool {
					return isLoss(policy.Finding{Rule: rule, Severity: want[s.Image.Ref+" "+rule]})
				}; s.Outcome == evidence.Works && slices.ContainsFunc(IDs(), lost) {
					t.Errorf("seed %d, by %s: %s works, and %v\n%s", seed, way, s.Image.Ref, want, &w)
				}
			}
		}
	})
}

func severest(found map[string]policy.Severity, img policy.Image) (most policy.Severity) {
	for key, severity := range found {
		if strings.HasPrefix(key, img.Ref+" ") {
			most = max(most, severity)
		}
	}
	return most
}

// TestManySpellings: a registry that mirror sets call by several names is one registry: same verdicts, same copies.
func TestManySpellings(t *testing.T) {
	eachShared(t, func(t *testing.T, seed uint64, w sharedWorld, rng *rand.Rand) {
		respelled := mirrors.Set{}
		for _, o := range w.set.Objects {
			e := (mirrors.Set{Objects: []mirrors.Object{o}}).Entries()[0]
			kind := map[bool]func(string, string, configv1.MirrorSourcePolicy, ...configv1.ImageMirror) mirrors.Object{true: itms, false: idms}[mirrors.KindOf(o) == mirrors.TagMirrorSetGVK.Kind]
			var to []configv1.ImageMirror
			for _, m := range e.Mirrors {
				host, path, _ := strings.Cut(m, "/")
				host = []string{host, host + ":443", strings.ToUpper(host[:1]) + host[1:], strings.ToUpper(host) + ":443"}[rng.IntN(4)]
				to = append(to, configv1.ImageMirror(host+"/"+path))
			}
			respelled.Objects = append(respelled.Objects, kind(o.GetName(), e.Source, e.Policy, to...))
		}
		want, wantCopies, _ := w.judge(w.fromNothing(w.set))
		for _, plan := range []any{w.fromNothing(respelled), plan.NewStanding(respelled, w.cluster(), settings.Settings{})} {
			if got, copies, _ := w.judge(plan); !maps.Equal(got, want) || !slices.Equal(copies, wantCopies) {
				t.Errorf("seed %d: got %v %q, want %v %q\n%s%v", seed, got, copies, want, wantCopies, &w, respelled.Entries())
			}
		}
	})
}
