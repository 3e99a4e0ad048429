package signing

import (
	"bytes"
	_ "crypto/sha256" // digest.Parse knows only the algorithms that are linked in
	_ "crypto/sha512"
	"encoding/json"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
)

// A payload is the text that a signature signs.
type payload struct {
	digest    digest.Digest
	reference string
}

// payloadType is what a payload says that it is.
const payloadType = "cosign container image signature"

// readPayload reads a payload as strictly as nodes do (containers/image
// signature/internal/sigstore_payload.go).
func readPayload(data []byte) (payload, error) {
	var critical, optional json.RawMessage
	if err := readExactly(data, fields{"critical": &critical, "optional": &optional}); err != nil {
		return payload{}, err
	}
	if err := checkOptional(optional); err != nil {
		return payload{}, err
	}
	var kind, manifest string
	var image, identity json.RawMessage
	if err := readExactly(critical, fields{"type": &kind, "image": &image, "identity": &identity}); err != nil {
		return payload{}, err
	}
	if kind != payloadType {
		return payload{}, fmt.Errorf("Unrecognized signature type %s", kind)
	}
	if err := readExactly(image, fields{"docker-manifest-digest": &manifest}); err != nil {
		return payload{}, err
	}
	var p payload
	var err error
	if p.digest, err = digest.Parse(manifest); err != nil {
		return payload{}, fmt.Errorf("invalid docker-manifest-digest value %q: %w", manifest, err)
	}
	return p, readExactly(identity, fields{"docker-reference": &p.reference})
}

// checkOptional checks what nodes check of what a signer may add.
func checkOptional(optional json.RawMessage) error {
	if bytes.Equal(optional, []byte("null")) {
		return nil
	}
	var creator string
	var timestamp float64
	err := readObject(optional, func(key string) any {
		switch key {
		case "creator":
			return &creator
		case "timestamp":
			return &timestamp
		default:
			return new(any)
		}
	})
	if err == nil && float64(int64(timestamp)) != timestamp {
		return fmt.Errorf("Field optional.timestamp is not an integer")
	}
	return err
}

// isFor returns an error unless p is about the manifest with a digest. Which digest of another
// algorithm the manifest has is not known here.
func (p payload) isFor(manifest string) error {
	switch {
	case p.digest.String() == manifest:
		return nil
	case p.digest.Algorithm() != digest.Digest(manifest).Algorithm():
		return fmt.Errorf("%w: the signature names the digest %s", errUndecided, p.digest)
	default:
		return fmt.Errorf("Signature for digest %s does not match", p.digest)
	}
}

// fields are the variables for the values of an object, by key.
type fields map[string]any

// readExactly reads an object that has each of the fields once and nothing else
// (ParanoidUnmarshalJSONObjectExactFields).
func readExactly(data []byte, into fields) error {
	seen := map[string]bool{}
	err := readObject(data, func(key string) any {
		seen[key] = true
		return into[key]
	})
	if err != nil {
		return err
	}
	for key := range into {
		if !seen[key] {
			return fmt.Errorf("Key %q missing in a JSON object", key)
		}
	}
	return nil
}

// readObject reads an object whose keys are distinct, each value to where to says; nil for a
// key that must not be there (ParanoidUnmarshalJSONObject).
func readObject(data []byte, to func(key string) any) error {
	seen := map[string]bool{}
	d := json.NewDecoder(bytes.NewReader(data))
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("JSON object expected, got %#v", t)
	}
	for {
		if t, err = d.Token(); err != nil {
			return err
		}
		if t == json.Delim('}') {
			break
		}
		key, _ := t.(string)
		if seen[key] {
			return fmt.Errorf("Duplicate key %q", key)
		}
		seen[key] = true
		into := to(key)
		if into == nil {
			return fmt.Errorf("Unknown key %q", key)
		}
		if err := d.Decode(into); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("Unexpected data after JSON object")
	}
	return nil
}
