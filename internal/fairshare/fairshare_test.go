package fairshare

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// An order is that in which claims are granted.
type order struct {
	mu    sync.Mutex
	names []string
}

func (o *order) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.names, ", ")
}

// ask claims in the background, and gives back at once what it gets.
func ask(t *testing.T, q *Queue, o *order, by Claimant, amount int64, name string) {
	go func() {
		if q.Acquire(WithClaimant(t.Context(), by), 0, amount) == nil {
			o.mu.Lock()
			o.names = append(o.names, name)
			o.mu.Unlock()
			q.Release(amount)
		}
	}()
	synctest.Wait()
}

// TestOrder: by rank, then in turn, then as they came.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1)
		if err := q.Acquire(t.Context(), 0, 1); err != nil || q.Contended(t.Context()) {
			t.Fatalf("%v, contended %t", err, q.Contended(t.Context()))
		}
		var granted order
		for i := range 3 {
			ask(t, q, &granted, Claimant{Name: "greedy", Rank: 1}, 1, fmt.Sprint("greedy", i))
		}
		ask(t, q, &granted, Claimant{Name: "modest", Rank: 1}, 1, "modest")
		ask(t, q, &granted, Claimant{Name: "late"}, 1, "first in rank")
		if !q.Contended(t.Context()) {
			t.Error("nobody waits")
		}
		q.Release(1)
		synctest.Wait()
		if got, want := granted.String(), "first in rank, greedy0, modest, greedy1, greedy2"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if q.Contended(t.Context()) || q.free != 1 {
			t.Errorf("%d is free, contended %t", q.free, q.Contended(t.Context()))
		}
	})
}

// TestAmounts: as many at once as fit; a large claim is not overtaken for ever by small ones.
func TestAmounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(8)
		var granted order
		for range 2 {
			if err := q.Acquire(WithClaimant(t.Context(), Claimant{Name: "a"}), 0, 3); err != nil {
				t.Fatal(err)
			}
		}
		ask(t, q, &granted, Claimant{Name: "b"}, 5, "large")
		ask(t, q, &granted, Claimant{Name: "c"}, 1, "small")
		if got := granted.String(); got != "" {
			t.Errorf("%q did not wait", got)
		}
		q.Release(3)
		synctest.Wait()
		if got := granted.String(); got != "large, small" {
			t.Errorf("got %q", got)
		}
	})
}

// TestLeave: who gives up is in nobody's way, and takes nothing along.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(2)
		if err := q.Acquire(WithClaimant(t.Context(), Claimant{Name: "a"}), 0, 1); err != nil {
			t.Fatal(err)
		}
		var granted order
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		left := make(chan error)
		go func() { left <- q.Acquire(WithClaimant(ctx, Claimant{Name: "b"}), 0, 2) }()
		synctest.Wait()
		ask(t, q, &granted, Claimant{Name: "c"}, 1, "c")
		if granted.String() != "" {
			t.Error("c went first")
		}
		if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if granted.String() != "c" {
			t.Error("who has gone is still in the way")
		}
		q.Release(1)
		if q.free != 2 || q.Contended(t.Context()) {
			t.Errorf("%d is free, contended %t", q.free, q.Contended(t.Context()))
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := q.Acquire(WithClaimant(ended, Claimant{Name: "d"}), 0, 1); err != nil {
			t.Errorf("what is free is granted, also to who has no time left: %v", err)
		}
	})
}

// TestBounded: as many wait as may, of one and in all; the others are told at once.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewBounded(1, 2, 3)
		if err := q.Acquire(t.Context(), 0, 1); err != nil {
			t.Fatal(err)
		}
		var granted order
		for i := range 3 {
			ask(t, q, &granted, Claimant{Name: "greedy"}, 1, fmt.Sprint("greedy", i))
		}
		ask(t, q, &granted, Claimant{Name: "modest"}, 1, "modest")
		if err := q.Acquire(WithClaimant(t.Context(), Claimant{Name: "late"}), 0, 1); !errors.Is(err, ErrCrowded) {
			t.Errorf("got %v", err)
		}
		q.Release(1)
		synctest.Wait()
		if got, want := granted.String(), "greedy0, modest, greedy1"; got != want || q.Contended(t.Context()) {
			t.Errorf("got %s, want %s, contended %t", got, want, q.Contended(t.Context()))
		}
		for range 9 { // who is granted does not wait
			if err := q.Acquire(t.Context(), 0, 1); err != nil {
				t.Fatal(err)
			}
			q.Release(1)
		}
	})
}

// TestManyAtOnce: what is granted and not given back is never more than there is.
func TestManyAtOnce(t *testing.T) {
	q := New(10)
	done := make(chan struct{})
	for i := range 200 {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%5)*time.Millisecond)
			defer cancel()
			amount := int64(i%4 + 1)
			if q.Acquire(WithClaimant(ctx, Claimant{fmt.Sprint(i % 7), i % 3}), i%2, amount) == nil {
				q.mu.Lock()
				if q.free < 0 {
					t.Errorf("%d is free", q.free)
				}
				q.mu.Unlock()
				q.Release(amount)
			}
			done <- struct{}{}
		}()
	}
	for range 200 {
		<-done
	}
	if q.free != 10 || q.Contended(t.Context()) {
		t.Errorf("%d is free, contended %t", q.free, q.Contended(t.Context()))
	}
}
