package review

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// A forgetful is Registries that hold nothing and remember so. What is asked for anew is
// there by now if it is among those copied.
type forgetful struct {
	copied map[string]bool
	late   bool      // nothing is answered in time
	found  string    // the reference that is remembered to be there, if there is one
	missed time.Time // when the misses were learned; zero: long ago
	asked  []string
}

func (r *forgetful) Presence(_ context.Context, locs []mirrors.Location, fresh policy.Freshness) policy.Facts {
	miss := policy.Fact{Presence: policy.Absent, AsNodes: true}
	switch {
	case fresh.Recalled:
		miss.Recalled, miss.Detail = true, "not there; that was 40s ago"
		return r.remembered(locs, miss)
	case r.missed.After(fresh.Since) && !fresh.Since.IsZero():
		return r.remembered(locs, miss)
	}
	facts := policy.Facts{}
	for _, l := range locs {
		r.asked = append(r.asked, l.Ref)
		switch {
		case r.late:
		case r.copied[l.Ref]:
			facts[l] = &policy.Fact{Presence: policy.Present}
		default:
			facts[l] = &policy.Fact{Presence: policy.Absent, AsNodes: true}
		}
	}
	return facts
}

func (*forgetful) Notes() []string { return nil }

// remembered returns miss for each location, but for the one that was found.
func (r *forgetful) remembered(locs []mirrors.Location, miss policy.Fact) policy.Facts {
	facts := policy.Facts{}
	for _, l := range locs {
		facts[l] = &miss
		if l.Ref == r.found {
			facts[l] = &policy.Fact{Presence: policy.Present}
		}
	}
	return facts
}

// A user is an inventory of one image.
type user struct {
	oneImage
	ref string
}

func (u user) Cluster(context.Context) (plan.Cluster, error) {
	return plan.Cluster{Images: policy.NewImages(policy.Image{Ref: u.ref, Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: "cart"}}})}, nil
}

// TestReviewAsksAgainWhereItDecides: misses of a minute ago are enough to see what there
// is to ask, and none of them denies, or weakens a denial, without having been asked for
// again if there is time.
func TestReviewAsksAgainWhereItDecides(t *testing.T) {
	mirror, source := "mirror.example.com/cart:1", "quay.io/cart:1"
	for _, tc := range []struct {
		reason  string
		policy  configv1.MirrorSourcePolicy
		copied  []string
		late    bool
		allowed bool
		asked   []string
	}{
		{"long gone: nothing hangs on it", "AllowContactingSource", nil, false, true, nil},
		{"only a mirror is left, and has it by now", "NeverContactSource", []string{mirror}, false, true, []string{mirror, source}},
		{"only a mirror is left, which still has nothing, as the source has", "NeverContactSource", nil, false, true, []string{mirror, source}},
		{"only a mirror is left, and the source has it by now", "NeverContactSource", []string{source}, false, false, []string{mirror, source}},
		{"no time to ask again", "NeverContactSource", nil, true, false, []string{mirror, source}},
	} {
		for _, limiter := range []*Limiter{nil, NewLimiter(1)} {
			t.Run(fmt.Sprint(tc.reason, " ", limiter != nil), func(t *testing.T) {
				registries := &forgetful{copied: map[string]bool{}, late: tc.late}
				for _, ref := range tc.copied {
					registries.copied[ref] = true
				}
				r := Reviewer{Inventory: user{ref: source}, Registries: registries, Limiter: limiter}
				set := tagMirrorSet("quay.io", "mirror.example.com")
				set.Spec.ImageTagMirrors[0].MirrorSourcePolicy = tc.policy
				record, err := r.Review(t.Context(), mirrors.Put(set), settings.Requester{})
				if err != nil {
					t.Fatal(err)
				}
				if record.Verdict.Allowed != tc.allowed {
					t.Errorf("allowed: %v, want %v: %s", record.Verdict.Allowed, tc.allowed, record.Refusal)
				}
				if diff := cmp.Diff(tc.asked, registries.asked); diff != "" {
					t.Errorf("asked for: %s", diff)
				}
			})
		}
	}
}

// TestMissesOfAWhileAgoAdmitNothing: whoever lets misses of a while ago deny without asking again
// (Reviewer.MissesFor, for dry runs) admits no change that is denied without them, wherever the image has
// been copied since.
func TestMissesOfAWhileAgoAdmitNothing(t *testing.T) {
	mirror, source := "mirror.example.com/cart:1", "quay.io/cart:1"
	saved := false
	for world := range 16 {
		copied := map[string]bool{mirror: world&1 != 0, source: world&2 != 0}
		found, sourcePolicy := "", configv1.AllowContactingSource
		if world&4 != 0 {
			found, copied[source] = source, true
		}
		if world&8 != 0 {
			sourcePolicy = configv1.NeverContactSource
		}
		review := func(missesFor time.Duration) (bool, []string) {
			registries := &forgetful{copied: copied, found: found, missed: time.Now().Add(-time.Second)}
			set := tagMirrorSet("quay.io", "mirror.example.com")
			set.Spec.ImageTagMirrors[0].MirrorSourcePolicy = sourcePolicy
			r := Reviewer{Inventory: user{ref: source}, Registries: registries, MissesFor: missesFor}
			record, err := r.Review(t.Context(), mirrors.Put(set), settings.Requester{})
			if err != nil {
				t.Fatal(err)
			}
			return record.Verdict.Allowed, registries.asked
		}
		change, asked := review(0)
		dryRun, askedAgain := review(time.Minute)
		if dryRun && !change {
			t.Errorf("%s, copied %v, found %q: a dry run is admitted, and the change is denied", sourcePolicy, copied, found)
		}
		saved = saved || !dryRun && len(askedAgain) < len(asked)
	}
	if !saved {
		t.Error("a recent miss never denied without being asked again: this test shows nothing")
	}
}
