package standing

import (
	"cmp"
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// A ledger knows what has been reported of each object, and what has been seen since. It is
// not safe for concurrent use.
type ledger struct {
	accounts map[string]*account // by watchloop.Key
}

// An account lists the images of one object that are lost or were last reported lost. An image without
// an entry was last reported as fine, or never.
type account struct {
	object  mirrors.Object // nil where it is not known which
	entries map[string]*entry
}

type entry struct {
	rules.Standing
	rank int // lower is more important
	lost watchloop.Trial[bool]
}

func newLedger() *ledger { return &ledger{accounts: map[string]*account{}} }

// record records what a round has found, the most important first. Objects that are gone, and
// images that no object sends anywhere any more, are forgotten without a report: nothing was
// lost or recovered.
func (l *ledger) record(standings []rules.Standing) {
	before := l.accounts
	l.accounts = map[string]*account{}
	for rank, s := range standings {
		objects := s.Objects
		if len(objects) == 0 {
			objects = []mirrors.Object{nil}
		}
		for _, o := range objects {
			l.account(o).record(s, rank, before[watchloop.Key(o)])
		}
	}
}

func (l *ledger) account(o mirrors.Object) *account {
	key := watchloop.Key(o)
	if a, ok := l.accounts[key]; ok {
		return a
	}
	a := &account{object: o, entries: map[string]*entry{}}
	l.accounts[key] = a
	return a
}

func (a *account) record(s rules.Standing, rank int, before *account) {
	var e entry
	if before != nil {
		if old, ok := before.entries[s.Image.Ref]; ok {
			e = *old
		}
	}
	e.rank = rank
	if s.Outcome != evidence.Unsure { // which is no news
		e.Standing = s
		e.lost.Find(s.Outcome == evidence.Fails)
	}
	if e.lost.Reported || e.lost.Found {
		a.entries[s.Image.Ref] = &e
	}
}

// suspects reports whether the next round may confirm something.
func (l *ledger) suspects() bool {
	for _, a := range l.accounts {
		for _, e := range a.entries {
			if e.lost.Differs() {
				return true
			}
		}
	}
	return false
}

// A change is the news about an object that is to be reported: images that are lost, or that are there
// again.
type change struct {
	account *account
	lost    bool
	entries []*entry // the most important first
}

// changes returns the changes that are confirmed, losses first.
func (l *ledger) changes() []change {
	var changes []change
	for _, lost := range []bool{true, false} {
		for _, key := range slices.Sorted(maps.Keys(l.accounts)) {
			if c := l.accounts[key].confirmed(lost); len(c.entries) > 0 {
				changes = append(changes, c)
			}
		}
	}
	return changes
}

func (a *account) confirmed(lost bool) change {
	c := change{account: a, lost: lost}
	for _, e := range a.entries {
		if e.lost.Found == lost && e.lost.IsNews() {
			c.entries = append(c.entries, e)
		}
	}
	slices.SortFunc(c.entries, func(a, b *entry) int { return cmp.Compare(a.rank, b.rank) })
	return c
}

// markReported notes that c was reported.
func (c change) markReported() {
	for _, e := range c.entries {
		e.lost.MarkReported()
	}
}
