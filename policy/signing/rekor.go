package signing

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// rekorKeys are those of a Rekor server, by any of which it may have signed.
type rekorKeys []*ecdsa.PublicKey

// A logEntry is the payload of what Rekor signs: that it has logged a signature.
type logEntry struct {
	body           []byte
	integratedTime int64
	logIndex       int64
	logID          string
}

// A hashedRecord is the body of a logEntry.
type hashedRecord struct {
	Kind       string  `json:"kind"`
	APIVersion *string `json:"apiVersion"`
	Spec       struct {
		Data struct {
			Hash struct {
				Algorithm string `json:"algorithm"`
				Value     string `json:"value"`
			} `json:"hash"`
		} `json:"data"`
		Signature struct {
			Content   []byte `json:"content"`
			PublicKey struct {
				Content []byte `json:"content"`
			} `json:"publicKey"`
		} `json:"signature"`
	} `json:"spec"`
}

// verifySET restates VerifyRekorSET (containers/image signature/internal/rekor_set.go): that one
// of keys has signed set, and that set is about the payload, its signature and the key or
// certificate, as DER, that made it. It returns when Rekor has logged that.
func (keys rekorKeys) verifySET(set, keyOrCertificate []byte, signed string, payload []byte) (time.Time, error) {
	var timestamp []byte
	var raw json.RawMessage
	if err := readExactly(set, fields{"SignedEntryTimestamp": &timestamp, "Payload": &raw}); err != nil {
		return time.Time{}, err
	}
	entry, err := readLogEntry(raw)
	if err != nil {
		return time.Time{}, fmt.Errorf("parsing Rekor SET payload: %w", err)
	}
	if !keys.haveSigned(entry, timestamp) {
		return time.Time{}, errors.New("cryptographic signature verification of Rekor SET failed")
	}
	var record hashedRecord
	if err := json.Unmarshal(entry.body, &record); err != nil {
		return time.Time{}, fmt.Errorf("decoding the body of a Rekor SET payload: %w", err)
	}
	if err := record.matches(keyOrCertificate, signed, payload); err != nil {
		return time.Time{}, err
	}
	return time.Unix(entry.integratedTime, 0), nil
}

func readLogEntry(data []byte) (e logEntry, err error) {
	err = readExactly(data, fields{"body": &e.body, "integratedTime": &e.integratedTime, "logIndex": &e.logIndex, "logID": &e.logID})
	return e, err
}

func (keys rekorKeys) haveSigned(e logEntry, timestamp []byte) bool {
	sum := sha256.Sum256(e.canonical())
	return slices.ContainsFunc(keys, func(key *ecdsa.PublicKey) bool { return ecdsa.VerifyASN1(key, sum[:], timestamp) })
}

// canonical returns e in the form of RFC 8785, which is what Rekor signs. A logID with characters
// beyond those of a hexadecimal number comes out otherwise, and no such entry verifies.
func (e logEntry) canonical() []byte {
	var b bytes.Buffer
	b.WriteString(`{"body":"` + base64.StdEncoding.EncodeToString(e.body))
	b.WriteString(`","integratedTime":` + strconv.FormatInt(e.integratedTime, 10))
	b.WriteString(`,"logID":` + strconv.Quote(e.logID))
	b.WriteString(`,"logIndex":` + strconv.FormatInt(e.logIndex, 10) + `}`)
	return b.Bytes()
}

// matches reports as an error that r is about something else.
func (r *hashedRecord) matches(keyOrCertificate []byte, signed string, payload []byte) error {
	switch {
	case r.Kind != "hashedrekord":
		return fmt.Errorf("invalid kind value: %q", r.Kind)
	case r.APIVersion == nil:
		return errors.New("missing Rekor SET Payload API version")
	case *r.APIVersion != "0.0.1":
		return fmt.Errorf("unsupported Rekor SET Payload hashedrekord version %q", *r.APIVersion)
	}
	logged, rest := pem.Decode(r.Spec.Signature.PublicKey.Content)
	if logged == nil || len(rest) > 0 {
		return errors.New("publicKey in Rekor SET is not in PEM format")
	}
	if !bytes.Equal(logged.Bytes, keyOrCertificate) {
		return errors.New("publicKey in Rekor SET does not match")
	}
	signature, err := base64.StdEncoding.DecodeString(signed)
	if err != nil {
		return fmt.Errorf("decoding signature base64: %w", err)
	}
	if !bytes.Equal(r.Spec.Signature.Content, signature) {
		return errors.New("signature in Rekor SET does not match")
	}
	hash := r.Spec.Data.Hash
	if hash.Algorithm != "sha256" {
		return fmt.Errorf("Unexpected \"data.hash.algorithm\" value %q", hash.Algorithm)
	}
	wanted, err := hex.DecodeString(hash.Value)
	if err != nil {
		return fmt.Errorf("Invalid \"data.hash.value\" field in hashedrekord: %w", err)
	}
	if sum := sha256.Sum256(payload); !bytes.Equal(wanted, sum[:]) {
		return errors.New("payload in Rekor SET does not match")
	}
	return nil
}
