package evidence

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// withSignatures returns f, which proves that the place has the image, as it counts once the
// signatures there are considered, and the state of the signatures of each instance. A node takes the
// first place that serves the manifest, looks for signatures there and nowhere else
// (appendSignaturesFromSigstoreAttachments in containers/image docker/docker_image_src.go), and tries
// no other place: a copy without its signature is worse than none. It looks for those of the very
// manifest that it runs; for an index, that of the instance for its platform.
func (s Step) withSignatures(f *policy.Fact, facts policy.Facts) (*policy.Fact, []SignatureState) {
	if !s.source().Attachments {
		return f.Stopped(policy.Unsigned, "nodes require a signature and, by registries.d, look for none there"), nil
	}
	instances, known := f.Runs()
	if !known {
		return &policy.SignaturesNotAsked, nil
	}
	states := make([]SignatureState, len(instances))
	worst := &SignatureState{Presence: policy.Present}
	for i, instance := range instances {
		states[i] = s.signaturesOf(instance, facts)
		if states[i].Presence > worst.Presence {
			worst = &states[i]
		}
	}
	if worst.Presence == policy.Present {
		return f, states
	}
	ofOthers := f.Guessed && len(f.Missing) > 0 // nodes may be of none of these platforms
	if s.before && (ofOthers || slices.ContainsFunc(states, SignatureState.mayBeAccepted)) {
		return f.Stopped(policy.Inconclusive, "nodes of some platforms may get it"), states // no proof that it fails today
	}
	return f.Stopped(worst.Presence, inWords(worst, states)), states
}

func (s SignatureState) mayBeAccepted() bool {
	return s.Presence == policy.Present || s.Presence == policy.Inconclusive
}

// inWords describes worst, and names the platforms whose instances are so.
func inWords(worst *SignatureState, states []SignatureState) string {
	var platforms []string
	for _, s := range states {
		if s.Presence == worst.Presence && s.Platform != "" {
			platforms = append(platforms, s.Platform)
		}
	}
	signatures := "its signatures"
	if len(platforms) > 0 {
		signatures = "the signatures of its part for " + strings.Join(platforms, ", ")
	}
	switch {
	case worst.awaited:
		return signatures + " were not looked up in time"
	case worst.Presence == policy.Unsigned && worst.Why == "" && len(platforms) > 0:
		return "there is no signature of its part for " + strings.Join(platforms, ", ")
	case worst.Presence == policy.Unsigned && worst.Why == "":
		return "there is no signature of it"
	case worst.Presence == policy.Unsigned:
		return "there is something where " + signatures + " should be, and no signature: " + worst.Why
	case worst.Presence == policy.SignaturesDenied, worst.Unreadable:
		return "nodes could not read " + signatures + ": " + worst.Why
	case worst.Presence == policy.Missigned:
		return "nodes would reject " + signatures + ": " + worst.Why
	default:
		return "whether nodes accept " + signatures + " was not determined: " + worst.Why
	}
}

// SignaturePlaces returns the locations where nodes look for the signatures of the manifests that f found
// at a place; none if it is not known which of them they would run.
func SignaturePlaces(s *mirrors.PullSource, f *policy.Fact) []mirrors.Location {
	var places []mirrors.Location
	instances, _ := f.Runs()
	for _, instance := range instances {
		if l, ok := s.Signatures(instance.Digest); ok {
			places = append(places, l)
		}
	}
	return places
}

// signaturesOf says whether nodes accept one instance of the image at the place.
func (s Step) signaturesOf(instance policy.Instance, facts policy.Facts) SignatureState {
	at := s.source()
	state := SignatureState{Instance: instance, Presence: policy.Present}
	var ok bool
	if state.At, ok = at.Signatures(instance.Digest); !ok {
		state.Unreadable = true
		return state.withPresence(policy.Missigned, fmt.Sprintf("no tag is long enough for its digest, %s", text.ShortDigest(instance.Digest)))
	}
	asked, known := facts[state.At]
	if !known || asked.Presence == policy.Unknown {
		state.awaited = true
		return state.withPresence(policy.Inconclusive, "")
	}
	found := s.prove(asked, facts)
	switch {
	case found.Presence == policy.Present && at.Trust != nil:
		return s.Judge(state, found)
	case found.Presence == policy.Present, asked.Presence == policy.Absent && at.Trust == nil: // whichever nodes are told, they go on
		return state
	case found.Presence == policy.Absent:
		return state.withPresence(policy.Unsigned, "")
	case found.Presence == policy.Denied:
		return state.withPresence(policy.SignaturesDenied, policy.Describe(found))
	case found.Presence == policy.Mismatch, found.Presence == policy.Incomplete:
		state.Unreadable = true
		return state.withPresence(policy.Missigned, policy.Describe(found))
	default:
		return state.withPresence(policy.Inconclusive, policy.Describe(found))
	}
}

// Judge returns state by what policy.json requires of the signatures that were found. On the
// old route, those that were found a while ago prove no failure: others may have come.
func (s Step) Judge(state SignatureState, found *policy.Fact) SignatureState {
	trust := s.source().Trust
	state.Judgement = found.Signatures.Judge(trust.Requirements, signing.Image{Reference: trust.Reference, Digest: state.Digest})
	switch reason := state.Judgement.Reason; state.Judgement.Outcome {
	case signing.Accepted:
		return state
	case signing.Undecided:
		state = state.withPresence(policy.Inconclusive, reason)
		if !s.Protected && !s.before {
			state.Presence = policy.Present // with a warning: see unjudgedSignature
		}
		return state
	case signing.Missing:
		state = state.withPresence(policy.Unsigned, reason)
	default:
		state = state.withPresence(policy.Missigned, reason)
	}
	if s.before && found.Recalled {
		state.Presence = policy.Inconclusive
	}
	return state
}

func (s SignatureState) withPresence(presence policy.Presence, why string) SignatureState {
	s.Presence, s.Why = presence, why
	return s
}

// A SignatureFinding is a SignatureState for people.
type SignatureFinding struct {
	policy.Instance
	// At is where nodes look for them, and State what they make of it, in a word: "accepted",
	// "missing", "rejected", "unreadable", "not required" or "unknown".
	At    mirrors.Location
	State string
	// Detail says why; "" where there is no more to say.
	Detail string
}

// SignaturesAt returns what facts say of the signatures that nodes look for at a place of a route:
// one finding for each instance that they could run, none where they look for none or where the
// image was not found.
func SignaturesAt(place mirrors.PullSource, facts policy.Facts) []SignatureFinding {
	f := new(Reroute).Counted(&place, facts.At(place.Location), facts)
	if f.Presence != policy.Present || !place.WantsSignatures() {
		return nil
	}
	asked := Step{Reroute: &Reroute{Protected: true}, Route: &mirrors.Route{Sources: []mirrors.PullSource{place}}}
	stopped, states := asked.withSignatures(f, facts)
	if len(states) == 0 {
		state := "missing"
		if stopped.Presence == policy.Inconclusive || stopped.Presence == policy.Unknown {
			state = "unknown"
		}
		return []SignatureFinding{{State: state, Detail: strings.TrimPrefix(stopped.Detail, "found; ")}}
	}
	findings := make([]SignatureFinding, len(states))
	for i, s := range states {
		findings[i] = SignatureFinding{Instance: s.Instance, At: s.At, State: s.word(place.Trust != nil), Detail: s.Why}
	}
	return findings
}

func (s SignatureState) word(required bool) string {
	switch {
	case s.awaited:
		return "unknown"
	case s.Presence == policy.Present && required:
		return "accepted"
	case s.Presence == policy.Present:
		return "not required"
	case s.Presence == policy.Unsigned:
		return "missing"
	case s.Presence == policy.SignaturesDenied, s.Unreadable:
		return "unreadable"
	case s.Presence == policy.Missigned:
		return "rejected"
	default:
		return "unknown"
	}
}
