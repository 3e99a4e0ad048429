package recent

import (
	"fmt"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
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
	// waited are the times when waits began for entries that cannot be read, of guards and of others.
	waited, waitedForGarbage []time.Time
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

// mostWaits is how many entries that cannot be read are waited for in an hour, mostGarbage how many of those that no
// guard has written: a user with the right to write the list could add them for ever. There may be several that a
// guard marked as too large to be shared, and several changes during an update to a version that writes another
// format. Releases are made so that this does not happen (docs/upgrade.md).
const (
	mostWaits   = 8
	mostGarbage = 1
)

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

// waits reports whether an entry that cannot be read is waited for, which may be garbage.
func (t *trouble) waits(isGarbage bool, now time.Time) bool {
	begun, most := &t.waited, mostWaits
	if isGarbage {
		begun, most = &t.waitedForGarbage, mostGarbage
	}
	*begun = prune(*begun, now.Add(-rememberTrouble))
	n := len(*begun)
	if n > 0 && now.Sub((*begun)[n-1]) < oneWait {
		return true
	}
	if n >= most {
		return false
	}
	*begun = append(*begun, now)
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

// Metrics returns whether replicas share their recent edits, and how often the list was disturbed.
func (e *Edits) Metrics() prom.Sources {
	return prom.Sources{
		prom.Gauge("mirrorset_guard_recent_edits_shared",
			"1 if replicas share the changes that they admit, and so judge changes made at the same moment together; 0 if the Lease for it cannot be used. Missing if that is not known yet, or this process is the only one.",
			func(give prom.Give) {
				e.mu.Lock()
				defer e.mu.Unlock()
				if e.link.tried {
					give(prom.Bool(e.link.broken() == nil))
				}
			}),
		prom.Counter("mirrorset_guard_recent_edits_disturbed_total",
			"How often a program other than the guard wrote the Lease in which replicas share the changes that they admit, by what was done (deleted, emptied, garbage).",
			func(give prom.Give) {
				e.mu.Lock()
				defer e.mu.Unlock()
				for kind := range kindsOfTrouble {
					give(float64(e.trouble.counts[kind]), kind.String())
				}
			}, "what"),
	}
}

// Notes say what keeps replicas from sharing their recent edits, and what disturbs it.
func (e *Edits) Notes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var notes []string
	if err := e.link.broken(); err != nil {
		notes = append(notes, fmt.Sprintf("changes made at the same moment through different replicas are not judged together (%v): apply the guard's manifests again", err))
	}
	if what := e.trouble.text(time.Now()); what != "" {
		notes = append(notes, what)
	}
	return notes
}
