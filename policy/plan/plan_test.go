package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// TestPlanLooksAtWhatMayBeRerouted holds the plan to comparing every image, for random
// configurations.
func TestPlanLooksAtWhatMayBeRerouted(t *testing.T) {
	rerouted, spared := 0, 0
	for seed := range uint64(500) {
		r, s := planned(t, rand.New(rand.NewPCG(seed, 7)))
		rerouted, spared = rerouted+r, spared+s
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if rerouted < 500 || spared < 500 {
		t.Errorf("%d images rerouted, %d not looked at: too few of the inputs were meaningful", rerouted, spared)
	}
}

func FuzzPlanLooksAtWhatMayBeRerouted(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed*7919)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) { planned(t, rand.New(rand.NewPCG(a, b))) })
}

// planned compares the plan of a random change with one that looks at every image. It
// returns how many images are rerouted and how many were not looked at.
func planned(t *testing.T, rng *rand.Rand) (rerouted, spared int) {
	c := randomChange(rng)
	var list []policy.Image
	for _, host := range []string{"quay.io", "quay.io:443", "a.local", "docker.io", "index.docker.io", "x.example.com", ""} {
		for _, path := range []string{"app", "x/app", "x/y/app", "library/app", "NOT/parsable"} {
			list = append(list, policy.Image{Ref: strings.TrimPrefix(host+"/"+path, "/") + []string{"", ":v1", "@sha256:" + strings.Repeat("1", 64)}[rng.IntN(3)], Consumers: nil})
		}
	}
	known := Cluster{Images: policy.NewImages(list...)}
	if rng.IntN(2) == 0 {
		known.InForce = mirrors.NewTables(c.Before)
	}
	got := NewOutline(c, known, settings.Settings{}).Plan()
	r := resolve(c, mirrors.NewTables(c.Before), false)
	if r.After == nil {
		return 0, 0
	}
	looked := map[string]bool{}
	for img := range known.Images.Touched(r.changedScopes()) {
		looked[img.Ref] = true
	}
	var want, have []string
	for _, img := range list {
		from, to, changed, err := r.compare(img.Ref, "")
		if changed && err == nil {
			want = append(want, fmt.Sprintf("%s: %v -> %v", img.Ref, from, to))
		}
	}
	for _, reroute := range got.Reroutes {
		have = append(have, fmt.Sprintf("%s: %v -> %v", reroute.Image.Ref, atDepth(reroute.Before, mirrors.DepthExists), atDepth(reroute.After, mirrors.DepthExists)))
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("rerouted:\n%s\nwant:\n%s\n%v\n%v", strings.Join(have, "\n"), strings.Join(want, "\n"), c.Before, c.After)
	}
	for _, img := range got.Malformed {
		if _, _, _, err := r.compare(img.Ref, ""); err == nil {
			t.Errorf("%s is taken for malformed", img.Ref)
		}
	}
	for _, img := range list {
		if _, _, _, err := r.compare(img.Ref, ""); err != nil && !slices.ContainsFunc(got.Malformed, func(m policy.Image) bool { return m.Ref == img.Ref }) {
			t.Errorf("%s is not taken for malformed", img.Ref)
		}
	}
	return len(want), len(list) - len(looked)
}

// randomChange returns a step between configurations with sources and mirrors that cover
// each other, and lists.
func randomChange(rng *rand.Rand) policy.Change {
	scope := func() string {
		return []string{"quay.io", "quay.io:443", "a.local", "docker.io", "*.example.com", "x.example.com"}[rng.IntN(6)]
	}
	below := func() string { return []string{"", "/x", "/x/y", "/library"}[rng.IntN(4)] }
	object := func(name string) mirrors.Object {
		source := scope()
		if !strings.HasPrefix(source, "*") {
			source += below()
		}
		to := configv1.ImageMirror([]string{"a.local", "b.local", "quay.io/x"}[rng.IntN(3)] + below())
		policy := []configv1.MirrorSourcePolicy{configv1.AllowContactingSource, configv1.NeverContactSource}[rng.IntN(2)]
		meta := metav1.ObjectMeta{Name: name}
		if rng.IntN(2) == 0 {
			return &configv1.ImageTagMirrorSet{ObjectMeta: meta, Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: []configv1.ImageTagMirrors{{Source: source, Mirrors: []configv1.ImageMirror{to}, MirrorSourcePolicy: policy}}}}
		}
		return &configv1.ImageDigestMirrorSet{ObjectMeta: meta, Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{{Source: source, Mirrors: []configv1.ImageMirror{to}, MirrorSourcePolicy: policy}}}}
	}
	var s mirrors.Set
	for k := range rng.IntN(6) {
		s.Objects = append(s.Objects, object(fmt.Sprint("s", k)))
	}
	if rng.IntN(4) == 0 {
		s.Registries.BlockedRegistries = []string{"a.local" + below()}
	}
	if rng.IntN(4) == 0 {
		s.Registries.InsecureRegistries = []string{scope()}
	}
	if rng.IntN(6) == 0 {
		s.Registries.AllowedRegistries, s.Registries.BlockedRegistries = []string{scope(), scope()}, nil
	}
	c := policy.Change{Before: s, After: mirrors.Put(object(fmt.Sprint("s", rng.IntN(7)))).Apply(s)}
	switch rng.IntN(8) {
	case 0:
		c.After.Registries.BlockedRegistries = []string{"b.local"}
	case 1:
		c.After.Registries.ContainerRuntimeSearchRegistries = []string{"quay.io"}
	case 2:
		c.Before, c.After = c.After, c.Before
	}
	return c
}
