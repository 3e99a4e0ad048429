package readiness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
)

func keyOf(i int) payloadKey { return payloadKey{fmt.Sprintf("quay.io/release@sha256:%064d", i), ""} }

// TestLastPayloadShare: whoever wants the same payload waits for one reading, which goes on when all have left.
func TestLastPayloadShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewLastPayload()
		defer p.Close()
		var readings atomic.Int32
		read := func(context.Context) (*release.Payload, error) {
			readings.Add(1)
			time.Sleep(10 * time.Second)
			return &release.Payload{Version: "4.21.3"}, nil
		}
		for range 3 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := p.get(ctx, keyOf(1), read); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errStillReading) {
					t.Errorf("got %v after a second, want that it is still being read", err)
				}
			}()
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		got, err := p.get(t.Context(), keyOf(1), read)
		if err != nil || got.Version != "4.21.3" || readings.Load() != 1 {
			t.Errorf("got %v, %v after %d readings, want the payload after one", got, err, readings.Load())
		}
	})
}

// TestLastPayloadForget: what failed for today is read again, and what a digest names is not.
func TestLastPayloadForget(t *testing.T) {
	p := NewLastPayload()
	defer p.Close()
	for _, c := range []struct {
		why    string
		unread error // beside a payload
		err    error
		want   int
	}{
		{"a registry that does not answer may do so later", nil, errors.New("connection refused"), 2},
		{"what a digest names stays what it is", nil, fmt.Errorf("%w: none of its layers has /release-manifests", release.ErrNoRelease), 1},
		{"all of it was read", nil, nil, 1},
		{"a layer below could not be read today", errors.New("connection refused"), nil, 2},
		{"what is wrong in a layer below stays wrong", fmt.Errorf("below: %w", new(release.Fault)), nil, 1},
	} {
		readings := 0
		for range 2 {
			got, err := p.get(t.Context(), payloadKey{image: c.why}, func(context.Context) (*release.Payload, error) {
				readings++
				if c.err != nil {
					return nil, c.err
				}
				return &release.Payload{Unread: c.unread}, nil
			})
			if !errors.Is(err, c.err) || c.err == nil && !errors.Is(got.Unread, c.unread) {
				t.Errorf("%s: got %v, %v", c.why, got, err)
			}
		}
		if readings != c.want {
			t.Errorf("%s: read %d times, want %d", c.why, readings, c.want)
		}
	}
}

// TestLastPayloadTooMuch: an image beyond the limits of what is read does not cost its reading each time that it is asked for, and gets
// another one later, as its registry may have served what its digest does not name.
func TestLastPayloadTooMuch(t *testing.T) {
	tooMuch := fmt.Errorf("its last layers: %w", release.ErrTooMuch)
	for why, c := range map[string]struct {
		payload *release.Payload
		err     error
	}{
		"no payload in what is read": {nil, tooMuch},
		"the layers below a payload": {&release.Payload{Unread: tooMuch}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := NewLastPayload()
			defer p.Close()
			readings := 0
			ask := func(want int) {
				t.Helper()
				got, err := p.get(t.Context(), keyOf(1), func(context.Context) (*release.Payload, error) {
					readings++
					return c.payload, c.err
				})
				if got != c.payload || !errors.Is(err, c.err) || readings != want {
					t.Errorf("%s: got %v, %v after %d readings, want %d", why, got, err, readings, want)
				}
			}
			ask(1)
			time.Sleep(tooMuchTime - time.Second)
			ask(1)
			time.Sleep(time.Second)
			ask(2)
			ask(2)
		})
	}
}

// TestLastPayloadSlow: a payload that was found before its time was over is not read again and again over the link that is too slow for what is
// below it. One that was not found is, and so is one of which a registry did not answer a single request in time.
func TestLastPayloadSlow(t *testing.T) {
	for why, c := range map[string]struct {
		whole, hangs bool
		want         int
	}{
		"found, and then too slow":                {true, true, 1},
		"nothing found":                           {false, true, 2},
		"found, and one request was not answered": {true, false, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := NewLastPayload()
			defer p.Close()
			readings := 0
			read := func(ctx context.Context) (*release.Payload, error) {
				readings++
				why := context.DeadlineExceeded
				if c.hangs {
					<-ctx.Done()
					why = ctx.Err()
				}
				if !c.whole {
					return nil, why
				}
				return &release.Payload{Unread: why}, nil
			}
			for range 2 {
				if got, err := p.get(t.Context(), keyOf(1), read); (err == nil) != c.whole || c.whole && !errors.Is(got.Unread, context.DeadlineExceeded) {
					t.Errorf("%s: got %v, %v", why, got, err)
				}
			}
			if readings != c.want {
				t.Errorf("%s: read %d times, want %d", why, readings, c.want)
			}
			time.Sleep(tooSlowTime)
			if _, err := p.get(t.Context(), keyOf(1), read); (err == nil) != c.whole || readings != c.want+1 {
				t.Errorf("%s: %d readings after ten minutes, %v", why, readings, err)
			}
		})
	}
}

// TestLastPayloadPanic: an image by which its reader panics is an error for those who wait, and takes no process with it.
func TestLastPayloadPanic(t *testing.T) {
	p := NewLastPayload()
	defer p.Close()
	for i := range 3 {
		_, err := p.get(t.Context(), keyOf(i), func(context.Context) (*release.Payload, error) { panic("half an archive") })
		if err == nil || err.Error() != "panic: half an archive" {
			t.Errorf("got %v", err)
		}
	}
	if got, err := p.get(t.Context(), keyOf(1), func(context.Context) (*release.Payload, error) { return new(release.Payload), nil }); err != nil || got == nil {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}

// TestLastPayloadOther: a call for another release ends the reading of the former, and has it forgotten.
func TestLastPayloadOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewLastPayload()
		defer p.Close()
		ended := make(chan error, 1)
		go func() {
			_, err := p.get(t.Context(), keyOf(1), func(ctx context.Context) (*release.Payload, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			ended <- err
		}()
		synctest.Wait()
		var readings []int
		ask := func(i int) {
			if _, err := p.get(t.Context(), keyOf(i), func(context.Context) (*release.Payload, error) {
				readings = append(readings, i)
				return new(release.Payload), nil
			}); err != nil {
				t.Error(err)
			}
		}
		ask(2)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the former reading ended with %v", err)
		}
		ask(2)
		ask(1)
		if !slices.Equal(readings, []int{2, 1}) {
			t.Errorf("read were %d", readings)
		}
	})
}

// TestLastPayloadClose: a reading ends with its owner.
func TestLastPayloadClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewLastPayload()
		ended := make(chan error, 1)
		go func() {
			_, err := p.get(t.Context(), keyOf(1), func(ctx context.Context) (*release.Payload, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			ended <- err
		}()
		synctest.Wait()
		p.Close()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if _, err := p.get(t.Context(), keyOf(2), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: got %v", err)
		}
	})
}
