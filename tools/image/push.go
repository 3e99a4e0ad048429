package main

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// pushAll pushes the image by digest, what belongs to it, and at last the tag.
func (j *job) pushAll(ctx context.Context, index v1.ImageIndex, sboms []v1.Image) error {
	pusher, err := remote.NewPusher(remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return err
	}
	repository := j.tag.Context()
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
		if err := j.pushSignatures(ctx, pusher, index); err != nil {
			return fmt.Errorf("signature: %w", err)
		}
	}
	return pusher.Push(ctx, *j.tag, index)
}

// pushSignatures signs the index, which clients resolve a tag to, and each image in it, which is what
// nodes verify.
func (j *job) pushSignatures(ctx context.Context, pusher *remote.Pusher, index v1.ImageIndex) error {
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
		signature, err := sign(j.key, j.tag.Name(), digest)
		if err != nil {
			return err
		}
		if err := pusher.Push(ctx, j.tag.Context().Tag(signatureTag(digest)), signature); err != nil {
			return err
		}
	}
	return nil
}
