package standing

import (
	"cmp"
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review/report"
)

// confirmations is how many rounds in a row must contradict what was reported of an image
// before that is reported: a registry may be halfway through a restart.
const confirmations = 2

// A ledger knows what has been reported of each object, and what has been seen since. It is
// not safe for concurrent use.
type ledger struct {
	accounts map[string]*account // by report.Key
}

// An account lists the images of one object that are lost or were last reported lost. An
// image without an entry is fine, as far as was reported.
type account struct {
	object  mirrors.Object // nil where it is not known which
	entries map[string]*entry
}

type entry struct {
	policy.Standing
	rank  int  // lower is more important
	lost  bool // as last reported
	times int  // rounds in a row that contradict that
}

func newLedger() *ledger { return &ledger{accounts: map[string]*account{}} }

// record records what a round has found, the most important first. Objects that are gone, and
// images that no object sends anywhere any more, are forgotten without a report: nothing was
// lost or recovered.
func (l *ledger) record(standings []policy.Standing) {
	before := l.accounts
	l.accounts = map[string]*account{}
	for rank, s := range standings {
		objects := s.Objects
		if len(objects) == 0 {
			objects = []mirrors.Object{nil}
		}
		for _, o := range objects {
			l.account(o).record(s, rank, before[report.Key(o)])
		}
	}
}

func (l *ledger) account(o mirrors.Object) *account {
	key := report.Key(o)
	if a, ok := l.accounts[key]; ok {
		return a
	}
	a := &account{object: o, entries: map[string]*entry{}}
	l.accounts[key] = a
	return a
}

func (a *account) record(s policy.Standing, rank int, before *account) {
	var e entry
	if before != nil {
		if old, ok := before.entries[s.Image.Ref]; ok {
			e = *old
		}
	}
	e.rank = rank
	switch {
	case s.Outcome == policy.Unsure: // no news
	case (s.Outcome == policy.Fails) == e.lost:
		e.times, e.Standing = 0, s
	default:
		e.times++
		e.Standing = s
	}
	if e.lost || e.times > 0 {
		a.entries[s.Image.Ref] = &e
	}
}

// suspects reports whether the next round may confirm something.
func (l *ledger) suspects() bool {
	for _, a := range l.accounts {
		for _, e := range a.entries {
			if e.times > 0 {
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
		if e.lost != lost && e.times >= confirmations {
			c.entries = append(c.entries, e)
		}
	}
	slices.SortFunc(c.entries, func(a, b *entry) int { return cmp.Compare(a.rank, b.rank) })
	return c
}

// markReported notes that c was reported.
func (c change) markReported() {
	for _, e := range c.entries {
		e.lost, e.times = c.lost, 0
	}
}
