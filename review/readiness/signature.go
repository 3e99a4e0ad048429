package readiness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// A Signature is the release image's GPG signature.
type Signature struct {
	State  State
	Reason string
	Detail []string
	// Remedy is what to do about it; "" if nothing is known to help.
	Remedy string
}

// verificationKey begins the names of keyrings in ConfigMap objects.VerificationName, and storeKey those of the addresses of
// signature stores (library-go, pkg/verify/verify.go).
const (
	verificationKey = "verifier-public-key-"
	storeKey        = "store-"
)

// signature says whether CVO would accept the release image: it wants a signature by each keyring of its ConfigMap,
// from any ConfigMap with signatures, or from a store.
func (j *judging) signature(ref string) Signature {
	_, digest, found := strings.Cut(ref, "@")
	switch {
	case !found:
		return Signature{Reason: "the digest of the release image is not known"}
	case j.Choice.Forced:
		return Signature{State: Ready, Reason: "spec.desiredUpdate.force is set: CVO does not verify the release"}
	}
	keyrings, err := keyringsOf(j.config.Verification)
	s := Signature{Remedy: "oc apply -f signature-configmap.yaml (oc-mirror writes it to working-dir/cluster-resources, oc adm release mirror prints it)"}
	entries := entriesFor(j.config.Signatures, digest)
	var wrong []string
	for _, e := range entries {
		switch signed, bad := e.verify(keyrings, digest); {
		case bad != nil:
			wrong = append(wrong, e.String()+": "+text.Line(text.Cut(bad.Error(), maxShown)))
		case err == nil && len(keyrings) > 0 && signed:
			return Signature{State: Ready, Reason: "signed, and verified with the keys of ConfigMap " + objects.ManagedNamespace + "/" + objects.VerificationName, Detail: []string{e.String()}}
		default:
			s.Reason, s.Detail, s.Remedy = "there is a signature, and no key to verify it with", []string{e.String()}, ""
			if err != nil {
				s.Detail = append(s.Detail, text.Line(err.Error()))
			}
			return s
		}
	}
	s.Detail = wrong
	return j.withoutSignature(s, len(wrong) > 0, digest)
}

// withoutSignature says what follows if no ConfigMap has a signature that CVO accepts.
func (j *judging) withoutSignature(s Signature, wrong bool, digest string) Signature {
	s.Reason = "no ConfigMap of " + objects.ManagedNamespace + " with label " + objects.SignatureLabel + " has a signature of " + digest
	if wrong {
		s.Reason = "no ConfigMap has a signature of " + digest + " that CVO accepts"
	}
	switch {
	case j.config.Unread != "" && len(j.config.Signatures) == 0:
		s.Reason = "whether a ConfigMap has a signature of " + digest + " is not known"
		s.Detail = append(s.Detail, j.config.Unread)
	case j.config.Verification == nil:
		s.Detail = append(s.Detail, "whether CVO wants one is not known: there is no ConfigMap "+objects.ManagedNamespace+"/"+objects.VerificationName)
	case len(j.stores()) > 0:
		s.Detail = append(s.Detail, "CVO would then ask "+text.Names(j.stores(), maxNamed)+", which was not asked here: only CVO reaches it as CVO does")
	default:
		s.State = NotReady
	}
	return s
}

// stores are the addresses that CVO would ask for signatures.
func (j *judging) stores() []string {
	var stores []string
	if v := j.through.Version; v != nil {
		for _, s := range v.Spec.SignatureStores {
			stores = append(stores, s.URL)
		}
	}
	if cm := j.config.Verification; cm != nil && len(stores) == 0 {
		for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
			if strings.HasPrefix(key, storeKey) {
				stores = append(stores, cm.Data[key])
			}
		}
	}
	return each.Of(stores, func(s string) string { return text.Line(text.Cut(text.WithoutCredentials(s), maxShown)) })
}

// An entry is a signature in a ConfigMap.
type entry struct {
	in, key string
	data    []byte
}

func (e entry) String() string {
	return "ConfigMap " + e.in + ", " + text.Line(text.Cut(e.key, maxShown))
}

// entriesFor returns the signatures of a digest: under sha256-HEX-N, in order (library-go,
// pkg/verify/store/configmap).
func entriesFor(maps []*corev1.ConfigMap, digest string) []entry {
	prefix := strings.ReplaceAll(digest, ":", "-") + "-"
	var entries []entry
	for _, cm := range maps {
		for key, data := range cm.BinaryData {
			if strings.HasPrefix(key, prefix) {
				entries = append(entries, entry{cm.Namespace + "/" + cm.Name, key, data})
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.in+" "+a.key, b.in+" "+b.key) })
	return entries
}

// keyringsOf reads the public keys by which CVO verifies releases.
func keyringsOf(cm *corev1.ConfigMap) ([]openpgp.EntityList, error) {
	if cm == nil {
		return nil, errors.New("ConfigMap " + objects.ManagedNamespace + "/" + objects.VerificationName + ", which has the keys, was not found")
	}
	var keyrings []openpgp.EntityList
	for _, name := range slices.Sorted(maps.Keys(cm.Data)) {
		if !strings.HasPrefix(name, verificationKey) {
			continue
		}
		keyring, err := openpgp.ReadArmoredKeyRing(strings.NewReader(cm.Data[name]))
		if err != nil {
			return nil, fmt.Errorf("the key %s cannot be read: %w", name, err)
		}
		keyrings = append(keyrings, keyring)
	}
	if len(keyrings) == 0 {
		return nil, errors.New("ConfigMap " + objects.ManagedNamespace + "/" + objects.VerificationName + " has no key")
	}
	return keyrings, nil
}

// maxSignature is what CVO reads of a signature (library-go, maxSignatureSize).
const maxSignature = 50 << 10

// verify reports whether e is signed by a key of every keyring. The error says what is wrong with it.
func (e entry) verify(keyrings []openpgp.EntityList, digest string) (bool, error) {
	if len(keyrings) == 0 {
		content, err := e.content(openpgp.EntityList{})
		if err != nil {
			return false, err
		}
		return false, says(content, digest)
	}
	for _, keyring := range keyrings {
		content, err := e.content(keyring)
		if err != nil {
			return false, err
		}
		if err := says(content, digest); err != nil {
			return false, err
		}
	}
	return true, nil
}

// content reads a signed message, and verifies the signature where there are keys.
func (e entry) content(keys openpgp.EntityList) ([]byte, error) {
	if len(e.data) > maxSignature {
		return nil, errors.New("it is larger than any signature")
	}
	message, err := openpgp.ReadMessage(bytes.NewReader(e.data), keys, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("it is no signed message: %w", err)
	}
	if !message.IsSigned {
		return nil, errors.New("it is not signed")
	}
	content, err := io.ReadAll(io.LimitReader(message.UnverifiedBody, maxSignature))
	if err != nil {
		return nil, fmt.Errorf("it cannot be read to its end: %w", err)
	}
	switch {
	case len(keys) == 0:
		return content, nil
	case message.SignedBy == nil:
		return nil, fmt.Errorf("it is signed by a key that CVO does not know (%X)", message.SignedByKeyId)
	case message.SignatureError != nil:
		return nil, fmt.Errorf("its signature is wrong: %w", message.SignatureError)
	case message.Signature == nil:
		return nil, errors.New("its signature was not found at its end")
	}
	return content, nil
}

// says compares what was signed with a digest (library-go, verifyAtomicContainerSignature).
func says(content []byte, digest string) error {
	var signed struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Identity struct {
				Reference string `json:"docker-reference"`
			} `json:"identity"`
		} `json:"critical"`
		Optional json.RawMessage `json:"optional"`
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	switch err := decoder.Decode(&signed); {
	case err != nil:
		return fmt.Errorf("what is signed cannot be read: %w", err)
	case signed.Critical.Type != "atomic container signature":
		return fmt.Errorf("what is signed is of type %q", signed.Critical.Type)
	case signed.Critical.Identity.Reference == "":
		return errors.New("what is signed names no image")
	case signed.Critical.Image.Digest != digest:
		return fmt.Errorf("what is signed is %s", signed.Critical.Image.Digest)
	default:
		return nil
	}
}
