package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// Reviews that have started go first, and otherwise those that came first. One that cannot
// wait leaves, and takes no slot along.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(1).small
		if err := limiter.acquire(t.Context(), starting); err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 4)
		queue := func(ctx context.Context, name string, priority int) {
			go func() {
				if err := limiter.acquire(ctx, priority); err != nil {
					name += ": " + err.Error()
				} else {
					defer limiter.release()
				}
				order <- name
			}()
			synctest.Wait()
		}
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		queue(t.Context(), "first", starting)
		queue(hasty, "hasty", starting)
		queue(t.Context(), "second", starting)
		queue(t.Context(), "begun", resuming)
		time.Sleep(2 * time.Second)
		limiter.release()
		synctest.Wait()
		close(order)
		got, want := collected(order), []string{"hasty: context deadline exceeded", "begun", "first", "second"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := free(limiter); n != 1 {
			t.Errorf("%d slots are free afterwards, want the one there is", n)
		}
	})
}

// A review begins in the first half of its time, and goes on whenever it can.
func TestLimiterBeginsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(1).small
		if err := limiter.acquire(t.Context(), starting); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ rank, seconds int }{{starting, 5}, {resuming, 10}} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			start := time.Now()
			err := limiter.acquire(ctx, c.rank)
			if took := time.Since(start); err == nil || took != time.Duration(c.seconds)*time.Second {
				t.Errorf("rank %d gave up after %s: %v; want %d s", c.rank, took, err, c.seconds)
			}
			cancel()
		}
	})
}

// A slot that comes at the moment when it is not wanted any more is not lost.
func TestLimiterLosesNoSlot(t *testing.T) {
	limiter := NewLimiter(2).small
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%10)*100*time.Microsecond)
			defer cancel()
			if limiter.acquire(ctx, i%2) == nil {
				limiter.release()
			}
		})
	}
	all.Wait()
	if n := free(limiter); n != 2 || limiter.contended(t.Context()) {
		t.Errorf("%d slots are free, somebody waits: %t", n, limiter.contended(t.Context()))
	}
}

// free returns how many slots nobody has.
func free(l slots) (n int) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for l.acquire(ended, starting) == nil {
		n++
	}
	for range n {
		l.release()
	}
	return n
}

// oneImage is an inventory.
type oneImage struct{ noRollout }

func (oneImage) Mirrors(context.Context) (mirrors.Set, error) { return mirrors.Set{}, nil }

func (oneImage) Cluster(context.Context) (plan.Cluster, error) {
	return plan.Cluster{Images: policy.NewImages(policy.Image{Ref: "quay.io/shop/cart:v1", Consumers: []policy.Consumer{{Kind: "Pod", Namespace: "shop", Name: "cart"}}})}, nil
}

// A review that waits for a registry lets others be decided. One that has no slot by its
// deadline has no verdict, and a panic in Registries costs no slot.
func TestReviewsYieldSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edit := mirrors.Put(tagMirrorSet("quay.io/shop", "mirror.example.com/shop"))
		limiter := NewLimiter(1)
		silent := &Reviewer{Inventory: oneImage{}, Limiter: limiter, Registries: RegistriesFunc(func(ctx context.Context, _ []mirrors.Location) policy.Facts {
			<-ctx.Done()
			return nil
		})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := make(chan Record)
		go func() {
			record, err := silent.Review(ctx, edit, settings.Requester{})
			if err != nil {
				t.Error(err)
			}
			done <- record
		}()
		synctest.Wait()

		quick := &Reviewer{Inventory: oneImage{}, Limiter: limiter, Registries: RegistriesFunc(holdAll)}
		record, err := quick.Review(t.Context(), edit, settings.Requester{})
		if err != nil || !record.Verdict.Allowed || record.Took != 0 {
			t.Errorf("beside one that waits: %+v, %v, want it admitted at once", record, err)
		}
		if record := <-done; record.Verdict.Allowed || record.Took != time.Minute {
			t.Errorf("got %+v, want a refusal after a minute", record)
		}

		panics := &Reviewer{Inventory: oneImage{}, Limiter: limiter, Registries: RegistriesFunc(func(context.Context, []mirrors.Location) policy.Facts {
			panic("a fault")
		})}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_, _ = panics.Review(t.Context(), edit, settings.Requester{})
		}()
		if n := free(limiter.small); n != 1 {
			t.Errorf("%d slots are free after a panic, want 1", n)
		}

		if err := limiter.small.acquire(t.Context(), starting); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := quick.Review(short, edit, settings.Requester{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a slot: %v, want the deadline", err)
		}
	})
}

func holdAll(_ context.Context, locs []mirrors.Location) policy.Facts {
	facts := policy.Facts{}
	for _, l := range locs {
		facts[l] = &policy.Fact{Presence: policy.Present}
	}
	return facts
}

func collected(c <-chan string) (all []string) {
	for s := range c {
		all = append(all, s)
	}
	return all
}

func TestLimiterContended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none, l := slots{}, NewLimiter(1).small
		if err := l.acquire(t.Context(), starting); err != nil {
			t.Fatal(err)
		}
		for _, rank := range []int{starting, resuming, starting} {
			if l.contended(t.Context()) || none.contended(t.Context()) {
				t.Error("nobody waits")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			left := make(chan error)
			go func() { left <- l.acquire(ctx, rank) }()
			synctest.Wait()
			if better := fairshare.WithClaimant(t.Context(), fairshare.Claimant{Rank: -1}); !l.contended(t.Context()) || l.contended(better) {
				t.Error("somebody waits, who comes after others")
			}
			first := l.simulating(t.Context())
			if time.Sleep(contendedSimulation + 1); !first() || l.simulating(t.Context())() {
				t.Error("each simulation has its own time")
			}
			if <-left == nil {
				t.Error("there are two slots")
			}
			cancel()
		}
	})
}

// TestLimiterIsFair: one review of each sender after the other, and those of higher rank first.
func TestLimiterIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(1).small
		if err := limiter.acquire(t.Context(), starting); err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 7)
		for _, c := range []fairshare.Claimant{{Name: "stranger", Rank: 1}, {Name: "stranger", Rank: 1}, {Name: "other", Rank: 1}, {Name: "API server"}} {
			for _, rank := range []int{starting, resuming} {
				go func() {
					if limiter.acquire(fairshare.WithClaimant(t.Context(), c), rank) == nil {
						order <- c.Name
						limiter.release()
					}
				}()
				synctest.Wait()
				if c.Rank == 0 {
					break
				}
			}
		}
		limiter.release()
		synctest.Wait()
		if first, second, third := <-order, <-order, <-order; first != "API server" || second != "stranger" || third != "other" {
			t.Errorf("first %s, then %s, then %s", first, second, third)
		}
	})
}

// TestLargeEditsKeepNoOthersWaiting: which take seconds, and of which anybody may send many.
func TestLargeEditsKeepNoOthersWaiting(t *testing.T) {
	large := tagMirrorSet("quay.io/shop", "mirror.example.com/shop")
	for i := range largeEdit {
		large.Spec.ImageTagMirrors = append(large.Spec.ImageTagMirrors, configv1.ImageTagMirrors{Source: fmt.Sprint("x", i, ".io")})
	}
	l := NewLimiter(4)
	small := tagMirrorSet("quay.io/shop", "mirror.example.com/shop")
	if l.slotsFor(mirrors.Put(large)) != l.large || l.slotsFor(mirrors.Put(small)) != l.small || l.slotsFor(mirrors.Delete(large)) != l.small {
		t.Error("edits have the slots of another size")
	}
	if n, m := free(l.small), free(l.large); n != 4 || m != 2 {
		t.Errorf("%d and %d slots", n, m)
	}
}

// manyOf is an inventory of many images.
type manyOf struct {
	oneImage
	images policy.Images
}

func (m manyOf) Cluster(context.Context) (plan.Cluster, error) {
	return plan.Cluster{Images: m.images}, nil
}

// TestWideReviews: of reviews of very many images one goes at a time, and of many as many as have together what one
// of very many has, also while registries are asked; they keep no small one waiting. They begin in the first half of
// their time, or not at all.
func TestWideReviews(t *testing.T) {
	for _, tt := range []struct{ images, atOnce int }{{wideReview + 1, 1}, {wideReview * 2 / 5, 2}, {fewImages, 4}} {
		t.Run(fmt.Sprint(tt.images), func(t *testing.T) {
			var images []policy.Image
			for i := range tt.images {
				images = append(images, policy.Image{Ref: fmt.Sprintf("quay.io/shop/app-%d:v1", i), Consumers: []policy.Consumer{{Kind: "Pod", Namespace: "shop", Name: "cart"}}})
			}
			known := manyOf{images: policy.NewImages(append(images, policy.Image{Ref: "other.io/cart:v1", Consumers: images[0].Consumers})...)}
			synctest.Test(t, func(t *testing.T) { reviewMany(t, known, tt.images, tt.atOnce) })
		})
	}
}

// reviewMany makes reviews of many images that know of them, of which so many are to go at once.
func reviewMany(t *testing.T, known manyOf, many, atOnce int) {
	var mu sync.Mutex
	under, most := 0, 0
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		under += n
		most = max(most, under)
	}
	r := Reviewer{Inventory: known, Limiter: NewLimiter(4), Registries: RegistriesFunc(func(_ context.Context, locs []mirrors.Location) policy.Facts {
		if len(locs) >= many {
			count(1)
			time.Sleep(3 * time.Second)
			count(-1)
		}
		return nil
	})}
	review := func(source string) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		_, err := r.Review(ctx, mirrors.Put(tagMirrorSet(source, "mirror.example.com")), settings.Requester{})
		return time.Since(start), err
	}
	var failed atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := review("quay.io"); err != nil {
				failed.Add(1)
			}
		})
	}
	synctest.Wait()
	if took, err := review("other.io"); err != nil || took > time.Second && atOnce < 4 {
		t.Errorf("a small one: %v after %s", err, took)
	}
	all.Wait()
	if n := int(failed.Load()); most != atOnce || n != 4-atOnce {
		t.Errorf("%d at a time, want %d; %d of 4 failed", most, atOnce, n)
	}
	if n := []int{free(r.Limiter.wide), free(r.Limiter.some), free(r.Limiter.small)}; !slices.Equal(n, []int{1, wideReview, 4}) {
		t.Errorf("%d slots are free afterwards", n)
	}
}
