package signing

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
)

// The types of requirements.
const (
	AcceptAnything = "insecureAcceptAnything"
	Reject         = "reject"
	SigstoreSigned = "sigstoreSigned"
)

// A Requirement is one of those that policy.json makes of the images in a scope, in the JSON
// of that file (containers/image signature/policy_types.go, prSigstoreSigned).
type Requirement struct {
	Type string `json:"type"`
	// One of these is the key of the signer; those by path are files on the nodes.
	KeyPath  string   `json:"keyPath,omitempty"`
	KeyPaths []string `json:"keyPaths,omitempty"`
	KeyData  []byte   `json:"keyData,omitempty"`
	KeyDatas [][]byte `json:"keyDatas,omitempty"`
	Fulcio   *Fulcio  `json:"fulcio,omitempty"`
	// Rekor has to have logged the signature where one of these is set.
	RekorPublicKeyPath  string   `json:"rekorPublicKeyPath,omitempty"`
	RekorPublicKeyPaths []string `json:"rekorPublicKeyPaths,omitempty"`
	RekorPublicKeyData  []byte   `json:"rekorPublicKeyData,omitempty"`
	RekorPublicKeyDatas [][]byte `json:"rekorPublicKeyDatas,omitempty"`
	PKI                 *PKI     `json:"pki,omitempty"`
	// SignedIdentity says which image the signature has to name; nil means
	// matchRepoDigestOrExact.
	SignedIdentity *Identity `json:"signedIdentity,omitempty"`
}

func (r *Requirement) identity() Identity {
	if r.SignedIdentity == nil {
		return Identity{Type: matchRepoDigestOrExact}
	}
	return *r.SignedIdentity
}

// A Fulcio is the requirement on certificates of a Fulcio server.
type Fulcio struct {
	CAPath       string `json:"caPath,omitempty"`
	CAData       []byte `json:"caData,omitempty"`
	OIDCIssuer   string `json:"oidcIssuer,omitempty"`
	SubjectEmail string `json:"subjectEmail,omitempty"`
}

// A PKI is the requirement on certificates of other authorities. Nodes' code writes empty fields
// out (containers/image signature/policy_types.go, prSigstoreSignedPKI).
type PKI struct {
	CARootsPath         string `json:"caRootsPath"`
	CARootsData         []byte `json:"caRootsData"`
	CAIntermediatesPath string `json:"caIntermediatesPath"`
	CAIntermediatesData []byte `json:"caIntermediatesData"`
	SubjectEmail        string `json:"subjectEmail"`
	SubjectHostname     string `json:"subjectHostname"`
}

// Requirements are those of one scope of policy.json. All of them have to be met. They are
// immutable.
type Requirements struct {
	list []Requirement
	keys [][sha256.Size]byte
	key  [sha256.Size]byte
}

// NewRequirements returns those of list.
func NewRequirements(list ...Requirement) *Requirements {
	r := &Requirements{list: list, keys: make([][sha256.Size]byte, len(list))}
	whole := sha256.New()
	for i := range list {
		data, err := json.Marshal(&list[i])
		if err != nil {
			panic(err) // it has nothing that JSON does not know
		}
		r.keys[i] = sha256.Sum256(data)
		whole.Write(r.keys[i][:])
	}
	whole.Sum(r.key[:0])
	return r
}

// List returns them; it must not be changed.
func (r *Requirements) List() []Requirement { return r.list }

// Equal reports whether r and other ask for the same.
func (r *Requirements) Equal(other *Requirements) bool { return r.key == other.key }

// IsMetBy reports whether whatever meets other also meets r, because other has all of r.
func (r *Requirements) IsMetBy(other *Requirements) bool {
	return !slices.ContainsFunc(r.keys, func(key [sha256.Size]byte) bool { return !slices.Contains(other.keys, key) })
}

// FromSpec returns the requirement that MCO writes for an image policy (policyItemFromSpec in
// its container-runtime-config controller). The error says why it rejects the policy, which makes it
// apply no policy and no mirror change at all.
func FromSpec(policy configv1.ImageSigstoreVerificationPolicy) (Requirement, error) {
	r := Requirement{Type: SigstoreSigned}
	root := policy.RootOfTrust
	var err error
	switch {
	case root.PolicyType == configv1.PublicKeyRootOfTrust && root.PublicKey != nil && root.PublicKey.KeyData != nil:
		r.KeyData = root.PublicKey.KeyData
		if len(root.PublicKey.RekorKeyData) > 0 {
			r.RekorPublicKeyData = root.PublicKey.RekorKeyData
		}
	case root.PolicyType == configv1.FulcioCAWithRekorRootOfTrust && root.FulcioCAWithRekor != nil:
		err = r.setFulcio(root.FulcioCAWithRekor)
	case root.PolicyType == configv1.PKIRootOfTrust && root.PKI != nil:
		err = r.setPKI(root.PKI)
	default:
		err = fmt.Errorf("its root of trust %q has no key and no certificate authority", root.PolicyType)
	}
	if err != nil {
		return Requirement{}, err
	}
	r.SignedIdentity, err = identityFromSpec(policy.SignedIdentity)
	return r, err
}

func (r *Requirement) setFulcio(root *configv1.ImagePolicyFulcioCAWithRekorRootOfTrust) error {
	switch {
	case root.FulcioCAData == nil:
		return errors.New("fulcioCAData is missing")
	case root.RekorKeyData == nil:
		return errors.New("rekorKeyData is missing")
	case root.FulcioSubject.OIDCIssuer == "":
		return errors.New("fulcioSubject.oidcIssuer is missing")
	case root.FulcioSubject.SignedEmail == "":
		return errors.New("fulcioSubject.signedEmail is missing")
	}
	r.Fulcio = &Fulcio{CAData: root.FulcioCAData, OIDCIssuer: root.FulcioSubject.OIDCIssuer, SubjectEmail: root.FulcioSubject.SignedEmail}
	r.RekorPublicKeyData = root.RekorKeyData
	return nil
}

func (r *Requirement) setPKI(root *configv1.ImagePolicyPKIRootOfTrust) error {
	subject := root.PKICertificateSubject
	switch {
	case root.CertificateAuthorityRootsData == nil:
		return errors.New("caRootsData is missing")
	case subject.Email == "" && subject.Hostname == "":
		return errors.New("pkiCertificateSubject has neither an email nor a hostname")
	}
	r.PKI = &PKI{CARootsData: root.CertificateAuthorityRootsData, SubjectEmail: subject.Email, SubjectHostname: subject.Hostname}
	if len(root.CertificateAuthorityIntermediatesData) > 0 {
		r.PKI.CAIntermediatesData = root.CertificateAuthorityIntermediatesData
	}
	return nil
}

// String says what r asks for ("a signature by key 1f2e3d4c5b6a for the repository of the
// image"). Keys are named by the first bytes of the SHA-256 of their DER.
func (r *Requirement) String() string {
	if r.Type != SigstoreSigned {
		return r.Type
	}
	by := "by a key on the nodes (" + strings.Join(append(r.KeyPaths, r.KeyPath), ", ") + ")"
	switch keys := r.KeyDatas; {
	case len(r.KeyData) > 0:
		by = "by key " + fingerprint(r.KeyData)
	case len(keys) > 0:
		names := make([]string, len(keys))
		for i := range keys {
			names[i] = fingerprint(keys[i])
		}
		by = "by one of the keys " + strings.Join(names, ", ")
	case r.Fulcio != nil:
		by = fmt.Sprintf("by %s with a Fulcio certificate from %s", r.Fulcio.SubjectEmail, r.Fulcio.OIDCIssuer)
	case r.PKI != nil:
		by = "with a certificate for " + strings.TrimPrefix(r.PKI.SubjectEmail+" and "+r.PKI.SubjectHostname, " and ")
		by = strings.TrimSuffix(by, " and ")
	}
	if len(r.RekorPublicKeyData)+len(r.RekorPublicKeyDatas)+len(r.RekorPublicKeyPaths)+len(r.RekorPublicKeyPath) > 0 {
		by += ", logged by Rekor,"
	}
	return "a signature " + by + " " + r.identity().String()
}

func fingerprint(pemData []byte) string {
	block, _ := pem.Decode(pemData)
	if block == nil {
		return "(unreadable)"
	}
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:6])
}
