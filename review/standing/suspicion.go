package standing

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A suspicion blames losses on a change that was not reviewed.
type suspicion struct {
	what string
	at   time.Time
}

const (
	// maxSuspicions bounds their number, and suspectFor their age: a loss found later has other
	// reasons, or a registry needed as long to answer.
	maxSuspicions = 16
	suspectFor    = 10 * time.Minute
	// maxSuspects is how many of them a report names, maxUnseen how many runes it has of what may
	// have passed unseen: the rest of a note is for images.
	maxSuspects = 3
	maxUnseen   = 300
)

// Suspicions are what was reported to a Verifier as changed. They are safe for concurrent use.
type suspicions struct {
	mu  sync.Mutex
	all []suspicion
}

func (s *suspicions) add(what string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(old suspicion) bool { return old.what == what || now.Sub(old.at) > suspectFor })
	s.all = append(s.all, suspicion{what, now})
	s.all = s.all[max(0, len(s.all)-maxSuspicions):]
}

// since names those that are young enough, the latest first; "" for none.
func (s *suspicions) since(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, one := range slices.Backward(s.all) {
		if now.Sub(one.at) <= suspectFor {
			names = append(names, fmt.Sprintf("%s changed at %s", one.what, one.at.UTC().Format(time.TimeOnly+"Z")))
		}
	}
	return text.Names(names, maxSuspects)
}

// Suspect says that something has changed which is not reviewed, such as "MachineConfig 99-proxies":
// the next round begins at once, and losses found in the next minutes are reported with it.
func (v *Verifier) Suspect(what string) {
	v.suspicions.add(what, time.Now())
	v.keeping.Soon()
	v.verifying.Soon()
}

// remark says what a report of a loss begins with; "" for nothing.
func (v *Verifier) remark() string {
	var parts []string
	if since := v.suspicions.since(time.Now()); since != "" {
		parts = append(parts, "After "+since)
	}
	if v.options.Unseen != nil {
		if unseen := v.options.Unseen(); unseen != "" {
			parts = append(parts, text.Cut(unseen, maxUnseen))
		}
	}
	return strings.Join(parts, "; ")
}
