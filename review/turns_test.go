package review

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// What is begun comes first, and otherwise who came first. Who cannot wait leaves, and
// takes no turn along.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewLimiter(1)
		if err := turns.take(t.Context(), atFirst); err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 4)
		queue := func(ctx context.Context, name string, when int) {
			go func() {
				if err := turns.take(ctx, when); err != nil {
					name += ": " + err.Error()
				} else {
					defer turns.give()
				}
				order <- name
			}()
			synctest.Wait()
		}
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		queue(t.Context(), "first", atFirst)
		queue(hasty, "hasty", atFirst)
		queue(t.Context(), "second", atFirst)
		queue(t.Context(), "begun", again)
		time.Sleep(2 * time.Second)
		turns.give()
		synctest.Wait()
		close(order)
		got, want := collected(order), []string{"hasty: context deadline exceeded", "begun", "first", "second"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if turns.free != 1 {
			t.Errorf("%d turns are free afterwards, want the one there is", turns.free)
		}
	})
}

// Turns that come and are not wanted any more at the same moment are not lost.
func TestTurnsAreNotLost(t *testing.T) {
	turns := NewLimiter(2)
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%10)*100*time.Microsecond)
			defer cancel()
			if turns.take(ctx, i%2) == nil {
				turns.give()
			}
		})
	}
	all.Wait()
	if turns.free != 2 || len(turns.queue[again])+len(turns.queue[atFirst]) != 0 {
		t.Errorf("%d turns are free, queues %v", turns.free, turns.queue)
	}
}

// oneImage is an inventory.
type oneImage struct{}

func (oneImage) Mirrors(context.Context) (mirrors.Set, error) { return mirrors.Set{}, nil }

func (oneImage) Images(context.Context) ([]policy.Image, error) {
	return []policy.Image{{Ref: "quay.io/shop/cart:v1", Consumers: []policy.Consumer{{Kind: "Pod", Namespace: "shop", Name: "cart"}}}}, nil
}

// A review that waits for a registry lets others be decided. One that has no turn by its
// deadline has no verdict, and a panic of whoever is asked costs no turn.
func TestReviewsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edit := mirrors.Put(tagMirrorSet("quay.io/shop", "mirror.example.com/shop"))
		turns := NewLimiter(1)
		silent := &Reviewer{Inventory: oneImage{}, Limiter: turns, Registries: RegistriesFunc(func(ctx context.Context, _ []mirrors.Location) policy.Facts {
			<-ctx.Done()
			return nil
		})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := make(chan Record)
		go func() {
			record, err := silent.Review(ctx, "one", edit)
			if err != nil {
				t.Error(err)
			}
			done <- record
		}()
		synctest.Wait()

		quick := &Reviewer{Inventory: oneImage{}, Limiter: turns, Registries: RegistriesFunc(holdAll)}
		record, err := quick.Review(t.Context(), "other", edit)
		if err != nil || !record.Verdict.Allowed || record.Took != 0 {
			t.Errorf("beside one that waits: %+v, %v, want it admitted at once", record, err)
		}
		if record := <-done; record.Verdict.Allowed || record.Took != time.Minute {
			t.Errorf("got %+v, want a refusal after a minute", record)
		}

		panics := &Reviewer{Inventory: oneImage{}, Limiter: turns, Registries: RegistriesFunc(func(context.Context, []mirrors.Location) policy.Facts {
			panic("a fault")
		})}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_, _ = panics.Review(t.Context(), "third", edit)
		}()
		if turns.free != 1 {
			t.Errorf("%d turns are free after a panic, want 1", turns.free)
		}

		if err := turns.take(t.Context(), atFirst); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := quick.Review(short, "fourth", edit); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a turn: %v, want the deadline", err)
		}
	})
}

func holdAll(_ context.Context, locs []mirrors.Location) policy.Facts {
	facts := policy.Facts{}
	for _, l := range locs {
		facts[l] = policy.Fact{Presence: policy.Present}
	}
	return facts
}

func collected(c <-chan string) (all []string) {
	for s := range c {
		all = append(all, s)
	}
	return all
}
