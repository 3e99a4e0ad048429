package presence

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A search asks a registry that has lost an image about the others that are kept there, the nearest first: what deletes one
// image mostly deletes more. Passes over all of them follow each other until one has found no other loss; then the registry
// has a rest from being searched. It is not safe for concurrent use.
type search struct {
	nearest []mirrors.Location            // those to ask first, in this order
	others  map[string][]mirrors.Location // to ask after them, by repository
	order   []string                      // of these repositories, the nearest first; some may be in nearest by now
	open    map[mirrors.Location]struct{} // asked, without an answer so far
	began   time.Time                     // the pass; what was learned later is not asked again
	passing bool                          // a pass is under way
	more    bool                          // something was lost since the last pass began, so that another one follows
	near    string                        // the repository that lost something last
	untold  bool                          // of a loss
	rests   time.Time                     // until when no pass begins
}

// searchRest is the time from the end of a pass that found nothing more to the next one: a mirror that loses an image now
// and then is not asked about all of them each time.
const searchRest = time.Minute

// isLoss reports whether a registry that had all of an image, as before says, lacks it or some of it, as after does.
func isLoss(before, after *policy.Fact) bool {
	if !isGood(before) {
		return false
	}
	switch after.Presence {
	case policy.Absent, policy.Incomplete:
		return true
	default:
		return after.Presence == policy.Present && len(after.Missing) > 0
	}
}

// repositoryOf returns the repository that a reference is about, with its registry.
func repositoryOf(ref string) string {
	name, _, _ := strings.Cut(ref, "@")
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		name = name[:colon]
	}
	return name
}

// nearness returns how many elements of their paths two repositories have in common, from the first on.
func nearness(a, b string) (n int) {
	if a == b {
		return len(a) // more than there are elements
	}
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

// lost notes that the registry of l, which is kept without end, has lost an image.
func (k *keeper) lost(l mirrors.Location, now time.Time) {
	key := keyOf(l)
	in := k.searches[key]
	if in == nil {
		in = &search{}
		k.searches[key] = in
	}
	in.more, in.untold, in.near = true, true, repositoryOf(l.Ref)
	in.nearest = append(in.nearest, in.others[in.near]...)
	delete(in.others, in.near)
	k.proceed(key, in, now)
}

// proceed ends a pass that has its answers, and begins one that is due. A search that rests and has nothing to do after that
// is forgotten.
func (k *keeper) proceed(key queueKey, in *search, now time.Time) {
	if in.passing && in.isThrough() {
		in.passing = false
		if !in.more {
			in.rests = now.Add(searchRest)
		}
		if in.untold {
			in.untold = false
			close(k.losses)
			k.losses = make(chan struct{})
		}
	}
	switch {
	case in.passing || now.Before(in.rests):
	case in.more:
		in.begin(k.lasting(key), now)
	default:
		delete(k.searches, key)
	}
}

// lasting returns the locations at one registry that are kept without end: those of the configuration in force.
func (k *keeper) lasting(key queueKey) (all []mirrors.Location) {
	for l, due := range k.due {
		if due.lasting && keyOf(l) == key {
			all = append(all, l)
		}
	}
	return all
}

// begin begins a pass over locations. Which of equally near ones come first is random.
func (s *search) begin(all []mirrors.Location, now time.Time) {
	s.began, s.passing, s.more = now, true, false
	s.nearest, s.others, s.order = nil, map[string][]mirrors.Location{}, nil
	s.open = map[mirrors.Location]struct{}{}
	for _, l := range all {
		repository := repositoryOf(l.Ref)
		if _, ok := s.others[repository]; !ok {
			s.order = append(s.order, repository)
		}
		s.others[repository] = append(s.others[repository], l)
	}
	rand.Shuffle(len(s.order), func(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] }) //nolint:gosec // not a secret
	slices.SortStableFunc(s.order, func(a, b string) int { return nearness(s.near, b) - nearness(s.near, a) })
}

// next takes the location to ask about next; false if there is none.
func (s *search) next() (l mirrors.Location, ok bool) {
	for len(s.nearest) == 0 {
		if len(s.order) == 0 {
			return l, false
		}
		s.nearest = s.others[s.order[0]]
		delete(s.others, s.order[0])
		s.order = s.order[1:]
	}
	l, s.nearest = s.nearest[0], s.nearest[1:]
	return l, true
}

// isThrough reports whether all that the pass asks about was answered.
func (s *search) isThrough() bool {
	return len(s.nearest) == 0 && len(s.order) == 0 && len(s.open) == 0
}

// search goes on with in, and returns how many lookups it has queued. It is called with the lock held.
func (s *Store) search(in *search, now time.Time) (asked int) {
	for asked < int(limits.SearchedPerSecond*keepTick.Seconds()) {
		l, ok := in.next()
		if !ok {
			break
		}
		_, kept := s.keeper.due[l]
		m := s.memory.get(l)
		if !kept || m == nil || !isGood(m.fact) || !m.learned.Before(in.began) {
			continue // nothing is to be lost there, or it has just been asked
		}
		if s.queueRefresh(l, now) {
			in.open[l] = struct{}{}
			asked++
		}
	}
	return asked
}

// Losses returns a channel that is closed once a registry turned out to have lost images that are kept without end, and the
// others there have been asked about. The next one is returned from then on.
func (s *Store) Losses() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keeper.losses
}
