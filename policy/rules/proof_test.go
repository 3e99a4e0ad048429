package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// consumers returns one consumer in namespace shop, changed by each of change.
func consumers(change ...func(*policy.Consumer)) []policy.Consumer {
	u := policy.Consumer{Kind: "Deployment", Namespace: "shop", Name: "cart", Container: "app"}
	for _, c := range change {
		c(&u)
	}
	return []policy.Consumer{u}
}

func withSecret(u *policy.Consumer) { u.OwnPullSecret = true }
func isRouter(u *policy.Consumer) {
	u.Namespace, u.Name, u.Container = "openshift-ingress", "router-default", "router"
}

func placed(selector map[string]string) func(*policy.Consumer) {
	return func(u *policy.Consumer) { u.Placement = &policy.Placement{NodeSelector: selector} }
}

func runs(digest string) func(*policy.Consumer) {
	return func(u *policy.Consumer) { u.Kind, u.Use, u.Digest = "Pod", policy.Running, digest }
}

// TestOnlyProofWeakens: a denial becomes a warning where it is proved that the pull fails
// today. Each row has a change whose mirror lacks the image.
func TestOnlyProofWeakens(t *testing.T) {
	none, hub := set(), set(itms("hub", "docker.io", never, "m.local"), idms("hubd", "docker.io", never, "m.local"))
	quay := set(itms("a", "quay.io", allow, "m.local"), idms("ad", "quay.io", allow, "m.local"))
	old := set(itms("a", "quay.io", allow, "old.local"), idms("ad", "quay.io", allow, "old.local"))
	gone := []string{"m.local/x:1 absent"}
	for _, tc := range []struct {
		name          string
		before, after mirrors.Set
		image         string
		consumers     []policy.Consumer
		others        bool // CRIOCredentialProviderConfig matches
		facts         []string
		want          string
	}{
		{"the source says 404 to all: proof", none, quay, tag, consumers(), false, append(gone, "quay.io/x:1 absent"), "warn ImageMissing"},
		{"404 hides private images from the guard, not from a pod's own secret", none, quay, tag, consumers(withSecret), false, append(gone, "quay.io/x:1 absent"), "deny ImageMissing"},
		{"401 is no proof, whoever asks", none, quay, tag, consumers(), false, append(gone, "quay.io/x:1 denied"), "deny ImageMissing"},
		{"404 though a pod runs that very digest", none, quay, dig, consumers(runs(strings.TrimPrefix(digestA, "@"))), false, []string{"m.local/x" + digestA + " absent", "quay.io/x" + digestA + " absent"}, "deny ImageMissing"},
		{"404 of a tag though a pod still runs what it was: tags are moved and deleted", none, quay, tag, consumers(runs("sha256:old")), false, append(gone, "quay.io/x:1 absent"), "warn ImageMissing"},
		{"404 where the credential provider may have other credentials", none, quay, tag, consumers(), true, append(gone, "quay.io/x:1 absent"), "deny ImageMissing"},
		{"a user of the past may have had a secret", none, quay, tag, append(consumers(), policy.Consumer{Kind: "Pod", Namespace: "shop", Name: "old", Use: policy.History, OwnPullSecret: true}), false, append(gone, "quay.io/x:1 absent"), "warn ImageMissing"},

		{"the Docker Hub by its name", none, hub, "docker.io/myorg/private:1", consumers(withSecret), false, []string{"m.local/myorg/private:1 absent", "docker.io/myorg/private:1 denied"}, "deny NotFullySynced"},
		{"a short name", none, hub, "myorg/private:1", consumers(withSecret), false, []string{"m.local/myorg/private:1 absent", "docker.io/myorg/private:1 denied", "registry.access.redhat.com/myorg/private:1 absent"}, "deny ImageMissing"},

		{"the old mirror holds it", old, quay, tag, consumers(isRouter), false, append(gone, "old.local/x:1 present", "quay.io/x:1 present"), "deny ImageMissing"},
		{"the old mirror is out of reach at the moment", old, quay, tag, consumers(isRouter), false, append(gone, "old.local/x:1 unreachable", "quay.io/x:1 present"), "deny ImageMissing"},
		{"the old mirror denies the guard at the moment", old, quay, tag, consumers(isRouter), false, append(gone, "old.local/x:1 denied", "quay.io/x:1 present"), "deny ImageMissing"},
		{"the old mirror was not asked in time", old, quay, tag, consumers(isRouter), false, append(gone, "quay.io/x:1 present"), "deny ImageMissing"},
		{"the old mirror does not have it either: proof", old, quay, tag, consumers(isRouter), false, append(gone, "old.local/x:1 absent", "quay.io/x:1 present"), "warn ImageMissing"},
		{"a mirror more, behind one that denies", old, set(itms("a", "quay.io", allow, "old.local", "m.local")), tag, consumers(), false, append(gone, "old.local/x:1 denied", "quay.io/x:1 present"), "warn ImageMissing"},
		{"a mirror more that could not be asked, before the source", old, set(itms("a", "quay.io", allow, "old.local", "m.local")), tag, consumers(), false, []string{"m.local/x:1 unreachable", "old.local/x:1 absent", "quay.io/x:1 unreachable"}, "deny Unverified"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan := shallow(policy.Change{Before: tc.before, After: tc.after}, []policy.Image{{Ref: tc.image, Consumers: tc.consumers}}, settings.Settings{})
			plan.Reroutes[0].OtherCredentials = tc.others
			if got := summary(Decide(plan, facts(tc.facts...))); !strings.HasPrefix(got+",", tc.want+",") {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestBeforeUnknown: where it could not be read what nodes do, a failure of the objects'
// old route proves nothing.
func TestBeforeUnknown(t *testing.T) {
	plan := shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}, []policy.Image{{Ref: tag, Consumers: consumers()}}, settings.Settings{})
	found := facts("m.local/x:1 absent", "quay.io/x:1 absent")
	if v := Decide(plan, found); !v.Allowed {
		t.Error("the image is nowhere today, and that is known")
	}
	plan.Reroutes[0].Before, plan.Reroutes[0].BeforeUnknown = mirrors.Route{}, true
	if v := Decide(plan, found); v.Allowed {
		t.Error("admitted by a route that nobody has read")
	}
}

// TestSpellingNeverMatters: images that are spelt in equal ways get equal verdicts,
// whatever registries say and whoever uses them.
func TestSpellingNeverMatters(t *testing.T) {
	spellings := [][]string{
		{"docker.io/library/nginx:1", "index.docker.io/library/nginx:1", "docker.io/nginx:1", "index.docker.io/nginx:1"},
		{"docker.io/myorg/app:1", "index.docker.io/myorg/app:1"},
		{"docker.io/myorg/app" + digestA, "index.docker.io/myorg/app" + digestA, "docker.io/myorg/app:2" + digestA},
		{"docker.io/library/redis:latest", "docker.io/redis", "index.docker.io/redis:latest"},
	}
	// Of a short name that one registry alone is searched for, too.
	short := [][]string{
		{"docker.io/library/nginx:1", "nginx:1", "library/nginx:1"},
		{"docker.io/myorg/app:1", "myorg/app:1"},
		{"docker.io/myorg/app" + digestA, "myorg/app" + digestA},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	kept, denied := 0, 0
	for range 4000 {
		group, registries := spellings[rng.IntN(len(spellings))], []string(nil)
		if rng.IntN(2) == 0 {
			group, registries = short[rng.IntN(len(short))], []string{"docker.io"}
		}
		change := policy.Change{Before: randomHub(rng), After: randomHub(rng)}
		change.Before.Registries.ContainerRuntimeSearchRegistries = registries
		change.After.Registries.ContainerRuntimeSearchRegistries = registries
		owner := consumers()
		if rng.IntN(2) == 0 {
			owner = consumers(withSecret)
		}
		if rng.IntN(2) == 0 {
			owner = append(owner, consumers(runs("sha256:"+strings.Repeat("a", 64)))...)
		}
		if rng.IntN(4) == 0 {
			owner[0].Namespace = "openshift-ingress"
		}
		platforms := [][]string{nil, onePlatform, twoPlatforms}[rng.IntN(3)]
		others := rng.IntN(5) == 0
		world := policy.Facts{}
		seed := rng.Uint64()
		var first policy.Verdict
		for k, ref := range group {
			plan := newPlan(change, plan.Cluster{Images: policy.NewImages([]policy.Image{{Ref: ref, Consumers: owner}}...), Nodes: nodesOf(platforms)}, settings.Settings{})
			for i := range plan.Reroutes {
				plan.Reroutes[i].OtherCredentials = others
			}
			found := policy.Facts{}
			for lookups := plan.Lookups(found); len(lookups) > 0; lookups = plan.Lookups(found) {
				for _, l := range lookups {
					if _, asked := world[l]; !asked {
						world[l] = randomFact(rand.New(rand.NewPCG(seed, uint64(len(l.Ref))*31+uint64(l.Depth))))
					}
					found[l] = world[l]
				}
			}
			v := Decide(plan, found)
			if k == 0 {
				first = v
				if kept++; !v.Allowed {
					denied++
				}
				continue
			}
			if v.Allowed != first.Allowed || !slices.Equal(rulesOf(v), rulesOf(first)) {
				t.Fatalf("%s: %v %v\n%s: %v %v\nbefore %v\nafter %v", group[0], first.Allowed, rulesOf(first), ref, v.Allowed, rulesOf(v), change.Before, change.After)
			}
		}
	}
	if denied < kept/20 || denied > kept*19/20 {
		t.Errorf("%d of %d changes are denied: the worlds are too much alike", denied, kept)
	}
}

func rulesOf(v policy.Verdict) []string {
	return convert.Each(v.Findings, func(f policy.Finding) string { return fmt.Sprint(f.Severity, f.Rule) })
}

func randomHub(rng *rand.Rand) mirrors.Set {
	var objects []mirrors.Object
	policy := allow
	if rng.IntN(2) == 0 {
		policy = never
	}
	for k, source := range []string{"docker.io", "docker.io/library", "docker.io/myorg"} {
		name := string(rune('a' + k))
		switch rng.IntN(4) {
		case 0:
			objects = append(objects, itms(name, source, policy, "m.local/"+mirrorOf(name)))
		case 1:
			objects = append(objects, idms(name, source, policy, "m.local/"+mirrorOf(name), "n.local"))
		}
	}
	return mirrors.Set{Objects: objects}
}

func randomFact(rng *rand.Rand) *policy.Fact {
	f := &policy.Fact{Presence: policy.Presence(rng.IntN(int(policy.Mismatch) + 1)), AsNodes: rng.IntN(4) > 0}
	if f.Presence == policy.Present {
		f.Digest = []string{"sha256:" + strings.Repeat("a", 64), "sha256:" + strings.Repeat("b", 64)}[rng.IntN(2)]
		switch rng.IntN(3) {
		case 0:
			f.Serves, f.Lacks = onePlatform, []string{"linux/arm64"}
		case 1:
			f.Serves = twoPlatforms
		}
	}
	return f
}

// TestUnverifiedInFront: a place before the one that has the image could not be asked.
func TestUnverifiedInFront(t *testing.T) {
	two := func(p ...string) mirrors.Set {
		return set(itms("a", "quay.io", never, mirrorOf(p[0]), mirrorOf(p[1])))
	}
	open := set(itms("a", "quay.io", allow, "m.local", "n.local"))
	found := []string{"m.local/x:1 unreachable", "n.local/x:1 present"}
	for _, tc := range []struct {
		name          string
		before, after mirrors.Set
		consumers     []policy.Consumer
		settings      settings.Settings
		facts         []string
		want          string
	}{
		{"only mirrors are left, a router", set(), two("m.local", "n.local"), consumers(isRouter), settings.Settings{}, found, "deny UnverifiedInFront"},
		{"only mirrors are left, an application", set(), two("m.local", "n.local"), consumers(), settings.Settings{}, found, "warn UnverifiedInFront"},
		{"the source is left, a router", set(), open, consumers(isRouter), settings.Settings{}, found, "deny UnverifiedInFront"},
		{"the source is left, an application", set(), open, consumers(), settings.Settings{}, found, "warn UnverifiedInFront"},
		{"in front of a mirror that lacks it, a router", set(itms("a", "quay.io", allow, "n.local")), open, consumers(isRouter), settings.Settings{}, []string{"m.local/x:1 unreachable", "n.local/x:1 absent", "quay.io/x:1 present"}, "deny Unverified"},
		{"in front of a mirror that lacks it, an application", set(itms("a", "quay.io", allow, "n.local")), open, consumers(), settings.Settings{}, []string{"m.local/x:1 unreachable", "n.local/x:1 absent", "quay.io/x:1 present"}, "warn Unverified"},
		{"the place is in front today as well", open, two("m.local", "n.local"), consumers(isRouter), settings.Settings{}, found, "warn UnverifiedInFront"},
		{"another place is in front today", open, two("o.local", "n.local"), consumers(isRouter), settings.Settings{}, append(found, "o.local/x:1 unreachable"), "deny UnverifiedInFront"},
		{"by setting, for all but the protected", set(), two("m.local", "n.local"), consumers(), settings.Settings{Severities: map[string]policy.Severity{"UnverifiedInFront": policy.Deny}}, found, "deny UnverifiedInFront"},
		{"weakened for the protected too", set(), two("m.local", "n.local"), consumers(isRouter), settings.Settings{Severities: map[string]policy.Severity{"UnverifiedInFront@protected": policy.Warn}}, found, "warn UnverifiedInFront"},
		{"not weakened by mistake", set(), two("m.local", "n.local"), consumers(isRouter), settings.Settings{Severities: map[string]policy.Severity{"UnverifiedInFront": policy.Warn}}, found, "deny UnverifiedInFront"},
		{"the place is behind the one that has it", set(), two("n.local", "m.local"), consumers(isRouter), settings.Settings{}, found, ""},
		{"the image is not there, says the place in front", set(), two("m.local", "n.local"), consumers(isRouter), settings.Settings{}, []string{"m.local/x:1 absent", "n.local/x:1 present"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan := shallow(policy.Change{Before: tc.before, After: tc.after}, []policy.Image{{Ref: tag, Consumers: tc.consumers}}, tc.settings)
			v := Decide(plan, facts(tc.facts...))
			if got := summary(v); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if tc.want != "" && v.Counts.Verified != 0 {
				t.Error("counted as verified")
			}
		})
	}
}

// TestShortNameAsksFirstRegistry: a later candidate of a short name is what nodes get only
// if the first registry does not have the image.
func TestShortNameAsksFirstRegistry(t *testing.T) {
	plan := shallow(policy.Change{Before: set(), After: set(itms("a", "docker.io", allow, "m.local"))}, []policy.Image{{Ref: "nginx:1", Consumers: consumers()}}, settings.Settings{})
	found := facts("m.local/library/nginx:1 present")
	lookups := plan.Lookups(found)
	if !slices.ContainsFunc(lookups, func(l mirrors.Location) bool { return l.Ref == "registry.access.redhat.com/nginx:1" }) {
		t.Errorf("the first search registry is not asked: %v", lookups)
	}
	for word, want := range map[string]string{"absent": "", "unreachable": "warn UnverifiedInFront", "present": "", "mismatch": "warn UnverifiedInFront"} {
		for l, f := range facts("m.local/library/nginx:1 present", "registry.access.redhat.com/nginx:1 "+word) {
			found[l] = f
		}
		if got := summary(Decide(plan, found)); got != want && got+", warn BroadSource" != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
}

// TestPlatformsByTag: what the mirror's tag serves is held against what the old place
// serves, or what runs, for the platforms that nodes have.
func TestPlatformsByTag(t *testing.T) {
	const (
		single, other = "sha256:single", "sha256:other"
		amd, arm      = "linux/amd64", "linux/arm64"
	)
	present := func(digest string) *policy.Fact { return &policy.Fact{Presence: policy.Present, Digest: digest} }
	serves := func(digest string, platforms ...string) *policy.Fact {
		f := &policy.Fact{Presence: policy.Present, Digest: digest, Serves: platforms}
		for _, p := range twoPlatforms {
			if !slices.Contains(platforms, p) {
				f.Lacks = append(f.Lacks, p)
			}
		}
		return f
	}
	indexFor := func(platform string) *policy.Fact {
		return &policy.Fact{Presence: policy.Present, Digest: other, MediaType: policy.IndexTypes[0], Children: []string{single}, Serves: []string{platform}, Lacks: []string{arm}}
	}
	sparse := func(platform string) *policy.Fact {
		return &policy.Fact{Presence: policy.Present, Digest: other, MediaType: policy.IndexTypes[0], Serves: []string{platform}, Missing: []string{arm}}
	}
	guess := func(missing []string, platforms ...string) *policy.Fact {
		return &policy.Fact{Presence: policy.Present, Digest: other, Serves: platforms, Missing: missing, Guessed: true}
	}
	for _, tc := range []struct {
		name               string
		image              string
		consumers          []policy.Consumer
		nodes              []string
		mirror, mirrorRead *policy.Fact // at either depth
		old, oldRead       *policy.Fact
		want               string
		asked              int // lookups
	}{
		{"an index for both, nodes of both", tag, consumers(), twoPlatforms, present(other), serves(other, amd, arm), &policy.Fact{}, &policy.Fact{}, "", 2},
		{"a single manifest stands for an index", tag, consumers(), twoPlatforms, present(single), serves(single, amd), present(other), serves(other, amd, arm), "deny PlatformMissing", 4},
		{"a single manifest as before", tag, consumers(), twoPlatforms, present(single), serves(single, amd), present(other), serves(other, amd), "", 4},
		{"of what the old place serves, nothing could be told", tag, consumers(), twoPlatforms, present(single), serves(single, amd), &policy.Fact{Presence: policy.Denied}, &policy.Fact{}, "deny PlatformMissing", 3},
		{"the same, and it is what runs where nodes were asked", tag, consumers(runs(single)), twoPlatforms, present(single), serves(single, amd), &policy.Fact{Presence: policy.Denied}, &policy.Fact{}, "deny PlatformMissing", 3},
		{"the same, and it is the index that runs", tag, consumers(runs(other)), twoPlatforms, present(other), indexFor(amd), &policy.Fact{Presence: policy.Denied}, &policy.Fact{}, "", 3},
		{"the same, and a part of it runs", tag, consumers(runs(single)), twoPlatforms, present(other), indexFor(amd), &policy.Fact{Presence: policy.Denied}, &policy.Fact{}, "deny PlatformMissing", 3},
		{"the same, for nodes of one platform", tag, consumers(placed(map[string]string{"kubernetes.io/arch": "amd64"})), twoPlatforms, present(single), serves(single, amd), &policy.Fact{Presence: policy.Denied}, &policy.Fact{}, "", 2},
		{"a sparse index, for nodes of one platform", tag, consumers(placed(map[string]string{"kubernetes.io/arch": "amd64"})), twoPlatforms, present(other), sparse(amd), present(other), serves(other, amd, arm), "", 2},
		{"a sparse index, for nodes of the other", tag, consumers(placed(map[string]string{"kubernetes.io/arch": "arm64"})), twoPlatforms, present(other), sparse(amd), present(other), serves(other, amd, arm), "deny PlatformMissing", 4},
		{"the same, and one of two that run", tag, append(consumers(runs(single)), consumers(runs(other))...), twoPlatforms, present(single), serves(single, amd), &policy.Fact{Presence: policy.Denied}, &policy.Fact{}, "deny PlatformMissing", 3},
		{"one platform, and what runs", tag, consumers(runs(single)), onePlatform, present(single), &policy.Fact{}, &policy.Fact{}, &policy.Fact{}, "", 1},
		{"one platform, and another image than the one that runs, of that platform", tag, consumers(runs(single)), onePlatform, present(other), serves(other, amd, arm), &policy.Fact{}, &policy.Fact{}, "warn TagDrift", 2},
		{"one platform, and an image of another", tag, consumers(runs(single)), onePlatform, present(other), &policy.Fact{Presence: policy.Present, Digest: other, Serves: []string{}, Lacks: []string{amd}}, present(single), serves(single, amd, arm), "deny PlatformMissing", 3},
		{"HEAD finds what GET does not", tag, consumers(), onePlatform, present(other), &policy.Fact{Presence: policy.Absent, AsNodes: true}, present(other), serves(other, amd, arm), "deny ImageMissing", 4},
		{"the platforms could not be read", tag, consumers(), twoPlatforms, present(other), &policy.Fact{Presence: policy.Unreachable}, present(other), serves(other, amd, arm), "deny Unverified", 4},
		{"a digest names the same index everywhere", dig, consumers(), twoPlatforms, present(strings.TrimPrefix(digestA, "@")), &policy.Fact{}, &policy.Fact{}, &policy.Fact{}, "", 1},
		{"no node is known, none of the children is there", tag, consumers(), nil, present(other), guess([]string{amd, arm}), present(other), guess(nil, amd, arm), "deny PlatformMissing", 4},
		{"no node is known, one of the children is not there", tag, consumers(), nil, present(other), guess([]string{arm}, amd), present(other), guess(nil, amd, arm), "deny PlatformMissing", 4},
		{"no node is known, and a smaller index", tag, consumers(), nil, present(other), guess(nil, amd), present(other), guess(nil, amd, arm), "deny PlatformMissing", 4},
		{"no node is known, and the same index", tag, consumers(), nil, present(other), guess(nil, amd, arm), present(other), guess(nil, amd, arm), "", 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan := newPlan(policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"), idms("b", "quay.io", allow, "m.local"))}, plan.Cluster{Images: policy.NewImages([]policy.Image{{Ref: tc.image, Consumers: tc.consumers}}...), Nodes: nodesOf(tc.nodes)}, settings.Settings{})
			suffix := strings.TrimPrefix(tc.image, "quay.io")
			world := policy.Facts{
				{Ref: "m.local" + suffix}:                               tc.mirror,
				{Ref: "m.local" + suffix, Depth: mirrors.DepthManifest}: tc.mirrorRead,
				{Ref: "quay.io" + suffix}:                               tc.old,
				{Ref: "quay.io" + suffix, Depth: mirrors.DepthManifest}: tc.oldRead,
			}
			found := policy.Facts{}
			for lookups := plan.Lookups(found); len(lookups) > 0; lookups = plan.Lookups(found) {
				for _, l := range lookups {
					found[l] = world[l]
				}
			}
			if got := summary(Decide(plan, found)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if len(found) != tc.asked {
				t.Errorf("asked %d places, want %d: %v", len(found), tc.asked, found)
			}
		})
	}
}

// TestRoundRobin: one namespace or object with thousands of images does not use up the time
// of all others.
func TestRoundRobin(t *testing.T) {
	dead := policy.Consumer{Kind: "Deployment", Namespace: "tenant", Name: "dead"}
	user := func(namespace, name string) policy.Consumer {
		return policy.Consumer{Kind: "Deployment", Namespace: namespace, Name: name}
	}
	var images []policy.Image
	for k := range 8000 {
		images = append(images, policy.Image{Ref: fmt.Sprintf("quay.io/dead%04d:1", k), Consumers: []policy.Consumer{dead}})
	}
	images = append(images,
		policy.Image{Ref: "quay.io/zoo:1", Consumers: []policy.Consumer{user("zoo", "zoo")}},
		policy.Image{Ref: "quay.io/zoo-named-by-the-tenant:1", Consumers: []policy.Consumer{dead, user("zoo2", "zoo")}},
		policy.Image{Ref: "quay.io/zoo-of-the-tenant:1", Consumers: []policy.Consumer{user("tenant", "zoo")}},
	)
	plan := shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}, images, settings.Settings{})
	lookups := plan.Lookups(nil)
	for _, ref := range []string{"m.local/zoo:1", "m.local/zoo-named-by-the-tenant:1", "m.local/zoo-of-the-tenant:1"} {
		if at := slices.IndexFunc(lookups, func(l mirrors.Location) bool { return l.Ref == ref }); at < 0 || at > 4 {
			t.Errorf("%s, the only image of a namespace or an object, is asked for as number %d", ref, at)
		}
	}
}

// TestNamespaceSeverity: which namespaces hold up a change is a setting, and the denial
// says which do.
func TestNamespaceSeverity(t *testing.T) {
	change := policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}
	found := facts("m.local/x:1 absent", "quay.io/x:1 present")
	warnShop := settings.Settings{Namespaces: []settings.NamespaceSeverity{{Pattern: "shop-prod", Severity: policy.Deny}, {Pattern: "shop*", Severity: policy.Warn}}}
	other := policy.Consumer{Kind: "Deployment", Namespace: "team", Name: "x"}
	past := policy.Consumer{Kind: "ReplicaSet", Namespace: "team", Name: "x", Use: policy.History}
	for _, tc := range []struct {
		name      string
		consumers []policy.Consumer
		settings  settings.Settings
		allowed   bool
		blockedBy []string
	}{
		{"by default each namespace holds it up", consumers(), settings.Settings{}, false, []string{"shop"}},
		{"one that may not", consumers(), warnShop, true, nil},
		{"the first pattern counts", consumers(func(u *policy.Consumer) { u.Namespace = "shop-prod" }), warnShop, false, []string{"shop-prod"}},
		{"one of two users may", append(consumers(), other), warnShop, false, []string{"team"}},
		{"a guess holds up nothing", append(consumers(), policy.Consumer{Kind: "Widget", Namespace: "team", Name: "x", Guessed: true}), settings.Settings{}, false, []string{"shop"}},
		{"history does not count", append(consumers(), past), warnShop, true, nil},
		{"protected namespaces always may", consumers(isRouter), settings.Settings{Namespaces: []settings.NamespaceSeverity{{Pattern: "*", Severity: policy.Warn}}}, false, nil},
		{"what the cluster itself uses is in no namespace", []policy.Consumer{{Kind: "Node", Name: "a"}}, settings.Settings{Namespaces: []settings.NamespaceSeverity{{Pattern: "*", Severity: policy.Warn}}}, false, nil},
	} {
		v := Decide(shallow(change, []policy.Image{{Ref: tag, Consumers: tc.consumers}}, tc.settings), found)
		if v.Allowed != tc.allowed || !slices.Equal(v.BlockedBy, tc.blockedBy) {
			t.Errorf("%s: allowed %v, held up by %v", tc.name, v.Allowed, v.BlockedBy)
		}
	}
}

// TestInventoryStaleIsForProtectedToo: images that are not known may be protected ones.
func TestInventoryStaleIsForProtectedToo(t *testing.T) {
	c := policy.Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local"))}
	for setting, allowed := range map[string]bool{"Unverified": false, "Unverified@protected": false, "InventoryStale": false, "InventoryStale@protected": true} {
		v := Decide(newPlan(c, plan.Cluster{Gaps: []policy.Gap{{Source: "pods", Kind: "Pod"}}}, settings.Settings{Severities: map[string]policy.Severity{setting: policy.Warn}}), nil)
		if v.Allowed != allowed {
			t.Errorf("%s: warn: allowed %v", setting, v.Allowed)
		}
	}
}

// TestPlatformsBehindUnknown: what an old place serves is not what nodes get today where one
// in front of it could not be asked.
func TestPlatformsBehindUnknown(t *testing.T) {
	sparse := &policy.Fact{Presence: policy.Present, Digest: "sha256:index", Serves: onePlatform, Missing: []string{"linux/arm64"}}
	single := &policy.Fact{Presence: policy.Present, Digest: "sha256:single", Serves: onePlatform, Lacks: []string{"linux/arm64"}}
	for name, fact := range map[string]*policy.Fact{"a sparse index": sparse, "a single image": single} {
		for change, want := range map[string]bool{"m.local goes": false, "m.local stays": true} {
			after := set(itms("a", "quay.io", allow, "n.local"))
			if want {
				after = set(itms("a", "quay.io", allow, "m.local", "n.local", "o.local"))
			}
			plan := newPlan(policy.Change{Before: set(itms("a", "quay.io", allow, "m.local", "n.local")), After: after}, plan.Cluster{Images: policy.NewImages([]policy.Image{{Ref: tag, Consumers: consumers()}}...), Nodes: nodesOf(twoPlatforms)}, settings.Settings{})
			found := facts("m.local/x:1 unreachable", "quay.io/x:1 unreachable")
			for _, depth := range []mirrors.Depth{mirrors.DepthExists, mirrors.DepthManifest} {
				found[mirrors.Location{Ref: "n.local/x:1", Depth: depth}] = fact
			}
			if v := Decide(plan, found); v.Allowed != want {
				t.Errorf("%s, %s: %s", name, change, summary(v))
			}
		}
		plan := newPlan(policy.Change{Before: set(itms("a", "quay.io", never, "m.local")), After: set(itms("a", "quay.io", never, "m.local", "n.local"))}, plan.Cluster{Images: policy.NewImages([]policy.Image{{Ref: tag, Consumers: consumers()}}...), Nodes: nodesOf(twoPlatforms)}, settings.Settings{})
		found := facts("m.local/x:1 unreachable")
		for _, depth := range []mirrors.Depth{mirrors.DepthManifest, mirrors.DepthBlobs} {
			found[mirrors.Location{Ref: "m.local/x:1", Depth: depth}] = &policy.Fact{Presence: policy.Unreachable}
			found[mirrors.Location{Ref: "n.local/x:1", Depth: depth}] = fact
		}
		if v := Decide(plan, found); !v.Allowed {
			t.Errorf("%s, behind all that there is today: %s", name, summary(v))
		}
	}
}

// TestPlatformsOfAShortName: what the first registry lacks of a short name, nodes may get from the second.
func TestPlatformsOfAShortName(t *testing.T) {
	cluster := plan.Cluster{Images: policy.NewImages(policy.Image{Ref: "nginx:1", Consumers: consumers()}), Nodes: nodesOf(twoPlatforms)}
	both, one := set(), set(idms("a", "docker.io", never, "m.local"))
	for _, change := range []policy.Change{{Before: both, After: one}, {Before: one, After: both}} {
		plan, found := newPlan(change, cluster, settings.Settings{}), policy.Facts{}
		for _, depth := range []mirrors.Depth{mirrors.DepthExists, mirrors.DepthManifest} {
			found[mirrors.Location{Ref: "registry.access.redhat.com/nginx:1", Depth: depth}] = &policy.Fact{Presence: policy.Present, Digest: "sha256:index", Serves: onePlatform, Missing: []string{"linux/arm64"}}
			found[mirrors.Location{Ref: "docker.io/library/nginx:1", Depth: depth}] = &policy.Fact{Presence: policy.Unreachable}
		}
		if v, gains := Decide(plan, found), len(change.After.Objects) == 0; v.Allowed != gains {
			t.Errorf("the second registry is asked as well now: %t: %s", gains, summary(v))
		}
	}
	// What is behind a sparse copy is asked by nobody.
	plan, found := newPlan(policy.Change{Before: set(itms("a", "docker.io", allow, "m.local")), After: set(itms("a", "docker.io", never, "m.local"))}, cluster, settings.Settings{}), policy.Facts{}
	for _, depth := range []mirrors.Depth{mirrors.DepthExists, mirrors.DepthManifest} {
		found[mirrors.Location{Ref: "registry.access.redhat.com/nginx:1", Depth: depth}] = &policy.Fact{Presence: policy.Absent, AsNodes: true}
		found[mirrors.Location{Ref: "m.local/library/nginx:1", Depth: depth}] = &policy.Fact{Presence: policy.Present, Digest: "sha256:index", Serves: onePlatform, Missing: []string{"linux/arm64"}}
		found[mirrors.Location{Ref: "docker.io/library/nginx:1", Depth: depth}] = &policy.Fact{Presence: policy.Present, Digest: "sha256:index", Serves: twoPlatforms}
	}
	if v := Decide(plan, found); !v.Allowed {
		t.Errorf("behind a sparse copy: %s", summary(v))
	}
	// Today each of two copies is for some of the nodes, or may be, and all take the one that comes first.
	amd, index := policy.Fact{Presence: policy.Present, Digest: "sha256:amd", Serves: onePlatform, Lacks: twoPlatforms[1:]}, &policy.Fact{Presence: policy.Present, Digest: "sha256:index", Children: []string{"sha256:a"}, Serves: onePlatform, Lacks: twoPlatforms[1:]}
	plan = newPlan(policy.Change{Before: set(), After: set(itms("a", "registry.access.redhat.com", allow, "m.local"))}, cluster, settings.Settings{})
	for _, second := range []*policy.Fact{{Presence: policy.Present, Digest: "sha256:arm", Serves: twoPlatforms[1:], Lacks: onePlatform}, {Presence: policy.Unreachable}} {
		for ref, f := range map[string]*policy.Fact{"registry.access.redhat.com/nginx:1": index, "docker.io/library/nginx:1": second, "m.local/nginx:1": &amd} {
			found[mirrors.Location{Ref: ref, Depth: mirrors.DepthManifest}] = f
		}
		if got := summary(Decide(plan, found)); got != "deny PlatformMissing" {
			t.Errorf("copies for different nodes, the second %s: %s", second.Presence, got)
		}
	}
}

// TestShortNameEndsAtMirror: where a mirror ends the pull of the first candidate, nodes go
// on to the next registry, and get what has the same name there.
func TestShortNameEndsAtMirror(t *testing.T) {
	plan := shallow(policy.Change{Before: set(), After: set(itms("a", "registry.access.redhat.com", allow, "m.local"))}, []policy.Image{{Ref: "nginx:1", Consumers: consumers(isRouter)}}, settings.Settings{})
	elsewhere := []string{"registry.access.redhat.com/nginx:1 present", "docker.io/library/nginx:1 present"}
	for state, want := range map[string]string{"mismatch": "deny ContentMismatch", "incomplete": "deny BlobsMissing", "absent": "deny ImageMissing", "denied": "deny CredentialsMissing"} {
		got := summary(Decide(plan, facts(append(elsewhere, "m.local/nginx:1 "+state)...)))
		if !strings.HasPrefix(got+",", want+",") {
			t.Errorf("%s: got %q, want %q", state, got, want)
		}
	}
	// Nodes ask more of the same place under a new policy, and may stop where a mirror may have something by now.
	plan = shallow(policy.Change{Before: set(), After: withPolicies(signedBy(release, "docker.io/library/nginx"))}, []policy.Image{{Ref: "nginx:1", Consumers: consumers()}}, settings.Settings{})
	if got := summary(Decide(plan, facts("registry.access.redhat.com/nginx:1 absent", "docker.io/library/nginx:1 unreachable"))); got != "deny Unverified" {
		t.Errorf("under a new policy: %s", got)
	}
	plan = shallow(policy.Change{Before: searched("m.local"), After: set(itms("a", "registry.access.redhat.com", allow, "m.local", "n.local"), itms("b", "docker.io", allow, "b.local"))}, []policy.Image{{Ref: "nginx:1", Consumers: consumers()}}, settings.Settings{})
	found := facts("m.local/nginx:1 unreachable", "n.local/nginx:1 absent", "registry.access.redhat.com/nginx:1 absent", "b.local/library/nginx:1 unreachable", "docker.io/library/nginx:1 unreachable")
	if found[mirrors.Location{Ref: "n.local/nginx:1"}].Recalled = true; Decide(plan, found).Allowed {
		t.Errorf("a remembered miss: %s", summary(Decide(plan, found)))
	}
}
