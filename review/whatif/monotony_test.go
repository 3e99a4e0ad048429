package whatif

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A smallWorld is a cluster of a few images by digest, and what registries say of each place.
type smallWorld struct {
	reviewer *review.Reviewer
	set      mirrors.Set
	facts    map[string]policy.Presence
}

func newSmallWorld(t *testing.T, random *rand.Rand) smallWorld {
	t.Helper()
	w := smallWorld{reviewer: reviewerOf(t, 3, 2), facts: map[string]policy.Presence{}}
	w.set = w.reviewer.Inventory.(fixed).set
	if random.IntN(2) == 0 {
		w.set.Objects[0].(*configv1.ImageDigestMirrorSet).Spec.ImageDigestMirrors[0].MirrorSourcePolicy = configv1.AllowContactingSource
	}
	for _, ref := range w.places() {
		w.facts[ref] = []policy.Presence{policy.Present, policy.Present, policy.Present, policy.Absent, policy.Absent, policy.Denied, policy.Unreachable, policy.Mismatch, policy.Inconclusive}[random.IntN(9)]
	}
	return w
}

// places returns all references that nodes may ask for, and a tag of each digest at the mirror.
func (w smallWorld) places() []string {
	var refs []string
	for n := range 3 {
		for _, host := range []string{"quay.io", "m.example.com:8443"} {
			repository := host + "/" + repositoryOf(n, 2)
			refs = append(refs, repository+"@"+digestOf(n), repository+":"+digestOf(n)[7:])
		}
	}
	return refs
}

// registries answer for the world, but not for hidden.
func (w smallWorld) registries(hidden string) review.Registries {
	return review.RegistriesFunc(func(ctx context.Context, locs []mirrors.Location) policy.Facts {
		facts := holdsAll(ctx, locs)
		for l, f := range facts {
			if f.Presence = w.facts[l.Ref]; l.Ref == hidden {
				f.Presence = policy.Unknown
			}
			if f.Presence != policy.Present {
				*f = policy.Fact{Presence: f.Presence, AsNodes: true}
			}
		}
		return facts
	})
}

const smallWorlds = 120

// TestLessKnownNeverAssumesMore: an answer that is missing, and a line that is, never admit a change.
func TestLessKnownNeverAssumesMore(t *testing.T) {
	admitted := 0
	for seed := range uint64(smallWorlds) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newSmallWorld(t, random)
		var lines []string
		for n := range 3 {
			if random.IntN(3) > 0 {
				lines = append(lines, fmt.Sprintf("quay.io/%[1]s@%[2]s=m.example.com:8443/%[1]s:%[3]s", repositoryOf(n, 2), digestOf(n), digestOf(n)[7:]))
			}
		}
		whole := w.admits(t, lines, "")
		if whole {
			admitted++
		}
		for _, hidden := range w.places() {
			if w.admits(t, lines, hidden) && !whole {
				t.Fatalf("seed %d: admitted without an answer for %s: %v %v", seed, hidden, lines, w.facts)
			}
		}
		for k := range lines {
			if w.admits(t, append(append([]string{}, lines[:k]...), lines[k+1:]...), "") && !whole {
				t.Fatalf("seed %d: admitted without the line %s: %v %v", seed, lines[k], lines, w.facts)
			}
		}
	}
	if admitted < smallWorlds/50 || admitted > smallWorlds/2 {
		t.Errorf("%d of %d worlds are admitted: they show too little", admitted, smallWorlds)
	}
}

// admits judges the creation of the world's mirror set, with a mapping.
func (w smallWorld) admits(t *testing.T, lines []string, hidden string) bool {
	t.Helper()
	r := *w.reviewer
	r.Inventory = fixed{w.reviewer.Inventory.(fixed).cluster, mirrors.Set{}}
	r.Registries = w.registries(hidden)
	if len(lines) > 0 {
		m, err := ReadMapping("mapping.txt", strings.NewReader(strings.Join(lines, "\n")+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		r.Registries = m.Of(r.Registries)
	}
	record, err := r.Review(t.Context(), mirrors.Put(w.set.Objects[0]), settings.Requester{})
	if err != nil {
		t.Fatal(err)
	}
	return record.Verdict.Allowed
}

// TestLessKnownNeverDeletesMore: an answer that is missing never admits a deletion.
func TestLessKnownNeverDeletesMore(t *testing.T) {
	admitted := 0
	for seed := range uint64(smallWorlds) {
		random := rand.New(rand.NewPCG(seed, 2))
		w := newSmallWorld(t, random)
		var references []string
		for _, ref := range w.places() {
			if strings.HasPrefix(ref, "m.") && random.IntN(4) == 0 {
				references = append(references, ref)
			}
		}
		if len(references) == 0 {
			continue
		}
		whole := w.allows(t, references, "")
		if whole {
			admitted++
		}
		for _, hidden := range w.places() {
			if w.allows(t, references, hidden) && !whole {
				t.Fatalf("seed %d: admitted without an answer for %s: %v %v", seed, hidden, references, w.facts)
			}
		}
	}
	if admitted < smallWorlds/50 || admitted > smallWorlds*3/4 {
		t.Errorf("%d of %d worlds are admitted: they show too little", admitted, smallWorlds)
	}
}

func (w smallWorld) allows(t *testing.T, references []string, hidden string) bool {
	t.Helper()
	list, err := DeleteReferences(references)
	if err != nil {
		t.Fatal(err)
	}
	r := *w.reviewer
	r.Registries = w.registries(hidden)
	d, err := Judge(t.Context(), &r, list, review.Coming{})
	if err != nil {
		t.Fatal(err)
	}
	return d.Allowed
}

func FuzzReadMapping(f *testing.F) {
	f.Add("docker://quay.io/a:1=docker://m.example.com:8443/a:1\n")
	f.Add("oci:///x=m.example.com/a@" + digestA + "\n# c\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ReadMapping("mapping.txt", strings.NewReader(text))
		if err != nil {
			return
		}
		for to, c := range m.to {
			if !strings.Contains(to, "/") || len(c.byTag)+len(c.byDigest)+len(c.tagged) == 0 {
				t.Errorf("%q copies nothing to %q", text, to)
			}
		}
	})
}

func FuzzReadDeleteList(f *testing.F) {
	f.Add("m.example.com/a:1\n")
	f.Add("kind: DeleteImageList\napiVersion: mirror.openshift.io/v2alpha1\nitems: [{imageReference: 'docker://m.example.com/a:1'}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ReadDeleteList("list", strings.NewReader(text))
		if (err == nil) != (list != nil) || list != nil && len(list.items) == 0 {
			t.Errorf("%q: %v, %v", text, list, err)
		}
	})
}
