package recent

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestSeals: an entry counts if it is as a replica wrote it, be it that the secret has changed since, or has
// not arrived yet.
func TestSeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := []byte("one")
		changing, late, quiet := NewSeals(func() []byte { return secret }), NewSeals(func() []byte { return []byte("one") }), NewSeals(func() []byte { return secret })
		entry := []byte(`{"v":1,"id":"x","by":"a","edit":[]}`)
		first := changing.seal(entry)
		for what, raw := range map[string][]byte{
			"no seal": entry, "an empty one": []byte(`{"v":1,"id":"x","by":"a","edit":[],"seal":""}`), "another's": NewSeals(func() []byte { return []byte("two") }).seal(entry),
			"another id": bytes.Replace(first, []byte(`"x"`), []byte(`"y"`), 1), "a field behind it": bytes.Replace(first, []byte(`"}`), []byte(`","claim":1}`), 1),
		} {
			if changing.isSealed(raw) || !isStrange(decodeEntry(raw, changing)) {
				t.Errorf("%s counts: %s", what, raw)
			}
		}
		if en := decodeEntry(first, changing); en.unreadable != "" || en.id != "x" {
			t.Errorf("%+v", en)
		}
		secret = []byte("two")
		started := NewSeals(func() []byte { return secret })
		if !changing.isSealed(first) || !late.isSealed(changing.seal(entry)) || !late.isSealed(quiet.seal(entry)) || !started.isSealed(changing.seal(entry)) {
			t.Error("a new secret makes strangers of replicas that do not have it yet, or of those that have it alone")
		}
		time.Sleep(secretArrives)
		if late.isSealed(changing.seal(entry)) {
			t.Error("the old secret is used for ever")
		}
		secret = []byte("one")
		for range 2 {
			if !late.isSealed(changing.seal(entry)) {
				t.Error("the secret of before is back, and replicas that have it alone do not know the others")
			}
			time.Sleep(secretArrives)
		}
	})
}

// TestForgedEntries: valid entries by somebody who may write the list delay changes once an hour, however many
// there are and whoever they say wrote them; this is said. Those of replicas count meanwhile.
func TestForgedEntries(t *testing.T) {
	for _, at := range []struct {
		once  int
		every time.Duration
	}{{1, time.Second}, {60, 200 * time.Millisecond}} {
		inBubble(t, func(t *testing.T) {
			s := newShared()
			s.seals = NewSeals(func() []byte { return []byte("secret") })
			nothing := func(context.Context, []mirrors.Edit) (mirrors.Set, error) { return mirrors.Set{}, nil }
			o := Options{Stored: nothing, OtherWebhooks: func(context.Context) (time.Duration, error) { return 5 * time.Second, nil }}
			a, b := s.replica(t, "a", o), s.replica(t, "b", o)
			ctx, cancel := context.WithCancel(t.Context())
			var forging sync.WaitGroup
			defer forging.Wait()
			defer cancel()
			forging.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					var entries []entry
					for i := range at.once {
						entries = append(entries, entry{id: fmt.Sprint("forged-", n, "-", i), edit: put("one")})
					}
					list, err := encode(entries, "b", nil)
					if err != nil {
						t.Error(err)
					}
					s.put(list)
					time.Sleep(at.every)
				}
			})
			start := time.Now()
			if _, err := a.AwaitView(t.Context()); err != nil || time.Since(start) > MaxStoringTime+2*time.Second {
				t.Errorf("the first change waits for %s: %v", time.Since(start), err)
			}
			for n := range 5 {
				time.Sleep(20 * time.Second)
				start := time.Now()
				add(t, b, put(fmt.Sprint("two", n)))
				await()
				if got := others(t, a); got != fmt.Sprint("ImageTagMirrorSet two", n) || time.Since(start) > time.Second {
					t.Errorf("change %d: counts %q after %s", n, got, time.Since(start))
				}
				a.mu.Lock()
				if len(a.pending) > 2 || len(a.over) > 10*maxKnown {
					t.Errorf("%d are pending, %d remembered", len(a.pending), len(a.over))
				}
				a.mu.Unlock()
			}
			if notes := strings.Join(a.Notes(), "\n"); !strings.Contains(notes, "content that no guard writes was put into it") {
				t.Errorf("notes %q", notes)
			}
		})
	}
}
