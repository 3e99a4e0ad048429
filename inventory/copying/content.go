package copying

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
)

// A manifest is one that is copied, byte for byte, with all that it names.
type manifest struct {
	digest    v1.Hash
	mediaType types.MediaType
	raw       []byte
	blobs     []blob
	parts     []*manifest // of an index
	// tag is the one under which it is attached to an image, "" for none.
	tag string
	// elsewhere is where it is, if that is not where the image is.
	elsewhere *place
	// there is set if the mirror has it.
	there bool
}

// A blob is a config or a layer.
type blob struct {
	digest v1.Hash
	size   int64
}

// The limits of what one image may consist of, some times what real ones do.
const (
	maxParts    = 200
	maxBlobs    = 1000
	maxAttached = 100
	maxNesting  = 3
)

// attachedTags are the suffixes of the tags under which cosign attaches to an image what belongs to it.
var attachedTags = []string{signatureSuffix, ".att", ".sbom"}

// signatureSuffix is that of signatures.
const signatureSuffix = ".sig"

// A reader reads images at one place.
type reader struct {
	place
	platforms []string
}

// read reads the manifest of ref, and those below it.
func (r *reader) read(ctx context.Context, ref name.Reference, depth int) (*manifest, error) {
	got, err := r.puller.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	m := &manifest{digest: got.Digest, mediaType: mediaTypeOf(got), raw: got.Manifest}
	switch {
	case m.mediaType.IsSchema1():
		return nil, errors.New("it is an image of schema 1, which is not copied; build it anew")
	case m.mediaType.IsIndex():
		return m, r.readParts(ctx, m, depth)
	default:
		m.blobs, err = blobsOf(m.raw)
		return m, err
	}
}

// mediaTypeOf goes by what the registry says, without parameters.
func mediaTypeOf(d *remote.Descriptor) types.MediaType {
	mediaType, _, _ := strings.Cut(string(d.MediaType), ";")
	return types.MediaType(strings.TrimSpace(mediaType))
}

func blobsOf(raw []byte) ([]blob, error) {
	type descriptor struct {
		Digest v1.Hash  `json:"digest"`
		Size   int64    `json:"size"`
		URLs   []string `json:"urls"`
	}
	var m struct {
		Config        descriptor   `json:"config"`
		Layers, Blobs []descriptor // the latter in OCI's artifacts of old
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, errors.New("its manifest cannot be read")
	}
	all := append(slices.Concat(m.Layers, m.Blobs), m.Config)
	if len(all) > maxBlobs {
		return nil, fmt.Errorf("its manifest names %d blobs, more than any image has", len(all))
	}
	var blobs []blob
	for _, d := range all {
		elsewhere := slices.ContainsFunc(d.URLs, isWeb)
		if d.Digest.Hex == "" || elsewhere || slices.ContainsFunc(blobs, func(b blob) bool { return b.digest == d.Digest }) {
			continue // what nodes fetch elsewhere is in no copy
		}
		blobs = append(blobs, blob{d.Digest, d.Size})
	}
	return blobs, nil
}

func isWeb(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

func (r *reader) readParts(ctx context.Context, m *manifest, depth int) error {
	index, err := v1.ParseIndexManifest(bytes.NewReader(m.raw))
	switch {
	case err != nil:
		return errors.New("its index cannot be read")
	case len(index.Manifests) > maxParts || depth > maxNesting:
		return errors.New("its index has more parts than any image")
	}
	wanted := r.wanted(index.Manifests)
	m.parts = make([]*manifest, len(wanted))
	group, ctx := errgroup.WithContext(ctx)
	for i, d := range wanted {
		group.Go(func() (err error) {
			m.parts[i], err = r.read(ctx, r.repo.Digest(d.Digest.String()), depth+1)
			if registry.IsAbsent(err) {
				return fmt.Errorf("its index names a part for %s (%s) that is gone there; --platforms leaves out what nodes do not need", platformOf(d), d.Digest)
			}
			return err
		})
	}
	return group.Wait()
}

func platformOf(d v1.Descriptor) string {
	if d.Platform == nil {
		return "no platform"
	}
	return d.Platform.OS + "/" + d.Platform.Architecture
}

// attestationOf is the annotation by which BuildKit says to which part an attestation belongs.
const attestationOf = "vnd.docker.reference.digest"

// wanted returns the parts to be copied: for the platforms that are chosen, and what attests these.
func (r *reader) wanted(all []v1.Descriptor) []v1.Descriptor {
	if len(r.platforms) == 0 {
		return all
	}
	var chosen []v1.Descriptor
	isChosen := func(digest string) bool {
		return slices.ContainsFunc(chosen, func(d v1.Descriptor) bool { return d.Digest.String() == digest })
	}
	for _, d := range all {
		if d.Platform == nil || slices.Contains(r.platforms, platformOf(d)) {
			chosen = append(chosen, d)
		}
	}
	for _, d := range all {
		if of := d.Annotations[attestationOf]; of != "" && isChosen(of) && !isChosen(d.Digest.String()) {
			chosen = append(chosen, d)
		}
	}
	return chosen
}

// all returns m and the manifests below it, those first that others name.
func (m *manifest) all() []*manifest {
	var all []*manifest
	for _, p := range m.parts {
		all = append(all, p.all()...)
	}
	return append(all, m)
}

// attached returns what is attached to the manifests of images: under tags of theirs, and by referring to them.
// The notes say what could not be read of the latter, which nodes do not look at.
func (r *reader) attached(ctx context.Context, images []*manifest) (attached []*manifest, notes []string, err error) {
	found := make([][]*manifest, len(images))
	said := make([]string, len(images))
	group, ctx := errgroup.WithContext(ctx)
	referring := make([][]*manifest, len(images))
	for i, m := range images {
		group.Go(func() (err error) {
			found[i], err = r.tagged(ctx, m.digest)
			return err
		})
		group.Go(func() (err error) {
			if referring[i], err = r.referrers(ctx, m.digest); err != nil && ctx.Err() == nil {
				said[i] = fmt.Sprintf("what refers to %s could not be read: %s", m.digest, registry.Reason(err))
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	for i := range images {
		attached = append(append(attached, found[i]...), referring[i]...)
		if said[i] != "" {
			notes = append(notes, said[i])
		}
	}
	return attached, notes, nil
}

// tagged returns what is attached to a digest under its tags. For the first digest of a repository, each tag is asked
// for, for others what the list of tags has. Some proxies list only what they have in store; if the list lacks
// a tag that the first digest has, it is not relied on.
func (r *reader) tagged(ctx context.Context, of v1.Hash) (found []*manifest, err error) {
	first := false
	r.sampling.Do(func() {
		first = true
		found, err = r.attachedUnder(ctx, of, attachedTags)
		r.sampleErr = err
		for _, m := range found {
			r.sampled = append(r.sampled, m.tag)
		}
	})
	if first {
		return found, err
	}
	suffixes := attachedTags
	if r.sampleErr == nil && !slices.ContainsFunc(r.sampled, func(tag string) bool { return r.lacks(ctx, tag) }) {
		suffixes = slices.DeleteFunc(slices.Clone(suffixes), func(s string) bool { return r.lacks(ctx, tagFor(of)+s) })
	}
	return r.attachedUnder(ctx, of, suffixes)
}

// tagFor returns a digest as what is attached to it has it in its tag.
func tagFor(of v1.Hash) string { return of.Algorithm + "-" + of.Hex }

func (r *reader) attachedUnder(ctx context.Context, of v1.Hash, suffixes []string) ([]*manifest, error) {
	found := make([]*manifest, len(suffixes))
	group, ctx := errgroup.WithContext(ctx)
	for i, suffix := range suffixes {
		group.Go(func() error {
			tag := tagFor(of) + suffix
			m, err := r.read(ctx, r.repo.Tag(tag), 0)
			if registry.IsAbsent(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("what is attached under the tag %s could not be read: %w", tag, err)
			}
			m.tag = tag
			found[i] = m
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(m *manifest) bool { return m == nil }), nil
}

// referrers returns the manifests that say of themselves that they refer to a digest.
func (r *reader) referrers(ctx context.Context, of v1.Hash) ([]*manifest, error) {
	index, err := r.listReferrers(ctx, of)
	if index == nil || err != nil {
		return nil, err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var found []*manifest
	for _, d := range list.Manifests[:min(len(list.Manifests), maxAttached)] {
		m, err := r.read(ctx, r.repo.Digest(d.Digest.String()), 0)
		if registry.IsAbsent(err) {
			continue // the list outlives what it names
		}
		if err != nil {
			return found, err
		}
		if m.subject() == of.String() {
			found = append(found, m)
		}
	}
	return found, nil
}

// listReferrers returns the list of what refers to a digest, nil for none. Where the registry has no such lists, the
// tag under which there may be one instead is asked for unless it is known not to be there.
func (r *reader) listReferrers(ctx context.Context, of v1.Hash) (index v1.ImageIndex, err error) {
	ask := func() {
		index, err = remote.Referrers(r.repo.Digest(of.String()), remote.Reuse(r.puller), remote.WithContext(ctx))
	}
	first := false
	r.referring.Do(func() { first = true; ask() })
	if !first && (!r.noReferrers.Load() || !r.lacks(ctx, tagFor(of))) {
		ask()
	}
	return index, err
}

func (m *manifest) subject() string {
	var of struct {
		Subject struct {
			Digest string `json:"digest"`
		} `json:"subject"`
	}
	if json.Unmarshal(m.raw, &of) != nil {
		return ""
	}
	return of.Subject.Digest
}
