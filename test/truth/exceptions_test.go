package truth

import "github.com/mirrorset-guard/mirrorset-guard/policy"

// An exception is a difference between the guard and a runtime that has a reason
// and stays. docs/truth.md tells the reasons at length.
type exception struct {
	name string
	// covers recognises the difference by the place it comes from, so that nothing
	// else hides behind it.
	covers func(*scenario, verdict, result) bool
}

// taken covers a place that the guard says nodes take the image from, and where a
// runtime gets nothing and stops.
func taken(at state) func(*scenario, verdict, result) bool {
	return func(s *scenario, v verdict, got result) bool {
		return v.works() && !got.pulled && s.stateAt(v.from.Ref) == at && got.from == repositoryOf(v.from.Ref)
	}
}

// passed covers a place that the guard says nodes take the image from, and that a
// runtime passes by.
func passed(at state) func(*scenario, verdict, result) bool {
	return func(s *scenario, v verdict, got result) bool {
		return v.works() && s.stateAt(v.from.Ref) == at
	}
}

// missed covers a place that a runtime takes the image from, and of which the guard
// cannot say that.
func missed(at state) func(*scenario, verdict, result) bool {
	return func(s *scenario, v verdict, got result) bool {
		return got.pulled && s.stateAt(got.from) == at && (v.outcome == policy.Unsure || v.works())
	}
}

var exceptions = []exception{
	{"layers are not looked at", taken(hollow)},
	{"a manifest that HEAD shows is not read", taken(garbled)},
	{"GET refuses what HEAD shows", passed(headOnly)},
	{"an index without the node's architecture", taken(foreignOne)},
	{"a registry that is ill for a moment is asked again", passed(hiccup)},
	{"a registry that limits the rate for longer is given up", missed(overrun)},
	{"credentials are not sent along a redirect", func(s *scenario, v verdict, got result) bool {
		h, _ := s.find(got.from)
		return missed(moved)(s, v, got) && h.door != open
	}},
	{"the pod's own pull secret", func(s *scenario, v verdict, got result) bool {
		if s.podSecret == "" {
			return false
		}
		for _, name := range s.candidates() {
			if v.works() && hostOf(v.from.Ref) == hostOf(name) || got.pulled && hostOf(got.from) == hostOf(name) {
				return true
			}
		}
		return false
	}},
}
