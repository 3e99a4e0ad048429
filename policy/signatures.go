package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// withSignatures returns f, which proves that the place has the image, as it counts once the
// signatures there are considered, and the state of the signatures of each instance. A node takes the
// first place that serves the manifest, looks for signatures there and nowhere else
// (appendSignaturesFromSigstoreAttachments in containers/image docker/docker_image_src.go), and tries
// no other place: a copy without its signature is worse than none. It looks for those of the very
// manifest that it runs; for an index, that of the instance for its platform.
func (s step) withSignatures(f *Fact, facts Facts) (*Fact, []signatureState) {
	if !s.source().Attachments {
		return f.stopped(Unsigned, "nodes require a signature and, by registries.d, look for none there"), nil
	}
	instances, known := f.Runs()
	if !known {
		return &signaturesNotAsked, nil
	}
	states := make([]signatureState, len(instances))
	worst := &signatureState{presence: Present}
	for i, instance := range instances {
		states[i] = s.signaturesOf(instance, facts)
		if states[i].presence > worst.presence {
			worst = &states[i]
		}
	}
	if worst.presence == Present {
		return f, states
	}
	ofOthers := f.Guessed && len(f.Missing) > 0 // nodes may be of none of these platforms
	if s.before && (ofOthers || slices.ContainsFunc(states, func(s signatureState) bool { return s.presence == Present })) {
		return f.stopped(Inconclusive, "nodes of some platforms get it"), states // no proof that it fails today
	}
	return f.stopped(worst.presence, inWords(worst, states)), states
}

// stopped returns f with what its signatures make of it.
func (f *Fact) stopped(presence Presence, detail string) *Fact {
	of := *f
	of.Presence, of.Detail = presence, "found; "+detail
	return &of
}

// inWords describes worst, and names the platforms whose instances are so.
func inWords(worst *signatureState, states []signatureState) string {
	var platforms []string
	for _, s := range states {
		if s.presence == worst.presence && s.Platform != "" {
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
	case worst.presence == Unsigned && worst.why == "" && len(platforms) > 0:
		return "there is no signature of its part for " + strings.Join(platforms, ", ")
	case worst.presence == Unsigned && worst.why == "":
		return "there is no signature of it"
	case worst.presence == Unsigned:
		return "there is something where " + signatures + " should be, and no signature: " + worst.why
	case worst.presence == SignaturesDenied, worst.unreadable:
		return "nodes could not read " + signatures + ": " + worst.why
	case worst.presence == Missigned:
		return "nodes would reject " + signatures + ": " + worst.why
	default:
		return "whether nodes accept " + signatures + " was not determined: " + worst.why
	}
}

// signaturePlaces returns the locations where nodes look for the signatures of the manifests that f found
// at a place; none if it is not known which of them they would run.
func signaturePlaces(s *mirrors.PullSource, f *Fact) []mirrors.Location {
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
func (s step) signaturesOf(instance Instance, facts Facts) signatureState {
	at := s.source()
	state := signatureState{Instance: instance, presence: Present}
	var ok bool
	if state.at, ok = at.Signatures(instance.Digest); !ok {
		state.unreadable = true
		return state.withPresence(Missigned, fmt.Sprintf("no tag is long enough for its digest, %s", text.ShortDigest(instance.Digest)))
	}
	asked, known := facts[state.at]
	if !known || asked.Presence == Unknown {
		state.awaited = true
		return state.withPresence(Inconclusive, "")
	}
	found := s.prove(asked, facts)
	switch {
	case found.Presence == Present && at.Trust != nil:
		return s.judge(state, found)
	case found.Presence == Present, asked.Presence == Absent && at.Trust == nil: // whichever nodes are told, they go on
		return state
	case found.Presence == Absent:
		return state.withPresence(Unsigned, "")
	case found.Presence == Denied:
		return state.withPresence(SignaturesDenied, describe(found))
	case found.Presence == Mismatch, found.Presence == Incomplete:
		state.unreadable = true
		return state.withPresence(Missigned, describe(found))
	default:
		return state.withPresence(Inconclusive, describe(found))
	}
}

// judge returns state by what policy.json requires of the signatures that were found. On the
// old route, those that were found a while ago prove no failure: others may have come.
func (s step) judge(state signatureState, found *Fact) signatureState {
	trust := s.source().Trust
	state.judgement = found.Signatures.Judge(trust.Requirements, signing.Image{Reference: trust.Reference, Digest: state.Digest})
	switch reason := state.judgement.Reason; state.judgement.Outcome {
	case signing.Accepted:
		return state
	case signing.Undecided:
		state = state.withPresence(Inconclusive, reason)
		if !s.protected && !s.before {
			state.presence = Present // with a warning: see unjudgedSignature
		}
		return state
	case signing.Missing:
		state = state.withPresence(Unsigned, reason)
	default:
		state = state.withPresence(Missigned, reason)
	}
	if s.before && found.Recalled {
		state.presence = Inconclusive
	}
	return state
}

func (s signatureState) withPresence(presence Presence, why string) signatureState {
	s.presence, s.why = presence, why
	return s
}

func tagOf(l mirrors.Location) string { return l.Ref[strings.LastIndexByte(l.Ref, ':')+1:] }

// A SignatureFinding is a signatureState for people.
type SignatureFinding struct {
	Instance
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
func SignaturesAt(place mirrors.PullSource, facts Facts) []SignatureFinding {
	f := new(Reroute).counted(&place, facts.At(place.Location), facts)
	if f.Presence != Present || !place.WantsSignatures() {
		return nil
	}
	asked := step{Reroute: &Reroute{protected: true}, route: &mirrors.Route{Sources: []mirrors.PullSource{place}}}
	stopped, states := asked.withSignatures(f, facts)
	if len(states) == 0 {
		state := "missing"
		if stopped.Presence == Inconclusive || stopped.Presence == Unknown {
			state = "unknown"
		}
		return []SignatureFinding{{State: state, Detail: strings.TrimPrefix(stopped.Detail, "found; ")}}
	}
	findings := make([]SignatureFinding, len(states))
	for i, s := range states {
		findings[i] = SignatureFinding{Instance: s.Instance, At: s.at, State: s.word(place.Trust != nil), Detail: s.why}
	}
	return findings
}

// SignatureLookups returns where the findings of SignaturesAt are to be had that facts do not yet
// allow.
func SignatureLookups(place mirrors.PullSource, facts Facts) []mirrors.Location {
	q := lookups{facts: facts}
	q.askSignatures(&Reroute{}, &mirrors.Route{Sources: []mirrors.PullSource{place}}, true)
	return q.list
}

func (s signatureState) word(required bool) string {
	switch {
	case s.awaited:
		return "unknown"
	case s.presence == Present && required:
		return "accepted"
	case s.presence == Present:
		return "not required"
	case s.presence == Unsigned:
		return "missing"
	case s.presence == SignaturesDenied, s.unreadable:
		return "unreadable"
	case s.presence == Missigned:
		return "rejected"
	default:
		return "unknown"
	}
}
