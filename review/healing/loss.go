package healing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A loss is an image that its mirrors have lost.
type loss struct {
	policy.Standing
	copied policy.Copy // what to copy
}

// A reason says why a loss is not made good at the moment: a value of the metric's label.
type reason string

const (
	none      reason = ""
	atOnce    reason = "settling"  // copied, and to be seen there by the next rounds
	byTag     reason = "tag"       // tags are neither moved nor created
	signature reason = "signature" // lost, or to be left behind
	unseen    reason = "unseen"    // not known to have been there
	obstacle  reason = "obstacle"  // a copy is not what helps
	noOrigin  reason = "origin"    // no place that nodes may use has it
	stopped   reason = "stopped"   // the registry loses what is copied there
	failed    reason = "failed"    // and it is too early for another try
	budget    reason = "budget"    // spent for this hour
	unusable  reason = "unusable"  // the state or the Secret cannot be read
)

var reasons = []reason{atOnce, byTag, signature, unseen, obstacle, noOrigin, stopped, failed, budget, unusable}

// consider says what is in the way of copying s back, in a word and in a sentence, apart from what was done
// about it before.
func (h *Healer) consider(s policy.Standing) (l loss, why reason, says string) {
	l.Standing = s
	c := s.Finding.Copy
	if c == nil {
		return l, obstacle, "a copy is not what helps"
	}
	l.copied = *c
	l.copied.From = usable(c.From, s.After)
	switch {
	case c.OnlyAttachments:
		return l, signature, "its signatures are under tags, which are neither moved nor created; mirrorset-guard sync copies them"
	case !strings.Contains(c.To.Ref, "@"):
		return l, byTag, "it is pulled by tag, and tags are neither moved nor created; mirrorset-guard sync copies it"
	case c.ToSource:
		return l, obstacle, "there is no mirror to copy it to"
	case c.Obstacle != "":
		return l, obstacle, c.Obstacle
	case !h.heldBefore(idOf(c.To)):
		return l, unseen, "it has not been seen there since this replica began; mirrorset-guard sync copies what a mirror never had"
	case len(l.copied.From) == 0 || !c.Found:
		return l, noOrigin, "no other place that nodes may pull it from has it"
	}
	return l, none, ""
}

// usable returns those of places that nodes ask on a route.
func usable(places []mirrors.Location, r mirrors.Route) []mirrors.Location {
	return slices.DeleteFunc(slices.Clone(places), func(l mirrors.Location) bool {
		return !slices.ContainsFunc(r.Sources, func(s mirrors.PullSource) bool {
			return s.Tried() && s.Ref == l.Ref && s.Insecure == l.Insecure
		})
	})
}

// confirmations is how many rounds have to miss again what was copied before it counts as lost twice.
const confirmations = 2

// before says what is in the way for what was done before: the registry is stopped, or is to be, or what was
// copied is to be seen by a later round, or has failed.
func (h *Healer) before(l loss, s *state, began, now time.Time) (why reason, says string) {
	w, to := &h.work, l.copied.To
	host, id := hostOf(to), idOf(to)
	if at, ok := w.stops[host]; ok {
		return stopped, h.stoppedNote(host, at)
	}
	if at, ok := s.Stopped[host]; ok {
		return stopped, h.stoppedNote(host, at)
	}
	if healed := s.healedAt(to); !healed.IsZero() {
		w.missing[id]++
		if began.Before(w.done[id]) || began.Before(healed) {
			w.missing[id] = 0
		}
		if w.missing[id] < confirmations {
			return atOnce, ""
		}
		why := stop{At: now.UTC().Truncate(time.Second), Place: to.Ref, Copied: healed.UTC()}
		w.stops[host] = why
		h.record(auditv1alpha1.Healing{Result: Stopped, Registry: host, To: to.Ref, Image: l.Image.Ref, Reason: h.stoppedNote(host, why)})
		return stopped, h.stoppedNote(host, why)
	}
	if rest := w.restOf(host, to.Ref); now.Before(rest.until) {
		return rest.reason, "" // which was told
	}
	return none, ""
}

// stoppedNote says why nothing is copied to a registry, and how to go on.
func (h *Healer) stoppedNote(host string, s stop) string {
	return fmt.Sprintf("%s has lost %s again, which was copied back at %s: nothing more is copied there. "+
		"Find out what deletes images there; then: %s", host, s.Place, s.Copied.UTC().Format(time.RFC3339), h.toResume(host))
}

// fullNote says why nothing more is copied to any registry.
func (h *Healer) fullNote() string {
	return fmt.Sprintf("%d copies are remembered, which is the most. Find out what deletes images; then, with a registry or with %s for all: %s", maxHealed, everyRegistry, h.toResume(everyRegistry))
}

// toResume returns the command that lets a registry be copied to again.
func (h *Healer) toResume(host string) string {
	return fmt.Sprintf("oc annotate lease -n %s %s %s=%s", h.options.Lease.namespace, LeaseName, ResumeAnnotation, host)
}

// A rest is the time until something is tried again.
type rest struct {
	until  time.Time
	times  int
	reason reason
}

// How long the first rest is, and the longest. Each is twice the one before.
const (
	firstRest = time.Minute
	maxRest   = time.Hour
)

// work is what Run remembers.
type work struct {
	missing map[placeID]int       // rounds in a row that miss what was copied
	done    map[placeID]time.Time // when something was copied
	rests   map[string]rest       // of registries and of places
	told    map[string]string     // what was told of places last
	atOnce  map[string]int        // how many images are looked at together, by registry; 0 for imagesAtOnce
	stops   map[string]stop       // to be written down
	healed  []mirrors.Location    // likewise
	news    news                  // to be reported
}

func newWork() work {
	return work{missing: map[placeID]int{}, done: map[placeID]time.Time{}, rests: map[string]rest{}, told: map[string]string{}, atOnce: map[string]int{}, stops: map[string]stop{}}
}

// restOf returns the longest rest of a registry and a place in it.
func (w *work) restOf(host, place string) rest {
	if r := w.rests[host]; r.until.After(w.rests[place].until) {
		return r
	}
	return w.rests[place]
}

// fails has a registry or a place rest, longer each time.
func (w *work) fails(what string, why reason, now time.Time) {
	r := w.rests[what]
	r.until, r.reason = now.Add(min(maxRest, firstRest<<min(r.times, 10))), why
	r.times++
	w.rests[what] = r
}

// failures returns how often a place was to rest, since it is lost.
func (w *work) failures(to mirrors.Location) int { return w.rests[to.Ref].times }

// keepOnly forgets what is about places that are not lost any more.
func (w *work) keepOnly(lost []loss) {
	ids, refs := map[placeID]bool{}, map[string]bool{}
	for _, l := range lost {
		ids[idOf(l.copied.To)], refs[l.copied.To.Ref] = true, true
	}
	maps.DeleteFunc(w.missing, func(id placeID, _ int) bool { return !ids[id] })
	maps.DeleteFunc(w.done, func(id placeID, _ time.Time) bool { return !ids[id] })
	maps.DeleteFunc(w.told, func(ref, _ string) bool { return !refs[ref] })
	maps.DeleteFunc(w.rests, func(what string, _ rest) bool { return strings.Contains(what, "/") && !refs[what] })
}
