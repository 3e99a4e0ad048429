package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// A world is a small one: one image, its source, three mirrors, and what each says.
type world struct {
	change policy.Change
	image  policy.Image
	facts  policy.Facts
}

func randomWorld(rng *rand.Rand) world {
	w := world{change: policy.Change{Before: randomSet(rng), After: randomSet(rng)}, facts: policy.Facts{}}
	w.image = policy.Image{Ref: []string{tag, dig}[rng.IntN(2)], Consumers: consumers()}
	if rng.IntN(2) == 0 {
		w.image.Consumers = consumers(isRouter)
	}
	said := map[string]policy.Presence{}
	for _, h := range []string{"a.local", "b.local", "c.local", "quay.io"} {
		said[h] = []policy.Presence{policy.Present, policy.Present, policy.Absent, policy.Absent, policy.Denied, policy.Unreachable, policy.Unreachable, policy.Mismatch}[rng.IntN(8)]
	}
	for _, l := range shallow(w.change, []policy.Image{w.image}, settings.Settings{}).Locations() {
		w.facts[l] = &policy.Fact{Presence: said[l.Host()], AsNodes: true}
	}
	return w
}

func randomSet(rng *rand.Rand) mirrors.Set {
	var objects []mirrors.Object
	for k := range rng.IntN(3) {
		to := convert.Each(rng.Perm(3)[:1+rng.IntN(3)], func(m int) configv1.ImageMirror { return []configv1.ImageMirror{"a.local", "b.local", "c.local"}[m] })
		source := []string{"quay.io", "quay.io/x"}[rng.IntN(2)]
		if source == "quay.io/x" {
			for i := range to {
				to[i] += "/x"
			}
		}
		kind := []func(string, string, configv1.MirrorSourcePolicy, ...configv1.ImageMirror) mirrors.Object{itms, idms}[rng.IntN(2)]
		objects = append(objects, kind(fmt.Sprint("s", k), source, []configv1.MirrorSourcePolicy{allow, never}[rng.IntN(2)], to...))
	}
	return set(objects...)
}

// completions calls each with all that the registries may turn out to say to nodes: those that
// could not be asked, or sent a page, may serve the image, not have it, or serve something else,
// and those that deny the guard may let nodes in.
func (w world) completions(each func(map[string]policy.Presence)) {
	said := map[string]policy.Presence{}
	var open []string
	for l, f := range w.facts {
		said[l.Ref] = f.Presence
		if f.Presence != policy.Present && f.Presence != policy.Absent {
			open = append(open, l.Ref)
		}
	}
	var complete func(k int)
	complete = func(k int) {
		if k == len(open) {
			each(said)
			return
		}
		may := []policy.Presence{policy.Present, policy.Absent, policy.Mismatch}
		if w.facts.At(mirrors.Location{Ref: open[k]}).Presence == policy.Denied {
			may = may[:2]
		}
		for _, p := range may {
			said[open[k]] = p
			complete(k + 1)
		}
	}
	slices.Sort(open)
	complete(0)
}

// pulls reports whether a node gets the image: it asks one place after the other, and
// stops at the first that answers.
func pulls(r mirrors.Route, said map[string]policy.Presence, onlyMirrors bool) bool {
	for _, s := range r.Sources {
		if s.Blocked || onlyMirrors && !s.Mirror {
			continue
		}
		switch said[s.Ref] {
		case policy.Present:
			return true
		case policy.Mismatch:
			return false
		}
	}
	return false
}

func (w world) String() string {
	var b strings.Builder
	for _, s := range []mirrors.Set{w.change.Before, w.change.After} {
		b.WriteString("set:")
		for _, e := range s.Entries() {
			fmt.Fprintf(&b, " %s %s->%v %s;", mirrors.KindOf(e.Object), e.Source, e.Mirrors, e.Policy)
		}
		b.WriteString("\n")
	}
	for l, f := range w.facts {
		fmt.Fprintf(&b, "%s %s\n", l.Ref, f.Presence)
	}
	fmt.Fprintf(&b, "%s %s", w.image.Ref, w.image.Consumers[0].Namespace)
	return b.String()
}

// TestVerdictsInSmallWorlds holds verdicts to what nodes do in all worlds that agree with
// the facts. Where the image can be pulled before and not after in one of them, the change
// is denied; a place in front that could not be asked is a warning, but for protected images. Else it is admitted, unless it gives a source its first mirrors.
func TestVerdictsInSmallWorlds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	judged := 0
	for range 10_000 {
		w := randomWorld(rng)
		plan := shallow(w.change, []policy.Image{w.image}, settings.Settings{})
		if plan.Rejected != nil || plan.RejectedBefore != nil || len(plan.Reroutes) == 0 {
			continue
		}
		judged++
		i, v := plan.Reroutes[0], Decide(plan, w.facts)
		worse, lessMirrored := false, false
		w.completions(func(said map[string]policy.Presence) {
			worse = worse || pulls(i.Before, said, false) && !pulls(i.After, said, false)
			lessMirrored = lessMirrored || pulls(i.Before, said, true) && !pulls(i.After, said, true)
		})
		firstMirrors := len(i.Before.Mirrors()) == 0 && len(i.After.Mirrors()) > 0
		mayWarn := i.WeighAfter(w.facts).Pull(false) == evidence.WorksBehind && !(settings.Settings{}).IsProtected(w.image)
		switch {
		case v.Allowed && worse && !mayWarn:
			t.Fatalf("admitted, and a node may lose the image: %s\n%s", summary(v), w)
		case !v.Allowed && !worse && !lessMirrored && !firstMirrors:
			t.Fatalf("denied, and no node can lose the image: %s\n%s", summary(v), w)
		}
	}
	if judged < 5000 {
		t.Errorf("only %d changes reroute anything", judged)
	}
}
