package review

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// A stalePods is an inventory without mirrors that has lost sight of the pods.
type stalePods struct{ noRollout }

func (stalePods) Mirrors(context.Context) (mirrors.Set, error) { return mirrors.Set{}, nil }

func (stalePods) Cluster(context.Context) (plan.Cluster, error) {
	return plan.Cluster{Gaps: []policy.Gap{{Source: "pods", Kind: "Pod", Detail: "out of reach for 5m0s: connection refused"}}}, nil
}

// noRollout is the rest of an inventory that knows of no rollout, and has no notes.
type noRollout struct{}

func (noRollout) Rendered(context.Context, string) (*rollout.Rendered, error) {
	return nil, rollout.ErrGone
}

func (noRollout) Notes() []string { return nil }

// nobody answers no question.
var nobody = RegistriesFunc(func(context.Context, []mirrors.Location) policy.Facts { return nil })

// No image is known to be rerouted, and that is no reason to say yes.
func TestReviewOfAStaleInventory(t *testing.T) {
	r := Reviewer{Inventory: stalePods{}, Registries: nobody}
	set := tagMirrorSet("quay.io", "mirror.example.com")
	record, err := r.Review(t.Context(), mirrors.Put(set), settings.Requester{})
	if err != nil {
		t.Fatal(err)
	}
	if record.Verdict.Allowed || len(record.Verdict.Findings) != 1 || record.Verdict.Findings[0].Rule != policy.InventoryStale {
		t.Errorf("got %+v, want InventoryStale to deny", record.Verdict)
	}
	record, err = r.Review(t.Context(), mirrors.Edit{}, settings.Requester{})
	if err != nil || len(record.Verdict.Findings) != 0 {
		t.Errorf("of no change: got %+v, %v", record.Verdict, err)
	}
}

// A manyImages is an inventory of as many images, all of one registry.
type manyImages struct {
	noRollout
	n int
}

func (manyImages) Mirrors(context.Context) (mirrors.Set, error) { return mirrors.Set{}, nil }

func (m manyImages) Cluster(context.Context) (plan.Cluster, error) {
	images := make([]policy.Image, m.n)
	for i := range images {
		images[i].Ref = fmt.Sprintf("quay.io/shop/app-%d:v1", i)
		images[i].Consumers = []policy.Consumer{{Kind: "Pod", Namespace: "shop", Name: "app"}}
	}
	return plan.Cluster{Images: policy.NewImages(images...)}, nil
}

// Registries are asked for less of the time the more there is to decide afterwards.
func TestTimeToDecide(t *testing.T) {
	kept := func(images int) (kept time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		all, _ := ctx.Deadline()
		r := Reviewer{Inventory: manyImages{n: images}, Registries: RegistriesFunc(func(ctx context.Context, _ []mirrors.Location) policy.Facts {
			until, _ := ctx.Deadline()
			kept = all.Sub(until)
			return nil
		})}
		if _, err := r.Review(ctx, mirrors.Put(tagMirrorSet("quay.io", "mirror.example.com")), settings.Requester{}); err != nil {
			t.Fatal(err)
		}
		return kept
	}
	if few, many := min(kept(1), kept(1), kept(1)), kept(50_000); many < 5*few || few == 0 {
		t.Errorf("%s is kept for one image, %s for 50,000", few, many)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	end, _ := short.Deadline()
	looking, cancel := KeepBack(short, time.Hour)
	defer cancel()
	if until, _ := looking.Deadline(); end.Sub(until) > time.Minute/2 {
		t.Errorf("%s of a minute is kept", end.Sub(until))
	}
}

// A Record says on which configuration it rests and when that was read. An edit that cannot
// be judged has none.
func TestRecordOfAnEdit(t *testing.T) {
	start := time.Now()
	set := tagMirrorSet("quay.io", "mirror.example.com")
	record, err := (&Reviewer{Inventory: oneImage{}, Registries: nobody}).Review(t.Context(), mirrors.Put(set), settings.Requester{})
	if err != nil {
		t.Fatal(err)
	}
	if len(record.Change.Before.Objects) != 0 || len(record.Change.After.Objects) != 1 {
		t.Errorf("got the change %+v", record.Change)
	}
	if record.Read.Before(start) || time.Since(record.Read) > time.Since(start) {
		t.Errorf("read at %s, started at %s", record.Read, start)
	}
	if _, err := (&Reviewer{}).Review(t.Context(), mirrors.Put(nil), settings.Requester{}); err == nil {
		t.Error("an edit of no object was judged")
	}
}

func tagMirrorSet(source string, mirror configv1.ImageMirror) *configv1.ImageTagMirrorSet {
	return &configv1.ImageTagMirrorSet{Spec: configv1.ImageTagMirrorSetSpec{
		ImageTagMirrors: []configv1.ImageTagMirrors{{Source: source, Mirrors: []configv1.ImageMirror{mirror}}},
	}}
}

// TestRefusedIsInTheDocument: a registry list that only the signature policy knows of
// changes no place of a route, and all of its end.
func TestRefusedIsInTheDocument(t *testing.T) {
	set := mirrors.Set{Registries: configv1.RegistrySources{AllowedRegistries: []string{"registry.example.com"}}}
	table, err := mirrors.Resolve(set)
	if err != nil {
		t.Fatal(err)
	}
	route, err := table.Route("quay.io/shop/cart:v1", "")
	if err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.Route{
		Sources: []v1alpha1.Source{{Reference: "quay.io/shop/cart:v1", Refused: true}},
		Refused: route.Refused,
	}
	if diff := cmp.Diff(want, RouteDocument(route, nil)); diff != "" || route.Refused == "" {
		t.Errorf("refused: %q (-want +got):\n%s", route.Refused, diff)
	}
}

// A decorated inventory knows what it is made from knows: a review of a step of a change would be
// weaker without the gaps.
func TestAfterKeepsGaps(t *testing.T) {
	set := tagMirrorSet("quay.io", "mirror.example.com")
	inventory := After(stalePods{}, mirrors.Put(set))
	known, err := inventory.Cluster(t.Context())
	if err != nil || len(known.Gaps) != 1 {
		t.Errorf("%v; gaps %v", err, known.Gaps)
	}
	if now, err := inventory.Mirrors(t.Context()); err != nil || len(now.Objects) != 1 {
		t.Errorf("%v; objects %v", err, now.Objects)
	}
}

// TestLookUpParts: a part goes on while another waits, and what both have asked for is there once.
func TestLookUpParts(t *testing.T) {
	slow, quick, then := mirrors.Location{Ref: "m.local/slow:1"}, mirrors.Location{Ref: "m.local/quick:1"}, mirrors.Location{Ref: "m.local/then:1"}
	released := make(chan struct{})
	r := Reviewer{Registries: RegistriesFunc(func(ctx context.Context, locs []mirrors.Location) policy.Facts {
		facts := policy.Facts{}
		for _, l := range locs {
			switch l {
			case then:
				close(released)
			case slow:
				select {
				case <-released:
				case <-ctx.Done():
					return nil
				}
			}
			facts[l] = &policy.Fact{Presence: policy.Present}
		}
		return facts
	})}
	next := func(rounds ...[]mirrors.Location) NextLookups {
		return func(facts policy.Facts) []mirrors.Location {
			for _, round := range rounds {
				if _, known := facts[round[0]]; !known {
					return round
				}
			}
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	facts, asked := r.LookUpParts(ctx, []NextLookups{next([]mirrors.Location{slow}), next([]mirrors.Location{quick}, []mirrors.Location{then}), next([]mirrors.Location{quick})})
	if want := []mirrors.Location{slow, quick, then}; !slices.Equal(asked, want) || len(facts) != 3 || facts.At(slow).Presence != policy.Present {
		t.Errorf("asked %v, want %v; facts %v", asked, want, facts)
	}
}

// TestLookUpPartsPanics: a panic of a part is one of whoever asked, who may recover from it, after all parts have ended.
func TestLookUpPartsPanics(t *testing.T) {
	ended := false
	defer func() {
		if p := recover(); p == nil || !ended || !strings.Contains(fmt.Sprint(p), "a fault") {
			t.Errorf("got %v, with the other part ended: %v", p, ended)
		}
	}()
	one := []mirrors.Location{{Ref: "m.local/one:1"}}
	r := Reviewer{Registries: RegistriesFunc(func(context.Context, []mirrors.Location) policy.Facts { return policy.Facts{} })}
	r.LookUpParts(t.Context(), []NextLookups{
		func(policy.Facts) []mirrors.Location { panic("a fault") },
		func(facts policy.Facts) []mirrors.Location {
			if _, known := facts[one[0]]; !known {
				return one
			}
			ended = true
			return nil
		},
	})
}
