package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// pushAll pushes an image by digest, what belongs to it, and at last the tag.
func (j *job) pushAll(ctx context.Context, tag name.Tag, index v1.ImageIndex, sboms []v1.Image) error {
	login := remote.WithAuthFromKeychain(authn.DefaultKeychain)
	pusher, err := remote.NewPusher(login)
	if err != nil {
		return err
	}
	repository := tag.Context()
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := pusher.Push(ctx, repository.Digest(digest.String()), index); err != nil {
		return err
	}
	for _, sbom := range sboms {
		digest, err := sbom.Digest()
		if err != nil {
			return err
		}
		if err := pusher.Push(ctx, repository.Digest(digest.String()), sbom); err != nil {
			return fmt.Errorf("SBOM: %w", err)
		}
	}
	if j.key != nil {
		if err := j.pushSignatures(ctx, pusher, login, tag, index); err != nil {
			return fmt.Errorf("signature: %w", err)
		}
	}
	return pusher.Push(ctx, tag, index)
}

// pushSignatures signs the index, which clients resolve a tag to, and each image in it, which is what
// nodes verify.
func (j *job) pushSignatures(ctx context.Context, pusher *remote.Pusher, login remote.Option, of name.Tag, index v1.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	digests := []v1.Hash{digest}
	for _, part := range manifest.Manifests {
		digests = append(digests, part.Digest)
	}
	for _, digest := range digests {
		tag := of.Context().Tag(signatureTag(digest))
		signatures, err := pull(tag, remote.WithContext(ctx), login)
		if err != nil {
			return err
		}
		if signatures, err = sign(signatures, j.key, of.Name(), digest); err != nil {
			return err
		}
		if err := pusher.Push(ctx, tag, signatures); err != nil {
			return err
		}
	}
	return nil
}

// pull returns the image of a tag, an empty one if there is no such tag.
func pull(tag name.Tag, options ...remote.Option) (v1.Image, error) {
	image, err := remote.Image(tag, options...)
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return emptyImage(), nil
	}
	return image, err
}
