package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestImagesTouched holds the order to looking at every image.
func TestImagesTouched(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	hosts := []string{"quay.io", "quay.io:443", "quay.io-x", "quay.ioo", "a.b.example.com", "a.b.example.com:5000", "b.example.com", "localhost", "docker.io", "a.b", "a.b-c", "a.b.c"}
	paths := []string{"/a", "/a/b", "/a-b", "/a.b", "/a/b/c", "/ab", "/b"}
	var index ImageIndex
	all := map[string]Image{}
	for range 2000 {
		ref := hosts[rng.IntN(len(hosts))] + paths[rng.IntN(len(paths))] + []string{"", ":v1", ":v2", "@sha256:" + strings.Repeat("1", 64)}[rng.IntN(4)]
		switch rng.IntN(10) {
		case 0:
			ref = fmt.Sprintf("short-%d", rng.IntN(20))
		case 1:
			ref = fmt.Sprintf("NO:reference-%d", rng.IntN(20))
		}
		if rng.IntN(3) == 0 {
			index.Delete(ref)
			delete(all, ref)
			continue
		}
		img := Image{Ref: ref, Consumers: []Consumer{{Kind: "Pod", Name: fmt.Sprint(rng.IntN(100))}}}
		index.Put(img)
		all[ref] = img
	}
	images := index.Images()
	if images.Len() != len(all) {
		t.Fatalf("%d images, want %d", images.Len(), len(all))
	}
	for img := range images.All() {
		if img.Consumers[0] != all[img.Ref].Consumers[0] {
			t.Errorf("%s: %v, want %v", img.Ref, img, all[img.Ref])
		}
	}
	for range 500 {
		var d mirrors.ChangedScopes
		for range rng.IntN(4) {
			scope := hosts[rng.IntN(len(hosts))]
			if rng.IntN(2) == 0 {
				scope += paths[rng.IntN(len(paths))]
			}
			d.Scopes = append(d.Scopes, scope)
		}
		if rng.IntN(4) == 0 {
			d.Scopes = append(d.Scopes, []string{"*.io", "*.example.com", "*.b.example.com", "*.b"}[rng.IntN(4)])
		}
		var want []string
		for ref := range all {
			if touches(d, ref) {
				want = append(want, ref)
			}
		}
		slices.Sort(want)
		var got []string
		for img := range images.touched(d) {
			got = append(got, img.Ref)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%v: got %v\nwant %v", d.Scopes, got, want)
		}
	}
	if n := len(slices.Collect(images.touched(mirrors.ChangedScopes{Everything: true}))); n != len(all) {
		t.Errorf("everything is %d images, want %d", n, len(all))
	}
}

func touches(d mirrors.ChangedScopes, ref string) bool {
	repository, qualified := mirrors.Repository(ref)
	host, _, _ := strings.Cut(repository, "/")
	return !qualified || slices.ContainsFunc(d.Scopes, func(scope string) bool {
		if suffix, ok := strings.CutPrefix(scope, "*"); ok {
			return strings.Contains(host, suffix)
		}
		rest, ok := strings.CutPrefix(repository, scope)
		return ok && (rest == "" || rest[0] == '/' || rest[0] == ':')
	})
}

// TestImagesDoNotChange: what was returned stays as it was, whatever comes afterwards, also
// while others read it (which the race detector watches).
func TestImagesDoNotChange(t *testing.T) {
	var index ImageIndex
	for i := range 500 {
		index.Put(Image{Ref: fmt.Sprintf("quay.io/app-%d:v1", i)})
	}
	was := index.Images()
	done := make(chan int)
	go func() {
		n := 0
		for range 20 {
			for range was.All() {
				n++
			}
		}
		done <- n
	}()
	for i := range 500 {
		index.Delete(fmt.Sprintf("quay.io/app-%d:v1", i))
		index.Put(Image{Ref: fmt.Sprintf("quay.io/other-%d:v1", i)})
		if i%50 == 0 && index.Images().Len() != 500 {
			t.Errorf("%d images", index.Images().Len())
		}
	}
	if n := <-done; n != 20*500 {
		t.Errorf("%d images were read, want %d", n, 20*500)
	}
	for img := range was.All() {
		if !strings.HasPrefix(img.Ref, "quay.io/app-") {
			t.Errorf("%s came later", img.Ref)
		}
	}
}

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
	var list []Image
	for _, host := range []string{"quay.io", "quay.io:443", "a.local", "docker.io", "index.docker.io", "x.example.com", ""} {
		for _, path := range []string{"app", "x/app", "x/y/app", "library/app", "NOT/parsable"} {
			list = append(list, Image{strings.TrimPrefix(host+"/"+path, "/") + []string{"", ":v1", "@sha256:" + strings.Repeat("1", 64)}[rng.IntN(3)], nil})
		}
	}
	known := Cluster{Images: NewImages(list...)}
	if rng.IntN(2) == 0 {
		known.InForce = mirrors.NewTables(c.Before)
	}
	got := NewOutline(c, known, Settings{}).Plan()
	r := c.resolve(mirrors.NewTables(c.Before), false)
	if r.after == nil {
		return 0, 0
	}
	looked := map[string]bool{}
	for img := range known.Images.touched(r.changedScopes()) {
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
		if _, _, _, err := r.compare(img.Ref, ""); err != nil && !slices.ContainsFunc(got.Malformed, func(m Image) bool { return m.Ref == img.Ref }) {
			t.Errorf("%s is not taken for malformed", img.Ref)
		}
	}
	return len(want), len(list) - len(looked)
}

// randomChange returns a step between configurations with sources and mirrors that cover
// each other, and lists.
func randomChange(rng *rand.Rand) Change {
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
	c := Change{Before: s, After: mirrors.Put(object(fmt.Sprint("s", rng.IntN(7)))).Apply(s)}
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
