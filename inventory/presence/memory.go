package presence

import (
	"cmp"
	"reflect"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A memory holds a bounded number of facts; the oldest go first. It is not safe for
// concurrent use.
type memory struct {
	most  int
	facts map[mirrors.Location]*memo
	ends  memo // of a ring: the oldest comes after it, the youngest before
}

// A memo is a fact with what determines how long it counts. It does not change once it is in
// a memory, but for its neighbours by age.
type memo struct {
	location   mirrors.Location
	fact       *policy.Fact
	learned    time.Time
	generation uint64
	older      *memo
	younger    *memo
}

func newMemory(most int) *memory {
	m := &memory{most: most, facts: map[mirrors.Location]*memo{}}
	m.ends.older, m.ends.younger = &m.ends, &m.ends
	return m
}

// leave takes m out of its ring.
func (m *memo) leave() { m.older.younger, m.younger.older = m.younger, m.older }

// put remembers learned instead of what was known about its location, whose reference must be no
// part of a larger object: it would keep that in memory.
func (m *memory) put(learned memo) {
	if known := m.facts[learned.location]; known != nil {
		learned.location = known.location
		known.leave()
	}
	learned.older, learned.younger = m.ends.older, &m.ends
	learned.older.younger, m.ends.older = &learned, &learned
	m.facts[learned.location] = &learned
	for len(m.facts) > m.most {
		oldest := m.ends.younger
		oldest.leave()
		delete(m.facts, oldest.location)
	}
}

// refusals are the facts of one second that hold only a registry's refusal and its words: for many
// images that a registry lacks, or a registry that does not answer, they are mostly
// the same, and a fact is larger than everything else that is remembered of a location.
type refusals struct {
	second time.Time
	facts  map[refusal]*policy.Fact
	// asked and plain are compared: facts on the heap, for each answer, would be most of the garbage.
	asked, plain policy.Fact
}

// A refusal is a fact of that kind.
type refusal struct {
	presence policy.Presence
	detail   string
	asNodes  bool
	trouble  policy.Trouble
}

// shared returns f or, if f is a refusal, one that is equal to the second in which it came.
func (r *refusals) shared(f policy.Fact) *policy.Fact {
	second, key := f.Time.Truncate(time.Second), refusal{presence: f.Presence, detail: f.Detail, asNodes: f.AsNodes}
	if f.Trouble != nil {
		key.trouble = *f.Trouble
	}
	r.asked, r.plain = f, policy.Fact{Presence: key.presence, Detail: key.detail, AsNodes: key.asNodes, Trouble: f.Trouble, Time: f.Time}
	if f.Presence == policy.Present || !reflect.DeepEqual(&r.asked, &r.plain) {
		own := f
		return &own
	}
	if r.facts == nil || !second.Equal(r.second) {
		r.second, r.facts = second, map[refusal]*policy.Fact{}
	}
	if known := r.facts[key]; known != nil {
		return known
	}
	first := r.plain
	first.Time = second
	r.facts[key] = &first
	return &first
}

// Lifetimes are the times for which answers of each kind are repeated before the registry is asked
// again. The zero value of each means its default.
type Lifetimes struct {
	// PresentDigest is for images looked up by digest, and for the signatures of one: they stay the
	// same for as long as the mirror keeps them. 1 h.
	PresentDigest time.Duration
	// PresentTag is for images looked up by tag, which may be moved. 2 min.
	PresentTag time.Duration
	// Absent is for misses, of an image or of a part of it. They deny changes, and they end
	// when an administrator copies the image and at once tries again, so in practice they
	// are looked up again before they deny: 2 s is how long one review may take to come back
	// to a location.
	Absent time.Duration
	// Recalled is how long a miss that is no longer fresh is still good enough to plan
	// with, and to report where there was no time to ask again. 90 s.
	Recalled time.Duration
	// Trouble is for everything else: denied, unreachable, mismatch. It keeps a registry
	// in trouble from being asked for every review. 10 s.
	Trouble time.Duration
}

func (l Lifetimes) withDefaults() Lifetimes {
	l.PresentDigest = cmp.Or(l.PresentDigest, time.Hour)
	l.PresentTag = cmp.Or(l.PresentTag, 2*time.Minute)
	l.Absent = cmp.Or(l.Absent, 2*time.Second)
	l.Recalled = cmp.Or(l.Recalled, 90*time.Second)
	l.Trouble = cmp.Or(l.Trouble, 10*time.Second)
	return l
}

// lifetimeOf returns how long a fact about a location lives. Signatures are under a tag, but that is
// never moved; see Store.answer for those that are added.
func (l Lifetimes) lifetimeOf(at mirrors.Location, f *policy.Fact) time.Duration {
	switch f.Presence {
	case policy.Present:
		if mayImprove(at.Ref, f) {
			return l.Absent
		}
		if mirrors.ByDigest(at.Ref) || at.Depth == mirrors.DepthSignatures {
			return l.PresentDigest
		}
		return l.PresentTag
	case policy.Absent, policy.Incomplete:
		return l.Absent
	case policy.Unknown:
		return 0
	default:
		return l.Trouble
	}
}
