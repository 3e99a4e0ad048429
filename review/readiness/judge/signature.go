package judge

import (
	"bytes"
	"crypto/fips140"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// verificationKey begins the names of keyrings in ConfigMap objects.VerificationName (library-go, pkg/verify/configmap.go).
const verificationKey = "verifier-public-key-"

// signature says whether CVO would accept the release image: it wants a signature by each keyring of its ConfigMap,
// from any ConfigMap with signatures, or from a store. Stores are not asked: nodes ask none, and one that this machine reaches need not be
// one that CVO does.
func (j *judging) signature(ref string) readiness.Signature {
	_, digest, found := strings.Cut(ref, "@")
	switch {
	case !found:
		return readiness.Signature{Reason: "the digest of the release image is not known"}
	case j.Choice.Forced:
		return readiness.Signature{State: readiness.Ready, Reason: "spec.desiredUpdate.force is set: CVO does not verify the release"}
	}
	entries := entriesFor(j.config.Signatures, digest)
	keyrings, err := keyringsOf(j.config.Verification)
	if err != nil {
		return j.withoutKeys(entries, digest, err)
	}
	v := verification{digest: digest, missing: keyrings}
	for _, e := range entries {
		if v.take(e.String(), e.data) {
			return readiness.Signature{State: readiness.Ready, Reason: verifiedBy, Detail: v.by}
		}
	}
	return j.withoutSignature(v)
}

const verifiedBy = "signed, and verified with the keys of ConfigMap " + objects.ManagedNamespace + "/" + objects.VerificationName

// withoutKeys says what follows if there is nothing to verify signatures with: they may be wrong all the same.
func (j *judging) withoutKeys(entries []entry, digest string, why error) readiness.Signature {
	var s readiness.Signature
	for _, e := range entries {
		if content, err := contentOf(e.data, nil); err != nil || says(content, digest) != nil {
			s.Detail = append(s.Detail, e.String()+": it is no signature of this release")
			continue
		}
		return readiness.Signature{Reason: "there is a signature, and no key to verify it with", Detail: []string{e.String(), text.Line(why.Error())}}
	}
	s.Reason = noSignature(digest)
	s.Detail = append(s.Detail, text.Line(why.Error()))
	s.Remedy = signatureRemedy
	return s
}

const signatureRemedy = "oc apply -f signature-configmap.yaml (oc-mirror writes it to working-dir/cluster-resources, oc adm release mirror prints it)"

func noSignature(digest string) string {
	return "no ConfigMap of " + objects.ManagedNamespace + " with label " + objects.SignatureLabel + " has a signature of " + digest
}

// withoutSignature says what follows if no ConfigMap has signatures that CVO accepts: it goes on to stores.
func (j *judging) withoutSignature(v verification) readiness.Signature {
	s := readiness.Signature{Reason: noSignature(v.digest), Remedy: signatureRemedy}
	if len(v.wrong) > 0 || len(v.by) > 0 {
		s.Reason = "no ConfigMap has a signature of " + v.digest + " that CVO accepts"
	}
	if j.config.SignaturesUnread != "" {
		s.Reason = "whether a ConfigMap has a signature of " + v.digest + " is not known"
		s.Detail = append(s.Detail, j.config.SignaturesUnread)
	}
	s.Detail = append(s.Detail, v.explain()...)
	stores := j.stores()
	switch named := j.through.Version; {
	case len(stores) > 0:
		s.Detail = append(s.Detail, "CVO would then ask "+text.Names(stores, target.MaxNamed)+", which is not done from here")
		return s
	case named != nil && named.Spec.SignatureStores != nil:
		s.Detail = append(s.Detail, "spec.signatureStores of ClusterVersion is empty: CVO asks no store. Unset it, and CVO asks those of the release that runs")
	}
	if j.config.SignaturesUnread == "" {
		s.State = readiness.NotReady
	}
	return s
}

// storeKey begins the names of the addresses of stores in ConfigMap objects.VerificationName.
const storeKey = "store-"

// stores are those that CVO would ask: its own, unless ClusterVersion names others, or an empty list of them (cluster-version-operator,
// pkg/customsignaturestore).
func (j *judging) stores() []string {
	shown := func(url string) string { return text.Line(text.Cut(text.WithoutCredentials(url), maxQuoted)) }
	if v := j.through.Version; v != nil && v.Spec.SignatureStores != nil {
		return convert.Each(v.Spec.SignatureStores, func(s configv1.SignatureStore) string { return shown(s.URL) })
	}
	var stores []string
	if cm := j.config.Verification; cm != nil {
		for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
			if strings.HasPrefix(key, storeKey) {
				stores = append(stores, shown(cm.Data[key]))
			}
		}
	}
	return stores
}

// A verification notes the keyrings by which no signature of a digest has been found yet. CVO wants one by each keyring, and takes them from
// wherever they are (library-go, pkg/verify, releaseVerifier.Verify).
type verification struct {
	digest  string
	missing []openpgp.EntityList // the keyrings by which there is none yet
	by      []string             // where signatures were found that count
	wrong   []string             // the faults of others
}

// take verifies a signature, and reports whether none is missing any more.
func (v *verification) take(at string, signature []byte) bool {
	var wrong error
	missing := slices.DeleteFunc(slices.Clone(v.missing), func(keyring openpgp.EntityList) bool {
		content, err := contentOf(signature, keyring)
		if err == nil {
			err = says(content, v.digest)
		}
		if err != nil {
			wrong = err
		}
		return err == nil
	})
	if len(missing) < len(v.missing) {
		v.missing, v.by = missing, append(v.by, at)
	} else {
		v.wrong = append(v.wrong, at+": "+text.Line(text.Cut(wrong.Error(), maxQuoted)))
	}
	return len(v.missing) == 0
}

// explain says why the signatures that were found do not suffice.
func (v *verification) explain() []string {
	lines := slices.Clone(v.wrong)
	for _, at := range v.by {
		lines = append(lines, at+": accepted, and CVO wants another, by another of its keys")
	}
	return text.First(lines, target.MaxNamed, "signature")
}

// An entry is a signature in a ConfigMap.
type entry struct {
	in, key string
	data    []byte
}

func (e entry) String() string {
	return "ConfigMap " + e.in + ", " + text.Line(text.Cut(e.key, maxQuoted))
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
		var keyring openpgp.EntityList
		var err error
		fips140.WithoutEnforcement(func() { // as in contentOf
			keyring, err = openpgp.ReadArmoredKeyRing(strings.NewReader(cm.Data[name]))
		})
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

// contentOf reads a signed message, and verifies the signature where there are keys. OpenPGP names keys by SHA-1, which the strictest
// FIPS 140-3 mode does not let anybody compute. A signature of SHA-1 is not accepted in any mode.
func contentOf(signature []byte, keys openpgp.EntityList) (content []byte, err error) {
	fips140.WithoutEnforcement(func() { content, err = readSigned(signature, keys) })
	return content, err
}

// maxQuoted is how much is shown of what others have written.
const maxQuoted = 200

// maxSignature bounds a signature, as containers/image and CVO do (library-go, pkg/verify/store/sigstore).
const maxSignature = 50 << 10

func readSigned(signature []byte, keys openpgp.EntityList) ([]byte, error) {
	if len(signature) > maxSignature {
		return nil, errors.New("it is larger than any signature")
	}
	message, err := openpgp.ReadMessage(bytes.NewReader(signature), keys, nil, nil)
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
