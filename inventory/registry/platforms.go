package registry

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// maxPlatforms bounds what a Fact remembers of an index.
const maxPlatforms = 64

// contents is what an index offers nodes.
type contents struct {
	platforms []string // in its order, those held or not looked up
	missing   []string // listed for an architecture in use, and not held in full
	lack      string   // what one of these lacks, "" if it is not there at all
	children  []string // digests of all that it lists
}

// contents reads an index. Where an architecture is asked for, it is looked up
// whether the registry holds the child: a mirror may have copied the index and not
// all of what it lists.
func (q *question) contents(ctx context.Context, index []byte) (contents, error) {
	parsed, err := v1.ParseIndexManifest(bytes.NewReader(index))
	if err != nil {
		return contents{}, mismatch("%s serves an index that cannot be read; push the image again", q.endpoint.api)
	}
	var architectures []string
	if list := q.endpoint.way.options.Architectures; list != nil {
		architectures = list()
	}
	c := contents{platforms: []string{}}
	for _, child := range parsed.Manifests {
		if child.Platform == nil || child.Platform.OS == "unknown" || len(c.children) == maxPlatforms {
			continue // an attestation, or more than anybody needs
		}
		c.children = append(c.children, oneLine(child.Digest.String(), maxQuote))
		platform := oneLine(child.Platform.String(), maxQuote)
		if slices.Contains(architectures, child.Platform.Architecture) {
			held, lack, err := q.holds(ctx, child.Digest)
			if err != nil {
				return contents{}, err
			}
			if lack != "" && c.lack == "" {
				c.lack = fmt.Sprintf("its part for %s lacks %s", platform, lack)
			}
			if !held || lack != "" {
				c.missing = append(c.missing, platform)
				continue
			}
		}
		c.platforms = append(c.platforms, platform)
	}
	return c, nil
}

// holds reports whether the registry has the manifest of a child and, where the blobs
// are wanted, says which of these it lacks.
func (q *question) holds(ctx context.Context, child v1.Hash) (held bool, lack string, err error) {
	of := *q
	of.target.digest, of.target.tag = digest.Digest(child.String()), ""
	if of.target.digest.Validate() != nil {
		return false, "", nil
	}
	var r response
	if of.target.depth < mirrors.DepthBlobs {
		if r, err = of.ask(ctx, http.MethodHead); err != nil {
			return false, "", err
		}
		if _, ok := of.present(r); ok {
			return true, "", nil
		}
	}
	if r, err = of.get(ctx, r); err != nil {
		return false, "", err
	}
	switch {
	case r.status == http.StatusNotFound, r.status == http.StatusGone:
		return false, "", nil
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		return false, "", of.denied(r)
	case r.status != http.StatusOK:
		return false, "", statusFailure(q.endpoint.api, r)
	}
	mediaType, isManifest := of.manifestType(r)
	if !isManifest || !of.target.matches(r.body) {
		return false, "", nil
	}
	if of.target.depth == mirrors.DepthBlobs && !isIndex(mediaType) {
		lack, err = of.lack(ctx, mediaType, r.body)
	}
	return err == nil, lack, err
}
