package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containers/image/v5/docker/reference"
)

// errUndecided is wrapped by errors which say that nodes may decide otherwise, as they know
// more.
var errUndecided = errors.New("not verified")

// judge says whether an image with these layers satisfies r (IsRunningImageAllowed).
func (r *Requirements) judge(layers []Signature, image Image, at time.Time) Judgement {
	if len(r.list) == 0 {
		return Judgement{Outcome: Rejected, Reason: "List of verification policy requirements must not be empty"}
	}
	worst := Judgement{Outcome: Accepted}
	for i := range r.list {
		switch d := r.list[i].judge(layers, image, at); d.Outcome {
		case Missing, Rejected:
			return d
		case Undecided:
			worst = d
		}
	}
	return worst
}

func (r *Requirement) judge(layers []Signature, image Image, at time.Time) Judgement {
	switch r.Type {
	case AcceptAnything:
		return Judgement{Outcome: Accepted}
	case Reject:
		return Judgement{Outcome: Rejected, Reason: "Running image is rejected by policy."}
	case SigstoreSigned:
		return r.judgeSigned(layers, image, at)
	default:
		return Judgement{Reason: "policy.json asks for " + r.Type}
	}
}

// none is the judgement on an image without signatures.
func none(others int) Judgement {
	if others == 0 {
		return Judgement{Outcome: Missing, Reason: "A signature was required, but no signature exists"}
	}
	return Judgement{Outcome: Missing, Reason: fmt.Sprintf(
		"A signature was required, but no signature exists (0 non-sigstore signatures, %d sigstore non-signature attachments)", others)}
}

// judgeSigned restates isRunningImageAllowed of prSigstoreSigned: one signature that is accepted
// is enough.
func (r *Requirement) judgeSigned(layers []Signature, image Image, at time.Time) Judgement {
	var reasons []string
	others, undecided, signedAs := 0, false, ""
	for i := range layers {
		if layers[i].MediaType != MediaType {
			others++
			continue
		}
		err := r.accepts(&layers[i], image, at)
		if err == nil {
			return Judgement{Outcome: Accepted}
		}
		undecided = undecided || errors.Is(err, errUndecided)
		if other := (*identityError)(nil); errors.As(err, &other) {
			signedAs = other.signed
		}
		reasons = append(reasons, err.Error())
	}
	outcome := Rejected
	if undecided {
		outcome = Undecided
	}
	switch len(reasons) {
	case 0:
		return none(others)
	case 1:
		return Judgement{outcome, reasons[0], signedAs}
	default:
		return Judgement{outcome, "None of the signatures were accepted, reasons: " + strings.Join(reasons, "; "), signedAs}
	}
}

// An identityError is the error of a valid signature for another image.
type identityError struct{ signed string }

func (e *identityError) Error() string {
	return fmt.Sprintf("Signature for identity %q is not accepted", e.signed)
}

// accepts restates isSignatureAccepted of prSigstoreSigned. The error says why nodes do not
// accept s.
func (r *Requirement) accepts(s *Signature, image Image, at time.Time) error {
	root, err := r.root()
	if err != nil {
		return err
	}
	signed, err := s.annotation(SignatureAnnotation)
	if err != nil {
		return err
	}
	keys, err := root.keysFor(s, signed, at)
	if err != nil {
		return err
	}
	signature, err := base64.StdEncoding.DecodeString(signed)
	if err != nil {
		return fmt.Errorf("base64 decoding: %w", err)
	}
	if err := verify(keys, s.Payload, signature); err != nil {
		return err
	}
	p, err := readPayload(s.Payload)
	if err != nil {
		return err
	}
	if err := p.isFor(image.Digest); err != nil {
		return err
	}
	if !r.identity().matches(image.Reference, p.reference) {
		return &identityError{p.reference}
	}
	return nil
}

func (r *Requirement) identity() Identity {
	if r.SignedIdentity == nil {
		return Identity{Type: matchRepoDigestOrExact}
	}
	return *r.SignedIdentity
}

// verify reports as an error that none of keys has signed payload
// (verifySigstorePayloadBlobSignature). A key that cannot be used counts against all.
func verify(keys []crypto.PublicKey, payload, signature []byte) error {
	sum := sha256.Sum256(payload)
	var failures []string
	accepted := false
	for _, key := range keys {
		var err error
		switch key := key.(type) {
		case *rsa.PublicKey:
			err = rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature)
		case *ecdsa.PublicKey:
			if !ecdsa.VerifyASN1(key, sum[:], signature) {
				err = errors.New("invalid signature when validating ASN.1 encoded signature")
			}
		case ed25519.PublicKey:
			if !ed25519.Verify(key, payload, signature) {
				err = errors.New("failed to verify signature")
			}
		default:
			return errors.New("unsupported public key type")
		}
		if err == nil {
			accepted = true
			continue
		}
		failures = append(failures, err.Error())
	}
	if !accepted {
		return fmt.Errorf("cryptographic signature verification failed: %s", strings.Join(failures, ", "))
	}
	return nil
}

// parseKey reads a public key as sigstore does (cryptoutils.UnmarshalPEMToPublicKey).
func parseKey(data []byte) (crypto.PublicKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("PEM decoding failed")
	}
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		return nil, fmt.Errorf("unknown Public key PEM file type: %v. Are you passing the correct public key?", block.Type)
	}
}

// matches reports whether a signature that names signed is one for image
// (containers/image signature/policy_reference_match.go).
func (id Identity) matches(image, signed string) bool {
	name, err := reference.ParseNormalizedNamed(signed)
	if err != nil {
		return false
	}
	wanted := image
	switch id.Type {
	case exactReference:
		wanted = id.DockerReference
	case exactRepository:
		wanted = id.DockerRepository
	}
	intended, err := reference.ParseNormalizedNamed(wanted)
	if err != nil {
		return false
	}
	switch id.Type {
	case matchExact, exactReference:
		return !reference.IsNameOnly(intended) && !reference.IsNameOnly(name) && intended.String() == name.String()
	case matchRepository, exactRepository:
		return intended.Name() == name.Name()
	case remapIdentity:
		if intended, err = id.remap(intended); err != nil {
			return false
		}
		return isRepoDigestOrExact(intended, name)
	case matchRepoDigestOrExact:
		return isRepoDigestOrExact(intended, name)
	default:
		return false
	}
}

// IdentityFor returns the signedIdentity of an image policy by which nodes accept, for image,
// signatures that name signed: as YAML, in one line; "" if there is none.
func IdentityFor(image, signed string) string {
	named, err := reference.ParseNormalizedNamed(signed)
	if err != nil {
		return ""
	}
	wanted, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	remap := Identity{Type: remapIdentity, Prefix: wanted.Name(), SignedPrefix: named.Name()}
	switch {
	case wanted.Name() == named.Name():
		return "{matchPolicy: MatchRepository}"
	case remap.matches(image, signed):
		return fmt.Sprintf("{matchPolicy: RemapIdentity, remapIdentity: {prefix: %s, signedPrefix: %s}}", remap.Prefix, remap.SignedPrefix)
	default:
		return fmt.Sprintf("{matchPolicy: ExactRepository, exactRepository: {repository: %s}}", named.Name())
	}
}

// isRepoDigestOrExact restates matchRepoDigestOrExactReferenceValues: a signature has to carry
// a tag or a digest. For an image by tag, it has to be the same reference; for one by digest, the
// digest is compared with that of the payload.
func isRepoDigestOrExact(intended, signed reference.Named) bool {
	if reference.IsNameOnly(signed) {
		return false
	}
	switch intended.(type) {
	case reference.NamedTagged:
		return signed.String() == intended.String()
	case reference.Canonical:
		return signed.Name() == intended.Name()
	default:
		return false
	}
}

// remap restates remapReferencePrefix: it replaces the prefix of a name that has it.
func (id Identity) remap(name reference.Named) (reference.Named, error) {
	rest, ok := strings.CutPrefix(name.Name(), id.Prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return name, nil
	}
	return reference.ParseNamed(strings.Replace(name.String(), id.Prefix, id.SignedPrefix, 1))
}
