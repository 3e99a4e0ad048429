package renderedconfig

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A source has every config but those that begin with "no", and notes which were read.
type source struct {
	mu            sync.Mutex
	read          []string
	under, atMost int
}

func (s *source) Rendered(ctx context.Context, name string) (*rollout.Rendered, error) {
	s.mu.Lock()
	s.read, s.under = append(s.read, name), s.under+1
	s.atMost = max(s.atMost, s.under)
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.under--; s.mu.Unlock() }()
	time.Sleep(time.Second)
	if len(name) > 2 && name[:2] == "no" {
		return nil, rollout.ErrGone
	}
	return &rollout.Rendered{Name: name}, context.Cause(ctx)
}

// TestConfigs: each config is read once, for as long as it is asked for. One that could not be read is asked for again after a
// wait that doubles, up to a bound, and begins anew once it was read or forgotten.
func TestConfigs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Configs
		s := &source{}
		for _, tt := range []struct {
			reason string
			after  time.Duration
			names  []string
			read   []string
			unread int
		}{
			{"nothing is asked for", 0, nil, nil, 0},
			{"the first time", 0, []string{"a", "b", "none"}, []string{"a", "b", "none"}, 1},
			{"at once again", time.Second, []string{"a", "b", "none"}, nil, 1},
			{"after the first wait", retryFirst, []string{"a", "b", "none"}, []string{"none"}, 1},
			{"the second is longer", retryFirst, []string{"a", "b", "none"}, nil, 1},
			{"after the second", retryFirst, []string{"a", "b", "none"}, []string{"none"}, 1},
			{"what was not asked for is forgotten", 0, []string{"a"}, nil, 0},
			{"and so is the wait for it", 0, []string{"a", "b", "none"}, []string{"b", "none"}, 1},
		} {
			time.Sleep(tt.after)
			s.read = nil
			configs, unread, err := c.Read(t.Context(), s, tt.names, time.Now())
			slices.Sort(s.read)
			if err != nil || !slices.Equal(s.read, tt.read) || len(unread) != tt.unread || len(configs) != len(tt.names)-tt.unread {
				t.Errorf("%s: read %q, %d configs, unread %v, %v", tt.reason, s.read, len(configs), unread, err)
			}
			for name, config := range configs {
				if config.Name != name {
					t.Errorf("%s: %s is %s", tt.reason, name, config.Name)
				}
			}
			if tt.unread > 0 && !errors.Is(unread["none"], rollout.ErrGone) {
				t.Errorf("%s: %v", tt.reason, unread)
			}
		}
		var many []string
		for i := range 20 {
			many = append(many, string(rune('a'+i)))
		}
		if configs, _, err := c.Read(t.Context(), s, many, time.Now()); err != nil || len(configs) != 20 || s.atMost != atOnce {
			t.Errorf("%d of 20, %d at once, %v", len(configs), s.atMost, err)
		}
		gone, cancel := context.WithCancelCause(t.Context())
		cancel(errors.ErrUnsupported)
		if _, unread, err := c.Read(gone, s, []string{"x"}, time.Now()); !errors.Is(err, errors.ErrUnsupported) || len(unread) != 1 {
			t.Errorf("cancelled: %v, %v", unread, err)
		}
	})
}

// TestRetry: the waits are those that are said.
func TestRetry(t *testing.T) {
	var r retry
	var waits []time.Duration
	for range 9 {
		r = r.next(time.Time{})
		waits = append(waits, r.after)
	}
	if waits[0] != retryFirst || waits[1] != 2*retryFirst || waits[8] != retryMost || !slices.IsSorted(waits) {
		t.Errorf("waits %v", waits)
	}
}
