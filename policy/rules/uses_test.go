package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// TestMisnamed: a name that nothing in use has, and that something has elsewhere.
func TestMisnamed(t *testing.T) {
	alike := []string{"r.local/t0/many", "r.local/t1/many", "r.local/t2/many"} // of ten
	images := []string{"r.local/team/store/till:1", "r.local/a/b/c/hub:1", "quay.io/x/served:1", "quay.io/used/app:1", "docker.io/team/store/till:1", "other.local/hub:1"}
	for _, tt := range []struct {
		name    string
		sources []string
		want    []string
	}{
		{"a namespace is left out, on the same host", []string{"r.local/store", "quay.io/used"}, []string{"r.local/team/store"}},
		{"another host has the last two names", []string{"quay.io/team/store", "quay.io/used"}, []string{"docker.io/team/store", "r.local/team/store"}},
		{"another host has the last name alone, which is not enough", []string{"quay.io/hub", "quay.io/used"}, nil},
		{"unless the whole object covers nothing", []string{"quay.io/hub"}, []string{"other.local/hub", "r.local/a/b/c/hub"}},
		{"what has a mirror is not what was meant", []string{"quay.io/y/served", "quay.io/x"}, nil},
		{"no more than are told", []string{"r.local/many", "quay.io/used"}, alike},
		{"covered", []string{"r.local/team"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var known []policy.Image
			for i := range 10 {
				known = append(known, policy.Image{Ref: fmt.Sprintf("r.local/t%d/many:1", i), Consumers: running})
			}
			for _, ref := range images {
				known = append(known, policy.Image{Ref: ref, Consumers: running})
			}
			o := &configv1.ImageTagMirrorSet{}
			for _, s := range tt.sources {
				o.Spec.ImageTagMirrors = append(o.Spec.ImageTagMirrors, configv1.ImageTagMirrors{Source: s, Mirrors: []configv1.ImageMirror{"m.local/x"}})
			}
			p := shallow(policy.Change{Before: set(), After: set(o)}, known, settings.Settings{})
			if got := p.Misnamed(p.Uses()).Of(tt.sources[0]); !slices.Equal(slices.Sorted(slices.Values(got)), tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// TestUnserved: with the twin of an entry that serves nothing, each image that it covers has its mirrors, and nothing
// is left to be said.
func TestUnserved(t *testing.T) {
	rng := rand.New(rand.NewPCG(45, 5))
	told := 0
	for range 3000 {
		w := randomWorld(rng)
		p := shallow(w.change, []policy.Image{w.image}, settings.Settings{})
		for _, e := range plan.Unserved(p) {
			told++
			kind := itms
			if mirrors.ByDigest(w.image.Ref) {
				kind = idms
			}
			to := convert.Each(e.Mirrors, mirrorOf)
			with := w.change.After
			with.Objects = append(slices.Clone(with.Objects), kind("twin", e.Source, allow, to...))
			q := shallow(policy.Change{Before: w.change.Before, After: with}, []policy.Image{w.image}, settings.Settings{})
			if len(q.Reroutes) != 1 || len(q.Reroutes[0].After.Mirrors()) != len(to) || len(plan.Unserved(q)) != 0 {
				t.Fatalf("%s: the twin does not serve the image\n%s", e.Source, w)
			}
		}
	}
	if told < 100 {
		t.Errorf("only %d worlds have an entry that serves nothing", told)
	}
}
