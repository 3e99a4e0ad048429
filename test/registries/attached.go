package registries

import (
	"bytes"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// An attached is an attachment as the image that registries take it for.
type attached struct {
	signer.Attachment
	layers map[v1.Hash]partial.CompressedLayer
}

// NewAttached returns an attachment as an image, to be pushed byte for byte.
func NewAttached(a signer.Attachment) (v1.Image, error) {
	img := attached{a, map[v1.Hash]partial.CompressedLayer{}}
	for _, blob := range a.Blobs {
		hash, _, err := v1.SHA256(bytes.NewReader(blob))
		if err != nil {
			return nil, err
		}
		img.layers[hash] = blobLayer{hash, blob}
	}
	return partial.CompressedToImage(img)
}

// RawManifest implements partial.CompressedImageCore.
func (a attached) RawManifest() ([]byte, error) { return a.Manifest, nil }

// RawConfigFile implements partial.CompressedImageCore.
func (a attached) RawConfigFile() ([]byte, error) { return a.Blobs[0], nil }

// MediaType implements partial.CompressedImageCore.
func (a attached) MediaType() (types.MediaType, error) { return signer.MediaType, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (a attached) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) { return a.layers[h], nil }

// A blobLayer is a layer that is what its content says, not compressed.
type blobLayer struct {
	hash    v1.Hash
	content []byte
}

// Digest implements partial.CompressedLayer.
func (b blobLayer) Digest() (v1.Hash, error) { return b.hash, nil }

// Compressed implements partial.CompressedLayer.
func (b blobLayer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b.content)), nil
}

// Size implements partial.CompressedLayer.
func (b blobLayer) Size() (int64, error) { return int64(len(b.content)), nil }

// MediaType implements partial.CompressedLayer.
func (b blobLayer) MediaType() (types.MediaType, error) {
	return types.MediaType("application/octet-stream"), nil
}
