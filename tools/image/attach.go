package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	sbomMediaType      = "application/vnd.cyclonedx+json"
	emptyMediaType     = "application/vnd.oci.empty.v1+json" // of the config of an artifact that has none
	signatureMediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	// signatureAnnotation has the signature of the layer that bears it.
	signatureAnnotation = "dev.cosignproject.cosign/signature"
)

// attachment is an image without files, by which registries refer from another one to its only layer.
type attachment struct {
	manifest []byte
	content  v1.Layer
}

// emptyConfig is the content of an attachment's config.
const emptyConfig = "{}"

// attachSBOM returns the attachment that holds the SBOM of an image.
func attachSBOM(image v1.Image, bom []byte) (v1.Image, error) {
	subject, err := partial.Descriptor(image)
	if err != nil {
		return nil, err
	}
	layer := static.NewLayer(bom, sbomMediaType)
	content, err := partial.Descriptor(layer)
	if err != nil {
		return nil, err
	}
	configHash, configSize, err := v1.SHA256(bytes.NewBufferString(emptyConfig))
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		ArtifactType:  sbomMediaType,
		Config:        v1.Descriptor{MediaType: emptyMediaType, Digest: configHash, Size: configSize},
		Layers:        []v1.Descriptor{*content},
		// Only what identifies the image: the rest follows from it.
		Subject: &v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(attachment{manifest, layer})
}

// RawManifest implements partial.CompressedImageCore.
func (a attachment) RawManifest() ([]byte, error) { return a.manifest, nil }

// RawConfigFile implements partial.CompressedImageCore.
func (a attachment) RawConfigFile() ([]byte, error) { return []byte(emptyConfig), nil }

// MediaType implements partial.CompressedImageCore.
func (a attachment) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (a attachment) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return a.content, nil }

// sign adds to signatures one that says that the manifest with a digest is the image of a reference, in
// the format of cosign before version 3, which is what nodes read. Those that are there stay: they may be
// by another key, or for another tag. None is added twice.
func sign(signatures v1.Image, key *ecdsa.PrivateKey, reference string, digest v1.Hash) (v1.Image, error) {
	payload := signedPayload(reference, digest)
	sum := sha256.Sum256(payload)
	// Without randomness (RFC 6979), which gives the same image the same signature.
	raw, err := key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	signature := base64.StdEncoding.EncodeToString(raw)
	manifest, err := signatures.Manifest()
	if err != nil {
		return nil, err
	}
	for _, layer := range manifest.Layers {
		if layer.Annotations[signatureAnnotation] == signature {
			return signatures, nil
		}
	}
	return mutate.Append(signatures, mutate.Addendum{
		Layer:       static.NewLayer(payload, signatureMediaType),
		Annotations: map[string]string{signatureAnnotation: signature},
	})
}

func signedPayload(reference string, digest v1.Hash) []byte {
	return fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, reference, digest)
}

// signatureTag returns the tag under which nodes look for the signatures of a digest.
func signatureTag(digest v1.Hash) string { return digest.Algorithm + "-" + digest.Hex + ".sig" }
