package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
)

func keyOf(i int) payloadKey { return payloadKey{fmt.Sprintf("quay.io/release@sha256:%064d", i), ""} }

// TestPayloadsForget: what failed for today is read again, and what a digest names is not.
func TestPayloadsForget(t *testing.T) {
	p := new(Payloads)
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

// TestPayloadsTooMuch: an image beyond the limits of what is read does not cost its reading each time that it is asked for, and gets
// another one later, as its registry may have served what its digest does not name.
func TestPayloadsTooMuch(t *testing.T) {
	tooMuch := fmt.Errorf("its last layers: %w", release.ErrTooMuch)
	for why, c := range map[string]struct {
		payload *release.Payload
		err     error
	}{
		"no payload in what is read": {nil, tooMuch},
		"the layers below a payload": {&release.Payload{Unread: tooMuch}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := new(Payloads)
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

// TestPayloadsSlow: a payload that was found before its time was over is not read again and again over the link that is too slow for what is
// below it. One that was not found is, and so is one of which a registry did not answer a single request in time.
func TestPayloadsSlow(t *testing.T) {
	for why, c := range map[string]struct {
		whole, hangs bool
		want         int
	}{
		"found, and then too slow":                {true, true, 1},
		"nothing found":                           {false, true, 2},
		"found, and one request was not answered": {true, false, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := new(Payloads)
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

// TestPayloadsPanic: an image by which its reader panics is an error, and takes no process with it.
func TestPayloadsPanic(t *testing.T) {
	p := new(Payloads)
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

// TestPayloadsOther: the release that runs is remembered beside the one that is judged, and no third.
func TestPayloadsOther(t *testing.T) {
	var p Payloads
	var readings []int
	for _, i := range []int{1, 2, 1, 2, 3, 2, 3, 1} {
		if _, err := p.get(t.Context(), keyOf(i), func(context.Context) (*release.Payload, error) {
			readings = append(readings, i)
			return new(release.Payload), nil
		}); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(readings, []int{1, 2, 3, 1}) {
		t.Errorf("read were %d", readings)
	}
}
