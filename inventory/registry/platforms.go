package registry

import (
	"bytes"
	"context"
	"net/http"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
)

// maxPlatforms bounds what a Fact remembers of an index.
const maxPlatforms = 64

// platforms returns what an index offers nodes, in its order. Where an
// architecture is asked for, a child that the registry does not hold is left out:
// a mirror may have copied the index and not all of what it lists.
func (q *question) platforms(ctx context.Context, index []byte) ([]string, error) {
	parsed, err := v1.ParseIndexManifest(bytes.NewReader(index))
	if err != nil {
		return nil, mismatch("%s serves an index that cannot be read; push the image again", q.endpoint.api)
	}
	var architectures []string
	if list := q.endpoint.way.options.Architectures; list != nil {
		architectures = list()
	}
	platforms := []string{}
	for _, child := range parsed.Manifests {
		if child.Platform == nil || child.Platform.OS == "unknown" || len(platforms) == maxPlatforms {
			continue // an attestation, or more than anybody needs
		}
		if slices.Contains(architectures, child.Platform.Architecture) {
			held, err := q.holds(ctx, child.Digest)
			if err != nil {
				return nil, err
			}
			if !held {
				continue
			}
		}
		platforms = append(platforms, oneLine(child.Platform.String(), maxQuote))
	}
	return platforms, nil
}

// holds reports whether the registry has the manifest of a child.
func (q *question) holds(ctx context.Context, child v1.Hash) (bool, error) {
	of := *q
	of.target.digest, of.target.tag = digest.Digest(child.String()), ""
	if of.target.digest.Validate() != nil {
		return false, nil
	}
	r, err := of.ask(ctx, http.MethodHead)
	if err != nil {
		return false, err
	}
	if _, ok := of.present(r); ok {
		return true, nil
	}
	if r, err = of.get(ctx, r); err != nil {
		return false, err
	}
	switch {
	case r.status == http.StatusNotFound, r.status == http.StatusGone:
		return false, nil
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		return false, denied(q.endpoint.api, r, q.credential)
	case r.status != http.StatusOK:
		return false, statusFailure(q.endpoint.api, r)
	}
	_, isManifest := of.manifestType(r)
	return isManifest && of.target.matches(r.body), nil
}
