package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

const (
	// maxBlobs is the config and what a node could mount: 501 layers
	// (containers/storage drivers/overlay, maxDepth).
	maxBlobs = 502
	// blobLife spans the verification of a whole cluster, whose images have layers in
	// common. The facts learned in that time about an image live as long as its Fact.
	blobLife = time.Minute
	// maxKnownBlobs bounds their number in memory: some 10 MB.
	maxKnownBlobs = 1 << 15
)

// A descriptor is an entry of a manifest that names a blob.
type descriptor struct {
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
	URLs   []string      `json:"urls"`
}

// blobsOf returns the blobs that nodes would fetch from the registry for an image, each
// once. It returns false if nodes cannot read the manifest.
func blobsOf(mediaType string, manifest []byte) ([]digest.Digest, bool) {
	var m struct {
		Config   descriptor   `json:"config"`
		Layers   []descriptor `json:"layers"`
		FSLayers []struct {
			BlobSum digest.Digest `json:"blobSum"`
		} `json:"fsLayers"`
	}
	if json.Unmarshal(manifest, &m) != nil {
		return nil, false
	}
	var blobs []digest.Digest
	if isSchema1(mediaType) {
		for _, l := range m.FSLayers {
			blobs = append(blobs, l.BlobSum)
		}
	} else {
		blobs = append(blobs, m.Config.Digest)
		for _, l := range m.Layers {
			if !IsElsewhere(l.URLs) {
				blobs = append(blobs, l.Digest)
			}
		}
	}
	slices.Sort(blobs)
	blobs = slices.Compact(blobs)
	unfit := func(d digest.Digest) bool { return d.Validate() != nil }
	return blobs, !slices.ContainsFunc(blobs, unfit)
}

// layersOf returns the size of the layers that a manifest names, each once; 0 if it does not say.
func layersOf(manifest []byte) int64 {
	var m struct {
		Layers []descriptor `json:"layers"`
	}
	if json.Unmarshal(manifest, &m) != nil {
		return 0
	}
	var size int64
	seen := map[digest.Digest]bool{}
	for _, l := range m.Layers[:min(len(m.Layers), maxBlobs)] {
		if !seen[l.Digest] && l.Size > 0 && size+l.Size > size {
			size += l.Size
		}
		seen[l.Digest] = true
	}
	return size
}

// IsElsewhere reports whether nodes would ask the addresses that a manifest names for
// a layer, and not the registry (docker_client.go, getBlob and getExternalBlob). No
// copy of the image has such layers, and nothing here asks those addresses.
func IsElsewhere(addresses []string) bool {
	return slices.ContainsFunc(addresses, func(u string) bool {
		parsed, err := url.Parse(u)
		return err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https")
	})
}

func isSchema1(mediaType string) bool { return types.MediaType(mediaType).IsSchema1() }

// blobs returns the blobs to look up.
func (l *lookup) blobs(mediaType string, manifest []byte) ([]digest.Digest, error) {
	blobs, ok := blobsOf(mediaType, manifest)
	switch {
	case !ok:
		return nil, mismatch("%s serves a manifest that nodes cannot read; push the image again", l.API())
	case len(blobs) > maxBlobs:
		return nil, wire.Unreachable("%s serves a manifest of %d blobs, more than any node could use; they were not looked for",
			l.API(), len(blobs))
	}
	return blobs, nil
}

// missingBlobs describes the blobs of a manifest that the registry does not hold, "" if it
// holds all.
func (l *lookup) missingBlobs(ctx context.Context, mediaType string, manifest []byte) (string, error) {
	blobs, err := l.blobs(mediaType, manifest)
	if err != nil {
		return "", err
	}
	held := make([]bool, len(blobs))
	known := l.known()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limits.BlobsPerImage)
	for i, d := range blobs {
		group.Go(func() (err error) {
			held[i], err = known.held(ctx, l, d)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	i := 0
	missing := slices.DeleteFunc(slices.Clone(blobs), func(digest.Digest) bool { i++; return held[i-1] })
	return lackOf(missing, len(blobs)), nil
}

func lackOf(missing []digest.Digest, of int) string {
	switch len(missing) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("1 of the %d blobs that it names (%s)", of, text.ShortDigest(missing[0].String()))
	default:
		return fmt.Sprintf("%d of the %d blobs that it names (%s and others)", len(missing), of, text.ShortDigest(missing[0].String()))
	}
}

// A blobCache remembers which blobs registries hold, so that a layer that many images of a
// repository have in common is asked for once. It is safe for concurrent use.
type blobCache struct {
	mu    sync.Mutex
	known map[blobKey]*blob
}

// known returns what was found with the credentials and the trust of l.
func (l *lookup) known() *blobCache { return wire.Kept[blobCache](&l.Exchange) }

type blobKey struct {
	repository wire.Repository
	digest     digest.Digest
}

// A blob is the lookup of one blob at a registry, with the answer once there is one.
type blob struct {
	*wire.SharedCall[bool]
	since time.Time
}

// usable reports whether b is under way or still counts. A missing blob is looked up again:
// it will be there once the image is copied.
func (b *blob) usable() bool {
	if !b.Finished() {
		return true
	}
	held, err := b.Wait(context.Background())
	return err == nil && held && time.Since(b.since) < blobLife
}

// held reports whether the registry that l asks holds a blob in the repository of l.
func (c *blobCache) held(ctx context.Context, l *lookup, d digest.Digest) (bool, error) {
	key := blobKey{l.target.Repository, d}
	c.mu.Lock()
	b := c.known[key]
	if b == nil || !b.usable() {
		of := *l // whose token it may renew
		b = &blob{wire.StartCall(&l.Exchange, func(ctx context.Context) (bool, error) {
			_, held, err := of.read(ctx, d, 0)
			return held, err
		}), time.Now()}
		c.insert(key, b)
	}
	c.mu.Unlock()
	return b.Wait(ctx)
}

// put notes that the registry holds a blob, as it has been read.
func (c *blobCache) put(l *lookup, d digest.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.insert(blobKey{l.target.Repository, d}, &blob{wire.Answered(true), time.Now()})
}

// insert is called with the lock held.
func (c *blobCache) insert(key blobKey, b *blob) {
	if c.known == nil || len(c.known) >= maxKnownBlobs {
		c.known = map[blobKey]*blob{}
	}
	c.known[key] = b
}

// read asks for a blob by GET, as nodes do, and reads no more than limit of it, or if that is 0 nothing: an answer to HEAD would
// prove no more of a blob than of a manifest. Redirects, to a storage or a CDN, are followed as nodes follow
// them.
func (l *lookup) read(ctx context.Context, d digest.Digest, limit int64) (r wire.Response, held bool, err error) {
	if r, err = l.Get(ctx, wire.Request{Path: "blobs/" + d.String(), Limit: limit, FirstByte: limit == 0}, wire.Response{}); err != nil {
		return r, false, err
	}
	if r.Status == http.StatusPartialContent || r.Status == http.StatusRequestedRangeNotSatisfiable { // the latter: it is empty
		return r, true, nil
	}
	switch f := l.Refused(r); {
	case f == nil:
		return r, true, nil
	case f.Presence == policy.Absent:
		return r, false, nil
	default:
		return r, false, f
	}
}
