package mirrors

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

// TestChangedScopesMissNoRoute holds CompareScopes to Compare: what it leaves out has the same route in
// both tables.
func TestChangedScopesMissNoRoute(t *testing.T) {
	pairs, images, changed, spared := campaign.Times(100, 300), 0, 0, 0
	for seed := range uint64(pairs) {
		i, c, s := differ(t, gen{rand.New(rand.NewPCG(seed, 31))})
		images, changed, spared = images+i, changed+c, spared+s
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d pairs of tables, %d images, %d rerouted, %d left out", pairs, images, changed, spared)
	if changed < images/20 || spared < images/5 {
		t.Error("too few of the inputs were meaningful")
	}
}

func FuzzChangedScopesMissNoRoute(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed, seed*7919)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) { differ(t, gen{rand.New(rand.NewPCG(a, b))}) })
}

func differ(t *testing.T, g gen) (images, rerouted, spared int) {
	before := g.any(t)
	after := g.step(t, before)
	from, err := ResolveUnchecked(before)
	if err != nil {
		return 0, 0, 0
	}
	to, err := ResolveUnchecked(after)
	if err != nil {
		return 0, 0, 0
	}
	d := CompareScopes(from, to)
	for range 40 {
		image := g.image(pick(g, []Set{before, after}))
		_, _, changed, err := Compare(from, to, image, "")
		touched := d.touches(image)
		if changed && !touched {
			t.Errorf("%s is rerouted, and not covered by %+v\nbefore:\n%s\nafter:\n%s", image, d, dump(before), dump(after))
		}
		if _, qualified := Repository(image); err != nil && qualified && !isQualified(image) {
			t.Errorf("%s has a place and cannot be parsed: %v", image, err)
		}
		images++
		if changed {
			rerouted++
		}
		if !touched {
			spared++
		}
	}
	return images, rerouted, spared
}

// touches reports whether d says that the route of image may differ.
func (d ChangedScopes) touches(image string) bool {
	repository, qualified := Repository(image)
	if !qualified {
		return true
	}
	host, _, _ := strings.Cut(repository, "/")
	return d.Everything || slices.ContainsFunc(d.Scopes, func(scope string) bool {
		suffix, wildcard := strings.CutPrefix(scope, "*")
		rest, below := strings.CutPrefix(repository, scope)
		return wildcard && strings.Contains(host, suffix) || below && (rest == "" || rest[0] == '/' || rest[0] == ':')
	})
}

// any returns a random set with lists and files of all kinds.
func (g gen) any(t *testing.T) Set {
	s := g.set()
	if g.chance(25) {
		s.Files = g.files(t)
	}
	if g.chance(25) {
		s.Registries.BlockedRegistries = nil
		for range g.IntN(4) {
			s.Registries.AllowedRegistries = append(s.Registries.AllowedRegistries, g.scope())
		}
	}
	if g.chance(25) {
		s.Payload = "quay.io/openshift-release-dev/ocp-release@" + digestA
	}
	return s
}

// step returns what comes of a set by a change: mostly a small one.
func (g gen) step(t *testing.T, s Set) Set {
	if g.chance(10) {
		return g.any(t)
	}
	next := s
	next.Objects = slices.Clone(s.Objects)
	for range 1 + g.IntN(2) {
		other := g.any(t)
		switch n := len(next.Objects); {
		case n > 0 && g.chance(30):
			next = Delete(next.Objects[g.IntN(n)]).Apply(next)
		case len(other.Objects) > 0 && g.chance(70):
			next = Put(pick(g, other.Objects)).Apply(next)
		case g.chance(30):
			next.Files = other.Files
		case g.chance(50):
			next.Registries.BlockedRegistries = other.Registries.BlockedRegistries
		case g.chance(50):
			next.Registries.AllowedRegistries = other.Registries.AllowedRegistries
		default:
			next.Registries.ContainerRuntimeSearchRegistries = other.Registries.ContainerRuntimeSearchRegistries
		}
	}
	return next
}
