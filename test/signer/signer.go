// Package signer signs images for tests, in the form that nodes know: an attachment under a tag
// in the image's repository, as cosign made it before version 3.
//
//	key := signer.Key("release")
//	a := signer.Attach(key.Sign("quay.io/shop/cart:v1", digest))
//	// push a.Manifest under a.Tag, and a.Blobs
//
// Its keys follow from their names, so that a story can hold the public half of one. They protect
// nothing.
package signer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// A Key signs.
type Key string

// privates are the private halves that were computed.
var privates sync.Map

func (k Key) private() *ecdsa.PrivateKey {
	if key, ok := privates.Load(k); ok {
		return key.(*ecdsa.PrivateKey)
	}
	curve := elliptic.P256()
	sum := sha256.Sum256([]byte("a key of tests: " + string(k)))
	d := new(big.Int).Mod(new(big.Int).SetBytes(sum[:]), new(big.Int).Sub(curve.Params().N, big.NewInt(1)))
	key, err := ecdsa.ParseRawPrivateKey(curve, d.Add(d, big.NewInt(1)).FillBytes(make([]byte, 32)))
	if err != nil {
		panic(err) // it is in range
	}
	privates.Store(k, key)
	return key
}

// PEM returns the public half.
func (k Key) PEM() []byte {
	der, err := x509.MarshalPKIXPublicKey(k.private().Public())
	if err != nil {
		panic(err) // the key is of a known type
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// Sign returns a signature that says that the manifest with a digest is the image of a reference.
func (k Key) Sign(reference, digest string) signing.Signature {
	payload := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, reference, digest)
	sum := sha256.Sum256(payload)
	signature, err := ecdsa.SignASN1(rand.Reader, k.private(), sum[:])
	if err != nil {
		panic(err) // the key is of a known type
	}
	return signing.Signature{
		MediaType: signing.MediaType, Payload: payload,
		Annotations: map[string]string{signing.SignatureAnnotation: base64.StdEncoding.EncodeToString(signature)},
	}
}

// An Attachment is the manifest and the blobs that hold the signatures of an image.
type Attachment struct {
	Manifest []byte
	// Blobs are its layers and its config.
	Blobs [][]byte
}

// MediaType is that of the manifest of an Attachment.
const MediaType = imagespec.MediaTypeImageManifest

// Attach returns the attachment that holds signatures.
func Attach(signatures ...signing.Signature) Attachment {
	const config = "{}"
	m := imagespec.Manifest{MediaType: MediaType, Config: imagespec.Descriptor{MediaType: imagespec.MediaTypeImageConfig, Digest: digest.FromString(config), Size: int64(len(config))}}
	m.SchemaVersion = 2
	a := Attachment{Blobs: [][]byte{[]byte(config)}}
	for _, s := range signatures {
		m.Layers = append(m.Layers, imagespec.Descriptor{
			MediaType: s.MediaType, Digest: digest.FromBytes(s.Payload), Size: int64(len(s.Payload)), Annotations: s.Annotations,
		})
		a.Blobs = append(a.Blobs, s.Payload)
	}
	var err error
	if a.Manifest, err = json.Marshal(m); err != nil {
		panic(err) // it has nothing that JSON does not know
	}
	return a
}

// Tag returns the tag under which nodes look for the signatures of the manifest with a digest.
func Tag(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".sig" }
