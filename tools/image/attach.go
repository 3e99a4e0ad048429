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

// artifact is an image without files, which belongs to another one.
type artifact struct {
	manifest []byte
	content  v1.Layer
}

// emptyConfig is the content of every artifact's config.
const emptyConfig = "{}"

// newArtifact returns an artifact with one layer. It need not have a type, annotations or a subject.
func newArtifact(artifactType, configType, mediaType string, content []byte, annotations map[string]string, subject *v1.Descriptor) (v1.Image, error) {
	layer := static.NewLayer(content, types.MediaType(mediaType))
	described, err := partial.Descriptor(layer)
	if err != nil {
		return nil, err
	}
	described.Annotations = annotations
	configHash, configSize, err := v1.SHA256(bytes.NewBufferString(emptyConfig))
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		ArtifactType:  artifactType,
		Config:        v1.Descriptor{MediaType: types.MediaType(configType), Digest: configHash, Size: configSize},
		Layers:        []v1.Descriptor{*described},
		Subject:       subject,
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(artifact{manifest, layer})
}

// RawManifest implements partial.CompressedImageCore.
func (a artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// RawConfigFile implements partial.CompressedImageCore.
func (a artifact) RawConfigFile() ([]byte, error) { return []byte(emptyConfig), nil }

// MediaType implements partial.CompressedImageCore.
func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (a artifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return a.content, nil }

// attachSBOM returns the artifact by which registries refer from an image to its SBOM.
func attachSBOM(image v1.Image, bom []byte) (v1.Image, error) {
	subject, err := partial.Descriptor(image)
	if err != nil {
		return nil, err
	}
	// Only what identifies the image: the rest follows from it.
	subject = &v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}
	return newArtifact(sbomMediaType, emptyMediaType, sbomMediaType, bom, nil, subject)
}

// sign returns the artifact by which nodes know that the manifest with a digest is the image of a
// reference: a signature in the format of cosign before version 3.
func sign(key *ecdsa.PrivateKey, reference string, digest v1.Hash) (v1.Image, error) {
	payload := signedPayload(reference, digest)
	sum := sha256.Sum256(payload)
	// Without randomness (RFC 6979): the same image gets the same signature.
	signature, err := key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(signature)}
	return newArtifact("", string(types.OCIConfigJSON), signatureMediaType, payload, annotations, nil)
}

func signedPayload(reference string, digest v1.Hash) []byte {
	return fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, reference, digest)
}

// signatureTag returns the tag under which nodes look for the signature of a digest.
func signatureTag(digest v1.Hash) string { return digest.Algorithm + "-" + digest.Hex + ".sig" }
