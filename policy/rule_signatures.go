package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// SignatureMissing: the place from which nodes would take the image has none of the signatures
// that an image policy requires. Most tools that copy images leave them behind: they are images
// of their own, under tags that no reference names (sigstoreAttachmentTag in containers/image
// docker/docker_client.go).
func signatureMissing(a *assessment) (Finding, bool) {
	at, ok := a.stoppedBySignatures(Unsigned)
	if !ok {
		return Finding{}, false
	}
	f := Finding{
		Severity: a.unlessPartsBroken(at),
		Reason:   "nodes require a signature of it, and where they would pull it there is none",
		Detail:   slices.Concat(a.places(), a.requirement(at), a.unseenForms(at)),
		Copy:     a.copySignatures(at),
	}
	return f, true
}

// SignatureRejected: there are signatures where nodes would take the image, and they accept
// none of them, or there is something else in their place.
func signatureRejected(a *assessment) (Finding, bool) {
	at, ok := a.stoppedBySignatures(Missigned)
	if !ok {
		return Finding{}, false
	}
	f := Finding{
		Severity: a.unlessPartsBroken(at),
		Reason:   "nodes would reject it for its signatures where they would pull it",
		Detail:   slices.Concat(a.places(), a.requirement(at)),
		Copy:     a.copySignatures(at),
	}
	if remap := a.remapRemedy(at); remap != "" {
		f.Remedy = append(f.Remedy, remap)
	}
	return f, true
}

// SignatureUnreadable: nodes look for signatures where they would take the image, and the
// registry does not let them, or it could not be determined what they would find. They do so
// wherever registries.d says so, even where no policy requires a signature, and a place that
// cannot be read for them ends the pull.
func signatureUnreadable(a *assessment) (Finding, bool) {
	if at, ok := a.stoppedBySignatures(SignaturesDenied); ok {
		return Finding{
			Severity: a.unlessPartsBroken(at),
			Reason:   "nodes could not read its signatures where they would pull it, and would stop there",
			Detail:   slices.Concat(a.places(), a.requirement(at)),
			Remedy:   []string{fmt.Sprintf("let nodes read the tags sha256-*.sig of %s", repository(at.Ref))},
		}, true
	}
	at, ok := a.stopAt(Inconclusive)
	ofSignatures := at.fact == &signaturesNotAsked || slices.ContainsFunc(at.signatures, func(s signatureState) bool { return s.presence == Inconclusive })
	if ok && ofSignatures && a.after == Unsure {
		return Finding{
			Severity: a.unlessPartsBroken(at),
			Reason:   "it could not be determined whether nodes accept its signatures where they would pull it",
			Detail:   slices.Concat(a.places(), a.requirement(at)),
			Remedy:   a.verifyRemedy(),
		}, true
	}
	return a.unjudgedSignature()
}

// unjudgedSignature warns where nodes require something of signatures that is not verified here.
func (a *assessment) unjudgedSignature() (Finding, bool) {
	at, ok := a.newRoute.served()
	if !ok {
		return Finding{}, false
	}
	for _, s := range at.signatures {
		if s.presence == Present && s.why != "" {
			return Finding{
				Severity: Warn,
				Reason:   "whether nodes accept its signatures was not verified",
				Detail:   slices.Concat([]string{text.ShortDigest(at.Ref) + ": " + s.why}, a.requirement(at)),
				Remedy:   []string{"try a pull on a node that has the change"},
			}, true
		}
	}
	return Finding{}, false
}

// unlessPartsBroken is unlessBroken for what signatures at a place stop.
func (a *assessment) unlessPartsBroken(at place) Severity {
	return denyUnless(a.failsToday(), a.noWorse(), a.partsFailToday(at))
}

// stoppedBySignatures returns the place at which the pull fails for signatures with Presence p.
func (a *assessment) stoppedBySignatures(p Presence) (place, bool) {
	if a.After.Err != nil || a.after != Fails {
		return place{}, false
	}
	return a.stopAt(p)
}

// stopAt returns the first place at which nodes would meet p.
func (a *assessment) stopAt(p Presence) (place, bool) {
	for _, at := range a.newRoute.open() {
		if at.fact.Presence == p {
			return at, true
		}
	}
	return place{}, false
}

// requirement names the policy that requires a signature; nil if none does.
func (a *assessment) requirement(at place) []string {
	if at.Trust == nil {
		return []string{"no policy requires a signature of it; nodes look for signatures there because of registries.d"}
	}
	return []string{"required by " + at.Trust.Origin(maxConsumers)}
}

// unseenForms says that an image without signatures for nodes is signed in a way that they do
// not know.
func (a *assessment) unseenForms(at place) []string {
	for _, s := range at.signatures {
		if f := a.found.At(at.Referrers(s.Digest)); s.presence == Unsigned && f.Presence == Present {
			return []string{"it is signed there, but only as " + f.Detail + ", which nodes do not look for"}
		}
	}
	return nil
}

// signedElsewhere returns where the signatures of an instance are that nodes would accept at
// the place at.
func (a *assessment) signedElsewhere(at place, instance Instance) (mirrors.Location, bool) {
	for _, other := range slices.Concat(a.newRoute.open(), a.oldRoute.open()) {
		from, ok := other.Signatures(instance.Digest)
		f := a.found.At(from)
		if !ok || f.Presence != Present || other.Location == at.Location {
			continue
		}
		if at.Trust == nil {
			return from, true
		}
		there := step{Reroute: a.Reroute, route: &mirrors.Route{Sources: []mirrors.PullSource{*at.PullSource}}}
		if there.judge(signatureState{Instance: instance, presence: Present}, f).presence == Present {
			return from, true
		}
	}
	return mirrors.Location{}, false
}

// remapRemedy says how the policy would accept signatures for which only the name is in the
// way; "" if something else is.
func (a *assessment) remapRemedy(at place) string {
	if at.Trust == nil || len(at.Trust.Policies) == 0 {
		return ""
	}
	var signedAs string
	for _, s := range at.signatures {
		if s.presence == Present {
			continue
		}
		if s.judgement.SignedAs == "" || signedAs != "" && signedAs != s.judgement.SignedAs {
			return ""
		}
		signedAs = s.judgement.SignedAs
	}
	if signedAs == "" {
		return ""
	}
	identity := signing.IdentityFor(at.Trust.Reference, signedAs)
	if identity == "" {
		return ""
	}
	return fmt.Sprintf("or, as the signature there names %s, and if that is meant, set signedIdentity of %s to %s", signedAs, strings.Join(at.Trust.Policies, " and "), identity)
}
