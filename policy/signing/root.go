package signing

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A root is the trusted end of a requirement: keys, or authorities.
type root struct {
	keys   []crypto.PublicKey
	rekor  rekorKeys
	fulcio *authority
	pki    *authority
}

// An authority is one whose certificates are accepted for a subject.
type authority struct {
	roots, intermediates *x509.CertPool
	issuer               string // by OIDC; of Fulcio only
	email, hostname      string
}

// root reads what r trusts (prepareTrustRoot). Nodes do so for each signature, and reject it for
// the fault that they find in a key.
func (r *Requirement) root() (*root, error) {
	if r.hasPaths() {
		return nil, fmt.Errorf("%w: its keys are files on the nodes", errUndecided)
	}
	t := &root{}
	for i, data := range oneOrMany(r.KeyData, r.KeyDatas) {
		key, err := parseKey(data)
		if err != nil {
			return nil, fmt.Errorf("parsing public key %d: %w", i+1, err)
		}
		t.keys = append(t.keys, key)
	}
	for i, data := range oneOrMany(r.RekorPublicKeyData, r.RekorPublicKeyDatas) {
		key, err := parseKey(data)
		if err != nil {
			return nil, fmt.Errorf("parsing Rekor public key %d: %w", i+1, err)
		}
		ofRekor, ok := key.(*ecdsa.PublicKey)
		if !ok {
			return nil, fmt.Errorf("Rekor public key %d is not using ECDSA", i+1)
		}
		t.rekor = append(t.rekor, ofRekor)
	}
	var err error
	switch {
	case r.Fulcio != nil:
		t.fulcio, err = r.Fulcio.authority()
	case r.PKI != nil:
		t.pki, err = r.PKI.authority()
	}
	return t, err
}

func (r *Requirement) hasPaths() bool {
	return r.KeyPath != "" || len(r.KeyPaths) > 0 || r.RekorPublicKeyPath != "" || len(r.RekorPublicKeyPaths) > 0 ||
		r.Fulcio != nil && r.Fulcio.CAPath != "" || r.PKI != nil && (r.PKI.CARootsPath != "" || r.PKI.CAIntermediatesPath != "")
}

func oneOrMany(one []byte, many [][]byte) [][]byte {
	if one != nil {
		return [][]byte{one}
	}
	return many
}

func (f *Fulcio) authority() (*authority, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(f.CAData) {
		return nil, errors.New("error loading Fulcio CA certificates")
	}
	return &authority{roots: roots, issuer: f.OIDCIssuer, email: f.SubjectEmail}, nil
}

func (p *PKI) authority() (*authority, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(p.CARootsData) {
		return nil, errors.New("error loading PKI CA Roots certificates")
	}
	a := &authority{roots: roots, email: p.SubjectEmail, hostname: p.SubjectHostname, intermediates: x509.NewCertPool()}
	if p.CAIntermediatesData != nil {
		trusted, err := parseCertificates(p.CAIntermediatesData)
		if err != nil {
			return nil, fmt.Errorf("loading trusted intermediate certificates: %w", err)
		}
		for _, c := range trusted {
			a.intermediates.AddCert(c)
		}
	}
	return a, nil
}

// keysFor returns the keys; one of them must have signed s, whose signature is signed
// (isSignatureAccepted).
func (t *root) keysFor(s *Signature, signed string, at time.Time) ([]crypto.PublicKey, error) {
	switch {
	case t.fulcio != nil:
		return t.keyOfFulcio(s, signed)
	case t.pki != nil:
		return t.keyOfPKI(s, at)
	case len(t.keys) == 0:
		return nil, fmt.Errorf("%w: the policy names no key", errUndecided)
	case len(t.rekor) > 0:
		return t.loggedKeys(s, signed)
	default:
		return t.keys, nil
	}
}

// loggedKeys returns the key with which Rekor has logged s.
func (t *root) loggedKeys(s *Signature, signed string) ([]crypto.PublicKey, error) {
	set, err := s.annotation(SETAnnotation)
	if err != nil {
		return nil, err
	}
	var failures []string
	for _, key := range t.keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, err
		}
		if _, err = t.rekor.verifySET([]byte(set), der, signed, s.Payload); err == nil {
			return []crypto.PublicKey{key}, nil
		}
		failures = append(failures, err.Error())
	}
	return nil, fmt.Errorf("No public key verified against the RekorSET: %s", strings.Join(failures, ", "))
}

// keyOfFulcio returns the key in the certificate of s, which has to be valid at the time at
// which Rekor has logged s (verifyRekorFulcio).
func (t *root) keyOfFulcio(s *Signature, signed string) ([]crypto.PublicKey, error) {
	set, err := s.annotation(SETAnnotation)
	if err != nil {
		return nil, err
	}
	text, err := s.annotation(CertificateAnnotation)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || len(rest) > 0 {
		return nil, errors.New("public key or cert to be matched against publicKey in Rekor SET is not in PEM format")
	}
	logged, err := t.rekor.verifySET([]byte(set), block.Bytes, signed, s.Payload)
	if err != nil {
		return nil, err
	}
	leaf, err := t.fulcio.verify(s, logged, nil)
	if err != nil {
		return nil, err
	}
	issuer, err := issuerOf(leaf)
	if err != nil {
		return nil, err
	}
	if issuer != t.fulcio.issuer {
		return nil, fmt.Errorf("Unexpected Fulcio OIDC issuer %q", issuer)
	}
	if err := t.fulcio.checkEmail(leaf); err != nil {
		return nil, err
	}
	return []crypto.PublicKey{leaf.PublicKey}, nil
}

// keyOfPKI returns the key in the certificate of s (verifyPKI).
func (t *root) keyOfPKI(s *Signature, at time.Time) ([]crypto.PublicKey, error) {
	if _, err := s.annotation(CertificateAnnotation); err != nil {
		return nil, err
	}
	if at.IsZero() { // by which crypto/x509 would mean the present
		return nil, fmt.Errorf("%w: it is not known when the signature was read", errUndecided)
	}
	leaf, err := t.pki.verify(s, at, t.pki.intermediates.Clone())
	if err != nil {
		return nil, err
	}
	if t.pki.email != "" {
		if err := t.pki.checkEmail(leaf); err != nil {
			return nil, err
		}
	}
	if t.pki.hostname != "" {
		if err := leaf.VerifyHostname(t.pki.hostname); err != nil {
			return nil, fmt.Errorf("Unexpected subject hostname: %w", err)
		}
	}
	return []crypto.PublicKey{leaf.PublicKey}, nil
}

func (a *authority) checkEmail(leaf *x509.Certificate) error {
	if !slices.Contains(leaf.EmailAddresses, a.email) {
		return fmt.Errorf("Required email %q not found (got %q)", a.email, leaf.EmailAddresses)
	}
	return nil
}

// sanOID is that of subject alternative names. Go rejects a certificate whose names are of no
// kind that it knows; those of Fulcio may be, and are compared here.
var sanOID = asn1.ObjectIdentifier{2, 5, 29, 17}

// verify returns the certificate of s if a vouches for it at the given time. The last of the
// chain that comes with it is a root, which nodes leave out.
func (a *authority) verify(s *Signature, at time.Time, intermediates *x509.CertPool) (*x509.Certificate, error) {
	if chain := s.Annotations[ChainAnnotation]; chain != "" {
		certificates, err := parseCertificates([]byte(chain))
		if err != nil {
			return nil, fmt.Errorf("loading certificate chain: %w", err)
		}
		if intermediates == nil {
			intermediates = x509.NewCertPool()
		}
		for _, c := range certificates[:max(0, len(certificates)-1)] {
			intermediates.AddCert(c)
		}
	}
	leaves, err := parseCertificates([]byte(s.Annotations[CertificateAnnotation]))
	switch {
	case err != nil:
		return nil, fmt.Errorf("parsing leaf certificate: %w", err)
	case len(leaves) == 0:
		return nil, errors.New("no certificate found in signature certificate data")
	case len(leaves) > 1:
		return nil, errors.New("unexpected multiple certificates present in signature certificate data")
	}
	leaf := leaves[0]
	if a.issuer != "" {
		leaf.UnhandledCriticalExtensions = slices.DeleteFunc(leaf.UnhandledCriticalExtensions, func(oid asn1.ObjectIdentifier) bool { return oid.Equal(sanOID) })
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: a.roots, Intermediates: intermediates, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	})
	if err != nil {
		return nil, fmt.Errorf("veryfing leaf certificate failed: %w", err) // as nodes spell it
	}
	return leaf, nil
}

// parseCertificates restates cryptoutils.UnmarshalCertificatesFromPEM of sigstore.
func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for rest := bytes.TrimSpace(data); len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("error during PEM decoding")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certificates = append(certificates, c)
	}
	return certificates, nil
}

// The extensions in which Fulcio notes who has identified the subject.
var (
	issuerOID   = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}
	issuerV2OID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}
)

// issuerOf restates fulcioIssuerInCertificate.
func issuerOf(c *x509.Certificate) (string, error) {
	var issuers []string
	for _, extension := range c.Extensions {
		switch {
		case extension.Id.Equal(issuerOID):
			issuers = append(issuers, string(extension.Value))
		case extension.Id.Equal(issuerV2OID):
			var issuer string
			rest, err := asn1.Unmarshal(extension.Value, &issuer)
			if err != nil {
				return "", fmt.Errorf("invalid ASN.1 in OIDC issuer v2 extension: %w", err)
			}
			if len(rest) > 0 {
				return "", errors.New("invalid ASN.1 in OIDC issuer v2 extension, trailing data")
			}
			issuers = append(issuers, issuer)
		}
	}
	switch {
	case len(issuers) == 0:
		return "", errors.New("Fulcio certificate is missing the issuer extension")
	case len(issuers) == 2 && issuers[0] != issuers[1]:
		return "", fmt.Errorf("inconsistent OIDC issuer extension values: %q, %q", issuers[0], issuers[1])
	default:
		return issuers[0], nil
	}
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
