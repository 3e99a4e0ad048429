package recent

import (
	"fmt"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A trouble counts changes of the list by programs other than the guard. They delay reviews for
// a bounded time, and are reported.
type trouble struct {
	counts [kindsOfTrouble]uint64
	// times are those of the last changes, last describes the last one.
	times  []time.Time
	last   string
	logged time.Time
	// waited are the times when waits began for entries that cannot be read, by the reason why they cannot.
	waited [whys][]time.Time
}

type kindOfTrouble int

const (
	deleted kindOfTrouble = iota
	emptied
	garbage
	kindsOfTrouble
)

// String implements fmt.Stringer, for the metric.
func (k kindOfTrouble) String() string { return [...]string{"deleted", "emptied", "garbage"}[k] }

const (
	// rememberTrouble is for how long Notes mention it.
	rememberTrouble = time.Hour
	// maxTroubles bounds the changes that are remembered.
	maxTroubles = 100
	// logTrouble is the least time between two log lines.
	logTrouble = time.Minute
)

// The reasons why an entry cannot be read, and how many such entries are waited for in an hour. A user
// with the right to write the list could add them for ever. There may be several that a guard marked
// as too large to be shared, and several changes during an update to a version that writes another
// format. Releases are made so that this does not happen (docs/upgrade.md).
const (
	strange = iota
	oversized
	later
	whys
)

var mostWaits = [whys]int{strange: 1, oversized: 8, later: 8}

// oneWait is the time after the beginning of a wait in which further entries belong to it.
const oneWait = time.Second

// note takes note of one more trouble, done by a program if that is known.
func (t *trouble) note(kind kindOfTrouble, by string, now time.Time) {
	t.counts[kind]++
	t.times = append(prune(t.times, now.Add(-rememberTrouble)), now)
	t.times = t.times[max(0, len(t.times)-maxTroubles):]
	switch kind {
	case deleted:
		t.last = "it was deleted"
	case emptied:
		t.last = "changes that are not stored yet were removed from it"
	case garbage:
		t.last = "content that no guard writes was put into it"
	}
	if by != "" {
		t.last += fmt.Sprintf(" by a program that calls itself %q", by)
	}
}

// mayLog reports whether it is time to log again.
func (t *trouble) mayLog(now time.Time) bool {
	if now.Sub(t.logged) < logTrouble {
		return false
	}
	t.logged = now
	return true
}

// waits reports whether an entry that cannot be read is waited for.
func (t *trouble) waits(why int, now time.Time) bool {
	begun := prune(t.waited[why], now.Add(-rememberTrouble))
	if n := len(begun); n > 0 && now.Sub(begun[n-1]) < oneWait {
		t.waited[why] = begun
		return true
	}
	if len(begun) >= mostWaits[why] {
		t.waited[why] = begun
		return false
	}
	t.waited[why] = append(begun, now)
	return true
}

// prune returns those of times that are not before since.
func prune(times []time.Time, since time.Time) []time.Time {
	for len(times) > 0 && times[0].Before(since) {
		times = times[1:]
	}
	return times
}

// text says what happened lately, "" for nothing.
func (t *trouble) text(now time.Time) string {
	n := len(prune(t.times, now.Add(-rememberTrouble)))
	if n == 0 {
		return ""
	}
	times := text.Plural(n, "time", "times")
	if n == maxTroubles {
		times = "at least " + times
	}
	return fmt.Sprintf("Lease %s, in which replicas share the changes that they admit, was disturbed %s in the last hour; at %s %s",
		LeaseName, times, t.times[len(t.times)-1].UTC().Format(time.RFC3339), t.last)
}
