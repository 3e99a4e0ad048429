package copying

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/transfer"
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

// The limits for the parts of one image, some times those of real ones. The builder of an image chooses all of this.
const (
	maxParts    = 200
	maxBlobs    = 1000
	maxAttached = 100
	maxNesting  = 3
	// maxBlobSize is more than any registry takes, and little enough for sums of it.
	maxBlobSize = 1 << 40
	// maxManifests is for all manifests of an image, attached ones included.
	maxManifests = 1000
)

// The bounds of requests for one image. More would wait for the registry, and each waits in memory.
const (
	readsAtOnce = 32
	sendsAtOnce = 2 * blobsAtOnce // some only wait until another image has sent the blob
)

// A quota counts the manifests that have been read of one image, attached ones included, their bytes, and what they take of
// the room of the run.
type quota struct {
	room                    *room
	manifests, bytes, taken atomic.Int64
}

// take counts a manifest.
func (q *quota) take(raw []byte) error {
	if q.manifests.Add(1) > maxManifests {
		return fmt.Errorf("it has more than %d manifests, with what is attached to it; no more are read", maxManifests)
	}
	q.bytes.Add(int64(len(raw)))
	n := cost(raw)
	return q.room.take(n, q.taken.Add(n))
}

// attachedTags are the suffixes of the tags under which cosign attaches to an image what belongs to it.
var attachedTags = []string{".sig", ".att", ".sbom"}

// A reader reads an image at one place.
type reader struct {
	place
	quota *quota
}

// read reads the manifest of ref, and those below it, each once however often it is named.
func (r *reader) read(ctx context.Context, ref name.Reference) (*manifest, error) {
	top := &manifest{}
	if err := r.readOne(ctx, ref, top); err != nil {
		return nil, err
	}
	known := map[v1.Hash]*manifest{}
	var err error
	for level, nesting := []*manifest{top}, 0; len(level) > 0; nesting++ {
		if level, err = r.readParts(ctx, level, nesting, known); err != nil {
			return nil, err
		}
	}
	return top, nil
}

func (r *reader) readOne(ctx context.Context, ref name.Reference, m *manifest) error {
	got, err := r.puller.Get(ctx, ref)
	if err != nil {
		return err
	}
	if err := r.quota.take(got.Manifest); err != nil {
		return err
	}
	m.digest, m.mediaType, m.raw = got.Digest, mediaTypeOf(got), got.Manifest
	switch {
	case m.mediaType.IsSchema1():
		return errors.New("it is an image of schema 1, which is not copied; build it anew")
	case !m.mediaType.IsIndex():
		m.blobs, err = blobsOf(m.raw)
	}
	return err
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
	named := map[v1.Hash]bool{}
	for _, d := range all {
		if d.Size < 0 || d.Size > maxBlobSize {
			return nil, fmt.Errorf("its manifest says that %s has %d bytes", d.Digest, d.Size)
		}
		if d.Digest.Hex == "" || registry.IsElsewhere(d.URLs) || named[d.Digest] {
			continue // nodes fetch it elsewhere
		}
		named[d.Digest] = true
		blobs = append(blobs, blob{d.Digest, d.Size})
	}
	return blobs, nil
}

// readParts reads the parts of those of manifests that are indexes, and returns the ones that were not known.
func (r *reader) readParts(ctx context.Context, manifests []*manifest, nesting int, known map[v1.Hash]*manifest) ([]*manifest, error) {
	var parts []*manifest
	var listed []v1.Descriptor // as what the first index has each of parts
	for _, m := range manifests {
		below, err := m.listed(nesting)
		if err != nil {
			return nil, err
		}
		for _, d := range below {
			if known[d.Digest] == nil {
				known[d.Digest] = &manifest{}
				parts, listed = append(parts, known[d.Digest]), append(listed, d)
			}
			m.parts = append(m.parts, known[d.Digest])
		}
	}
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, d := range listed {
		if reading.Err() != nil {
			break
		}
		group.Go(func() error {
			err := r.readOne(reading, r.repo.Digest(d.Digest.String()), parts[i])
			if transfer.IsAbsent(err) {
				return fmt.Errorf("its index names a part for %s (%s) that is gone there", platformOf(d), d.Digest)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return parts, ctx.Err() // which ends the loop, too
}

// listed returns the parts of m, none if it is not an index.
func (m *manifest) listed(nesting int) ([]v1.Descriptor, error) {
	if !m.mediaType.IsIndex() {
		return nil, nil
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(m.raw))
	switch {
	case err != nil:
		return nil, errors.New("its index cannot be read")
	case len(index.Manifests) > maxParts || nesting > maxNesting:
		return nil, errors.New("its index has more parts than any image")
	default:
		return index.Manifests, nil
	}
}

func platformOf(d v1.Descriptor) string {
	if d.Platform == nil {
		return "no platform"
	}
	return d.Platform.OS + "/" + d.Platform.Architecture
}

// all returns m and the manifests below it, each once, those first that others name.
func (m *manifest) all() []*manifest {
	var all []*manifest
	seen := map[*manifest]bool{}
	var add func(*manifest)
	add = func(m *manifest) {
		if seen[m] {
			return
		}
		seen[m] = true
		for _, p := range m.parts {
			add(p)
		}
		all = append(all, m)
	}
	add(m)
	return all
}

// attachments are the manifests attached to one: under tags of its digest, and by referring to it. Note tells of unread
// ones of the latter, which nodes do not look at.
type attachments struct {
	of    v1.Hash
	found []*manifest
	note  string
	err   error
}

// attached returns the attachments of the manifests of images; those in known are not read again.
func (r *reader) attached(ctx context.Context, images []*manifest, known attachments) (attached []*manifest, notes []string, err error) {
	all := make([]attachments, len(images))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, m := range images {
		group.Go(func() error {
			if all[i] = known; m.digest != known.of {
				all[i] = r.attachedTo(ctx, m.digest)
			}
			return all[i].err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	for _, a := range all {
		attached = append(attached, a.found...)
		if a.note != "" && !slices.Contains(notes, a.note) {
			notes = append(notes, a.note)
		}
	}
	return attached, notes, nil
}

func (r *reader) attachedTo(ctx context.Context, of v1.Hash) attachments {
	a := attachments{of: of}
	var group sync.WaitGroup
	var referring []*manifest
	group.Go(func() {
		var err error
		if referring, err = r.referrers(ctx, of); err != nil {
			a.note = "not all of what refers to it, or to its parts, could be read: " + transfer.Reason(err)
		}
	})
	a.found, a.err = r.tagged(ctx, of)
	group.Wait()
	if a.err == nil {
		a.err = ctx.Err()
	}
	a.found = append(a.found, referring...)
	return a
}

// tagged returns the attachments of a digest under its tags. For the first digest of a repository, each tag is asked
// for, for others those in the list of tags. Some proxies list only tags that they have in store; a list without a
// tag that the first digest has is not relied on.
func (r *reader) tagged(ctx context.Context, of v1.Hash) (found []*manifest, err error) {
	if r.isSampled.Swap(true) {
		r.list(ctx) // while the sample is taken
	}
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

// tagFor returns a digest as it stands in the tags of its attachments.
func tagFor(of v1.Hash) string { return of.Algorithm + "-" + of.Hex }

func (r *reader) attachedUnder(ctx context.Context, of v1.Hash, suffixes []string) ([]*manifest, error) {
	found := make([]*manifest, len(suffixes))
	group, ctx := errgroup.WithContext(ctx)
	for i, suffix := range suffixes {
		group.Go(func() error {
			tag := tagFor(of) + suffix
			m, err := r.read(ctx, r.repo.Tag(tag))
			if transfer.IsAbsent(err) {
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
	named := map[v1.Hash]bool{}
	for _, d := range list.Manifests {
		if named[d.Digest] {
			continue
		}
		if named[d.Digest] = true; len(named) > maxAttached {
			return found, fmt.Errorf("more than %d do, and no more are read", maxAttached)
		}
		m, err := r.read(ctx, r.repo.Digest(d.Digest.String()))
		if transfer.IsAbsent(err) {
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
