package truth

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
)

// An exception is a difference between the guard and a runtime that has a reason
// and stays. docs/truth.md gives the reasons.
type exception struct {
	name string
	// covers recognizes the difference by the place it comes from, so that nothing
	// else hides behind it.
	covers func(*scenario, verdict, result) bool
}

var exceptions = []exception{
	{"layers are not looked at", func(s *scenario, v verdict, got result) bool {
		return !s.blobs && (taken(hollow)(s, v, got) || taken(hollowHere)(s, v, got))
	}},
	{"a registry that is ill for a moment is asked again", passed(hiccup)},
	{"a registry that limits the rate for longer is given up", missed(overrun)},
	{"redirects to plain http are not followed", missed(movedAway)},
	{"a token server without TLS is not asked", func(s *scenario, v verdict, got result) bool {
		return s.tokenInClear(v, got) && v.outcome != evidence.Fails
	}},
	{"the pod's own pull secret", func(s *scenario, v verdict, got result) bool {
		locked := func(name string) bool {
			h, _ := s.find(name)
			closed := h != nil && (h.door != open || slices.Contains(s.unusable, h.addr))
			return closed && slices.ContainsFunc(s.candidates(), func(c string) bool { return hostOf(c) == h.addr })
		}
		// If the source is among its own mirrors, nodes may be let in at a place in front.
		front := slices.Index(v.places, got.from)
		inFront := v.works() && front >= 0 && front < slices.Index(v.places, repositoryOf(v.from.Ref))
		return s.podSecret != "" && (v.works() && locked(repositoryOf(v.from.Ref)) || (got.pulled || inFront) && locked(got.from))
	}},
}

// faults are differences in which the guard is wrong. Each has to be fixed and then
// removed from the list.
var faults []exception

// taken covers a place from which the guard says nodes take the image, and where a
// runtime gets nothing. That ends the pull, unless the name is short.
func taken(at state) func(*scenario, verdict, result) bool {
	return func(s *scenario, v verdict, got result) bool {
		stopped := !got.pulled && got.from == repositoryOf(v.from.Ref)
		return v.works() && s.stateAt(v.from.Ref) == at && (stopped || s.short())
	}
}

// passed covers a place from which the guard says nodes take the image, and which a
// runtime skips.
func passed(at state) func(*scenario, verdict, result) bool {
	return func(s *scenario, v verdict, _ result) bool {
		return v.works() && s.stateAt(v.from.Ref) == at
	}
}

// missed covers a place from which a runtime takes the image, and which the guard asked
// in vain.
func missed(at state) func(*scenario, verdict, result) bool {
	return func(s *scenario, v verdict, got result) bool {
		return got.pulled && s.stateAt(got.from) == at && slices.Contains(v.places, got.from)
	}
}

// tokenInClear covers a registry whose token server has no TLS, and which therefore
// gets no password from the guard: a runtime finds out what it holds.
func (s *scenario) tokenInClear(v verdict, got result) bool {
	h, _ := s.find(got.from)
	return h != nil && h.door == bearerClear && slices.Contains(v.places, got.from)
}
