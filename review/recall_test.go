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
)

// A forgetful is Registries that hold nothing and remember so. What is asked for anew is
// there by now if it is among those copied.
type forgetful struct {
	copied map[string]bool
	late   bool // nothing is answered in time
	asked  []string
}

func (r *forgetful) Presence(_ context.Context, locs []mirrors.Location) policy.Facts {
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

func (r *forgetful) Renew(ctx context.Context, locs []mirrors.Location, _ time.Time) policy.Facts {
	return r.Presence(ctx, locs)
}

func (r *forgetful) Recall(_ context.Context, locs []mirrors.Location) policy.Facts {
	facts := policy.Facts{}
	for _, l := range locs {
		facts[l] = &policy.Fact{Presence: policy.Absent, AsNodes: true, Recalled: true, Detail: "not there; that was 40s ago"}
	}
	return facts
}

// A user is an inventory of one image.
type user struct {
	oneImage
	ref string
}

func (u user) Cluster(context.Context) (policy.Cluster, error) {
	return policy.Cluster{Images: policy.NewImages(policy.Image{Ref: u.ref, Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: "cart"}}})}, nil
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
				record, err := r.Review(t.Context(), mirrors.Put(set), policy.Requester{})
				if err != nil {
					t.Fatal(err)
				}
				if record.Verdict.Allowed != tc.allowed {
					t.Errorf("allowed: %v, want %v: %s", record.Verdict.Allowed, tc.allowed, record.Denial())
				}
				if diff := cmp.Diff(tc.asked, registries.asked); diff != "" {
					t.Errorf("asked for: %s", diff)
				}
			})
		}
	}
}
