package healing

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A state holds what has to survive a restart and a change of the leader: what was spent, what was copied back,
// and where nothing more is copied.
type state struct {
	Version int      `json:"version"`
	Spent   spending `json:"spent,omitempty"`
	// Healed are the places to which something was copied back, and when (Unix time in ms), by their registries.
	Healed map[string]map[placeID]int64 `json:"healed,omitempty"`
	// Stopped are the registries to which nothing more is copied.
	Stopped map[string]stop `json:"stopped,omitempty"`
}

// A stop says why nothing more is copied to a registry.
type stop struct {
	At    time.Time `json:"at"`
	Place string    `json:"place"` // what it lost twice
	// Copied is when that was copied there.
	Copied time.Time `json:"copied"`
}

const (
	stateVersion = 1
	// rememberFor is how long a copy is remembered: what a mirror loses again after that counts as lost for
	// the first time.
	rememberFor = 30 * 24 * time.Hour
	// maxHealed bounds the copies that are remembered. With as many, the state has half the bytes that
	// an object's annotations may have.
	maxHealed = 3000
)

// A placeID stands for a place in a registry.
type placeID string

func idOf(l mirrors.Location) placeID {
	sum := sha256.Sum256([]byte(l.Ref))
	return placeID(hex.EncodeToString(sum[:8]))
}

// hostOf returns the registry that l is in, as references name it.
func hostOf(l mirrors.Location) string {
	host, _, _ := strings.Cut(l.Ref, "/")
	return host
}

// healedAt returns when something was copied to l; the zero time for never, as far as is remembered.
func (s *state) healedAt(l mirrors.Location) time.Time {
	if at, ok := s.Healed[hostOf(l)][idOf(l)]; ok {
		return time.UnixMilli(at)
	}
	return time.Time{}
}

// healed returns how many copies are remembered.
func (s *state) healed() (n int) {
	for _, places := range s.Healed {
		n += len(places)
	}
	return n
}

func (s *state) noteHealed(l mirrors.Location, now time.Time) {
	host := hostOf(l)
	if s.Healed == nil {
		s.Healed = map[string]map[placeID]int64{}
	}
	if s.Healed[host] == nil {
		s.Healed[host] = map[placeID]int64{}
	}
	s.Healed[host][idOf(l)] = now.UnixMilli()
}

// forget forgets what is too old to count.
func (s *state) forget(now time.Time) {
	s.Spent = s.Spent.since(now)
	oldest := now.Add(-rememberFor).UnixMilli()
	for host, places := range s.Healed {
		maps.DeleteFunc(places, func(_ placeID, at int64) bool { return at < oldest })
		if len(places) == 0 {
			delete(s.Healed, host)
		}
	}
}

func (s *state) stop(host string, why stop) {
	if s.Stopped == nil {
		s.Stopped = map[string]stop{}
	}
	s.Stopped[host] = why
}

// resume lets registries be copied to again, and forgets what was copied there. It returns those that were stopped, or of which copies were
// remembered: there may be as many of these as there may be (maxHealed), with nothing stopped.
func (s *state) resume(hosts []string) (resumed []string) {
	all := slices.Contains(hosts, everyRegistry)
	for _, host := range slices.Sorted(maps.Keys(s.Healed)) {
		if _, stopped := s.Stopped[host]; !stopped && (all || slices.Contains(hosts, host)) {
			resumed = append(resumed, host)
		}
	}
	for host := range s.Stopped {
		if all || slices.Contains(hosts, host) {
			resumed = append(resumed, host)
		}
	}
	for _, host := range resumed {
		delete(s.Stopped, host)
		delete(s.Healed, host)
	}
	slices.Sort(resumed)
	return resumed
}

// copy returns one that shares nothing with s.
func (s *state) copy() *state {
	c := *s
	c.Spent, c.Stopped = slices.Clone(s.Spent), maps.Clone(s.Stopped)
	c.Healed = make(map[string]map[placeID]int64, len(s.Healed))
	for host, places := range s.Healed {
		c.Healed[host] = maps.Clone(places)
	}
	return &c
}

func (s *state) encode() (string, error) {
	s.Version = stateVersion
	data, err := json.Marshal(s)
	return string(data), err
}

// decodeState reads what encode wrote. What it does not know is an error: it may be what keeps something from
// being copied.
func decodeState(text string) (*state, error) {
	var s state
	if err := strictjson.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("its annotation %s cannot be read: %w", annotation, err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("its annotation %s has version %d, this program knows %d", annotation, s.Version, stateVersion)
	}
	for _, in := range s.Spent {
		if in.Bytes < 0 || in.Requests < 0 {
			return nil, fmt.Errorf("its annotation %s says that less than nothing was spent", annotation)
		}
	}
	slices.SortFunc(s.Spent, func(a, b spent) int { return cmp.Compare(a.Minute, b.Minute) })
	return &s, nil
}
