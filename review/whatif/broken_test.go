package whatif

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A partsWorld is a cluster of two platforms that pulls indexes by digest. Nodes of a paused pool still pull by old, which
// names another path at the same mirror.
type partsWorld struct {
	now, old *mirrors.Table
	reviewer *review.Reviewer
	// has are the manifests at registries, by reference: indexes, and their parts.
	has map[string]bool
}

var (
	partsPlatforms = []string{"amd64", "arm64"}
	partsImages    = 2
)

// partOf is the digest of the part of the n-th index for a platform.
func partOf(n, platform int) string { return digestOf(100 + 10*n + platform) }

func newPartsWorld(t testing.TB, source configv1.MirrorSourcePolicy) partsWorld {
	t.Helper()
	w := partsWorld{reviewer: reviewerOf(t, partsImages, partsImages), has: map[string]bool{}}
	cluster := w.reviewer.Inventory.(fixed)
	table := func(mirror string) *mirrors.Table {
		o := cluster.set.Objects[0].(*configv1.ImageDigestMirrorSet).DeepCopy()
		o.Spec.ImageDigestMirrors[0].Mirrors, o.Spec.ImageDigestMirrors[0].MirrorSourcePolicy = []configv1.ImageMirror{configv1.ImageMirror(mirror)}, source
		cluster.set = mirrors.Set{Objects: []mirrors.Object{o}}
		table, err := mirrors.NewTables(cluster.set).Resolve("")
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	w.old = table("m.example.com:8443/old")
	w.now = table("m.example.com:8443")
	cluster.cluster.Current = []evidence.CurrentConfig{{CurrentConfig: rollout.CurrentConfig{Name: "rendered-old", Pool: "paused", Lags: true}, Routes: w.old}}
	for _, arch := range partsPlatforms {
		node := &corev1.Node{}
		node.Name, node.Status.NodeInfo.Architecture, node.Status.NodeInfo.OperatingSystem = arch, arch, "linux"
		cluster.cluster.Nodes = append(cluster.cluster.Nodes, node)
	}
	w.reviewer.Inventory, w.reviewer.Registries = cluster, review.RegistriesFunc(w.answer)
	return w
}

// places are the repositories of the n-th image.
func (w partsWorld) places(n int) []string {
	repository := repositoryOf(n, partsImages)
	return []string{"m.example.com:8443/" + repository, "m.example.com:8443/old/" + repository, "quay.io/" + repository}
}

// fill has a repository hold the n-th index, but for the parts that are missing.
func (w partsWorld) fill(repository string, n int, missing ...string) {
	w.has[repository+"@"+digestOf(n)] = true
	for k, platform := range partsPlatforms {
		if !slices.Contains(missing, platform) {
			w.has[repository+"@"+partOf(n, k)] = true
		}
	}
}

func (w partsWorld) answer(_ context.Context, locs []mirrors.Location) policy.Facts {
	facts := policy.Facts{}
	for _, l := range locs {
		f := &policy.Fact{Presence: policy.Absent, AsNodes: true}
		if w.has[l.Ref] {
			repository, version := split(l)
			*f = policy.Fact{Presence: policy.Present, AsNodes: true, Digest: version[1:], MediaType: "application/vnd.oci.image.index.v1+json"}
			for k, platform := range partsPlatforms {
				digest := partOf(slices.IndexFunc([]string{digestOf(0), digestOf(1)}, func(d string) bool { return d == f.Digest }), k)
				f.Children = append(f.Children, digest)
				if !w.has[repository+"@"+digest] {
					f.Missing = append(f.Missing, "linux/"+platform)
					continue
				}
				f.Serves = append(f.Serves, "linux/"+platform)
				f.Instances = append(f.Instances, policy.Instance{Platform: "linux/" + platform, Digest: digest})
			}
		}
		facts[l] = f
	}
	return facts
}

// pulls reports whether a node of a platform gets the n-th image by a table, and which manifests it asks for: it
// takes the first index that there is, and gets its part there or nowhere.
func (w partsWorld) pulls(t testing.TB, table *mirrors.Table, n, platform int, deleted map[string]bool) (ok bool, asked []string) {
	t.Helper()
	route, err := table.Route("quay.io/"+repositoryOf(n, partsImages)+"@"+digestOf(n), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range route.Open() {
		repository, _ := split(at)
		asked = append(asked, at.Ref)
		if w.has[at.Ref] && !deleted[at.Ref] {
			part := repository + "@" + partOf(n, platform)
			return w.has[part] && !deleted[part], append(asked, part)
		}
	}
	return false, asked
}

func (w partsWorld) judge(t testing.TB, references ...string) Deletion {
	t.Helper()
	list, err := DeleteReferences(references)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Judge(t.Context(), w.reviewer, list, review.Coming{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestBrokenElsewhere: what is broken today, on another route or for another platform, hides nothing that a
// deletion breaks, and is not held against one that breaks nothing.
func TestBrokenElsewhere(t *testing.T) {
	const now, old = "m.example.com:8443/team/app-0", "m.example.com:8443/old/team/app-0"
	at := func(repository, digest string) string { return repository + "@" + digest }
	for _, tt := range []struct {
		reason    string
		fill      func(partsWorld)
		delete    []string
		allowed   bool
		rule, say string
	}{
		{"the last part of an index that lacks one", func(w partsWorld) { w.fill(now, 0, "arm64"); w.fill(old, 0) }, []string{at(now, partOf(0, 0))}, false, "PlatformMissing", "lacks its part for linux/arm64, linux/amd64"},
		{"one that it lacks", func(w partsWorld) { w.fill(now, 0, "arm64"); w.fill(old, 0) }, []string{at(now, partOf(0, 1))}, true, "", ""},
		{"the image, which nodes that lag behind have lost", func(w partsWorld) { w.fill(now, 0) }, []string{at(now, digestOf(0)), at(old, digestOf(0))}, false, "NotFullySynced", "will be gone: item 1"},
		{"the image, and nothing of it where they look", func(w partsWorld) { w.fill(now, 0) }, []string{at(now, digestOf(0)), at(old, digestOf(1))}, false, "NotFullySynced", "will be gone: item 1"},
		{"the image that only nodes that lag behind get", func(w partsWorld) { w.fill(old, 0) }, []string{at(old, digestOf(0)), at(now, digestOf(0))}, false, "NotFullySynced", "will be gone: item 1"},
		{"something else, where all have lost it", func(partsWorld) {}, []string{at(old, digestOf(0)), at(now, digestOf(0)), at(now, partOf(0, 0))}, true, "", ""},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			w := newPartsWorld(t, configv1.NeverContactSource)
			tt.fill(w)
			d := w.judge(t, tt.delete...)
			if d.Allowed != tt.allowed || d.Allowed && len(d.Findings) > 0 {
				t.Fatalf("allowed: %t, with %+v", d.Allowed, d.Findings)
			}
			if report := d.Answer().String(); !tt.allowed && (!strings.Contains(report, tt.rule) || !strings.Contains(report, tt.say) || !strings.Contains(report, "To do: leave out item 1 of ") || strings.Contains(report, pulledAsWell)) {
				t.Errorf("want %s and %q:\n%s", tt.rule, tt.say, report)
			}
		})
	}
}

// TestDeletionsInSmallWorlds holds what is said of deletions to what nodes do, whatever is broken today: one after
// which a node no longer gets an image that it gets today is refused, and one that takes nothing that a node asks for today is
// allowed.
func TestDeletionsInSmallWorlds(t *testing.T) {
	const worlds = 1000
	breaks, despite, allowed := 0, 0, 0
	for seed := range uint64(worlds) {
		random := rand.New(rand.NewPCG(seed, 5))
		w := newPartsWorld(t, []configv1.MirrorSourcePolicy{configv1.AllowContactingSource, configv1.NeverContactSource}[random.IntN(2)])
		var references []string
		deleted := map[string]bool{}
		for n := range partsImages {
			for _, repository := range w.places(n) {
				switch random.IntN(4) {
				case 0, 1:
					w.fill(repository, n)
				case 2:
					w.fill(repository, n, partsPlatforms[random.IntN(2)])
				}
				for _, digest := range []string{digestOf(n), partOf(n, 0), partOf(n, 1)} {
					if random.IntN(8) == 0 {
						references = append(references, repository+"@"+digest)
						deleted[repository+"@"+digest] = true
					}
				}
			}
		}
		if len(references) == 0 {
			continue
		}
		broken, lost, touched := false, "", false
		for n := range partsImages {
			for _, table := range []*mirrors.Table{w.now, w.old} {
				for platform := range partsPlatforms {
					today, asked := w.pulls(t, table, n, platform, nil)
					after, _ := w.pulls(t, table, n, platform, deleted)
					broken = broken || !today
					touched = touched || slices.ContainsFunc(asked, func(ref string) bool { return deleted[ref] && w.has[ref] })
					if today && !after {
						lost = fmt.Sprintf("image %d on %s", n, partsPlatforms[platform])
					}
				}
			}
		}
		d := w.judge(t, references...)
		switch {
		case lost != "" && d.Allowed:
			t.Fatalf("seed %d: allowed, and nodes lose %s: %v of %v", seed, lost, references, w.has)
		case !touched && !d.Allowed:
			t.Fatalf("seed %d: refused, and nodes ask for none of it: %v of %v\n%s", seed, references, w.has, d.Answer())
		}
		if lost != "" {
			breaks++
			if broken {
				despite++
			}
		}
		if d.Allowed {
			allowed++
		}
	}
	t.Logf("%d of %d worlds break, %d of them where something is broken already; %d are allowed", breaks, worlds, despite, allowed)
	if despite < worlds/10 || allowed < worlds/10 {
		t.Error("the worlds show too little")
	}
}
