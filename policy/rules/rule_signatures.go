package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// SignatureMissing: the place from which nodes would take the image has none of the signatures
// that an image policy requires. Most tools that copy images leave them behind: they are images
// of their own, under tags that no reference names (sigstoreAttachmentTag in containers/image
// docker/docker_client.go).
func signatureMissing(a *evidence.Case) (policy.Finding, bool) {
	at, ok := stoppedBySignatures(a, policy.Unsigned)
	if !ok {
		return policy.Finding{}, false
	}
	f := policy.Finding{
		Severity: unlessPartsBroken(a, at),
		Reason:   "nodes require a signature of it, and where they would pull it there is none",
		Detail:   slices.Concat(a.Places(), requirement(a, at), unseenForms(a, at)),
		Copy:     copySignatures(a, at),
	}
	return f, true
}

// SignatureRejected: there are signatures where nodes would take the image, and they accept
// none of them, or there is something else in their place.
func signatureRejected(a *evidence.Case) (policy.Finding, bool) {
	at, ok := stoppedBySignatures(a, policy.Missigned)
	if !ok {
		return policy.Finding{}, false
	}
	f := policy.Finding{
		Severity: unlessPartsBroken(a, at),
		Reason:   "nodes would reject it for its signatures where they would pull it",
		Detail:   slices.Concat(a.Places(), requirement(a, at)),
		Copy:     copySignatures(a, at),
	}
	if remap := remapRemedy(a, at); remap != "" {
		f.Remedy = append(f.Remedy, remap)
	}
	return f, true
}

// SignatureUnreadable: nodes look for signatures where they would take the image, and the
// registry does not let them, or it could not be determined what they would find. They do so
// wherever registries.d says so, even where no policy requires a signature, and a place that
// cannot be read for them ends the pull.
func signatureUnreadable(a *evidence.Case) (policy.Finding, bool) {
	if at, ok := stoppedBySignatures(a, policy.SignaturesDenied); ok {
		return policy.Finding{
			Severity: unlessPartsBroken(a, at),
			Reason:   "nodes could not read its signatures where they would pull it, and would stop there",
			Detail:   slices.Concat(a.Places(), requirement(a, at)),
			Remedy:   []string{fmt.Sprintf("let nodes read the tags sha256-*.sig of %s", policy.Repository(at.Ref))},
		}, true
	}
	at, ok := stopAt(a, policy.Inconclusive)
	ofSignatures := at.Fact == &policy.SignaturesNotAsked || slices.ContainsFunc(at.SignatureStates, func(s evidence.SignatureState) bool { return s.Presence == policy.Inconclusive })
	if ok && ofSignatures && a.OutcomeAfter == evidence.Unsure {
		return policy.Finding{
			Severity: unlessPartsBroken(a, at),
			Reason:   "it could not be determined whether nodes accept its signatures where they would pull it",
			Detail:   slices.Concat(a.Places(), requirement(a, at)),
			Remedy:   a.VerifyRemedy(),
		}, true
	}
	return unjudgedSignature(a)
}

// unjudgedSignature warns where nodes require something of signatures that is not verified here.
func unjudgedSignature(a *evidence.Case) (policy.Finding, bool) {
	at, ok := a.NewRoute.Served()
	if !ok {
		return policy.Finding{}, false
	}
	for _, s := range at.SignatureStates {
		if s.Presence == policy.Present && s.Why != "" {
			return policy.Finding{
				Severity: policy.Warn,
				Reason:   "whether nodes accept its signatures was not verified",
				Detail:   slices.Concat([]string{text.ShortDigest(at.Ref) + ": " + s.Why}, requirement(a, at)),
				Remedy:   []string{"try a pull on a node that has the change"},
			}, true
		}
	}
	return policy.Finding{}, false
}

// unlessPartsBroken is UnlessBroken for what signatures at a place stop.
func unlessPartsBroken(a *evidence.Case, at evidence.Place) policy.Severity {
	return evidence.DenyUnless(a.FailsToday(), a.NoWorse(), a.PartsFailToday(at))
}

// stoppedBySignatures returns the place at which the pull fails for signatures with Presence p.
func stoppedBySignatures(a *evidence.Case, p policy.Presence) (evidence.Place, bool) {
	if a.After.Err != nil || a.OutcomeAfter != evidence.Fails {
		return evidence.Place{}, false
	}
	return stopAt(a, p)
}

// stopAt returns the first place at which nodes would meet p.
func stopAt(a *evidence.Case, p policy.Presence) (evidence.Place, bool) {
	for _, at := range a.NewRoute.OpenPlaces() {
		if at.Fact.Presence == p {
			return at, true
		}
	}
	return evidence.Place{}, false
}

// requirement names the policy that requires a signature; nil if none does.
func requirement(a *evidence.Case, at evidence.Place) []string {
	if at.Trust == nil {
		return []string{"no policy requires a signature of it; nodes look for signatures there because of registries.d"}
	}
	return []string{"required by " + at.Trust.Origin(policy.MaxConsumers)}
}

// unseenForms says that an image without signatures for nodes is signed in a way that they do
// not know.
func unseenForms(a *evidence.Case, at evidence.Place) []string {
	for _, s := range at.SignatureStates {
		if f := a.Found.At(at.Referrers(s.Digest)); s.Presence == policy.Unsigned && f.Presence == policy.Present {
			return []string{"it is signed there, but only as " + f.Detail + ", which nodes do not look for"}
		}
	}
	return nil
}

// remapRemedy says how the policy would accept signatures for which only the name is in the
// way; "" if something else is.
func remapRemedy(a *evidence.Case, at evidence.Place) string {
	if at.Trust == nil || len(at.Trust.Policies) == 0 {
		return ""
	}
	var signedAs string
	for _, s := range at.SignatureStates {
		if s.Presence == policy.Present {
			continue
		}
		if s.Judgement.SignedAs == "" || signedAs != "" && signedAs != s.Judgement.SignedAs {
			return ""
		}
		signedAs = s.Judgement.SignedAs
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
