package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

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
