package copying

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// blobs are those that are at mirrors, or on the way to one. Each is sent to a registry once, and mounted into
// the other repositories there that need it.
type blobs struct {
	slots chan struct{}

	mu   sync.Mutex
	sent map[blobKey]*delivery
}

type blobKey struct {
	registry string
	digest   v1.Hash
}

// A delivery is a blob at a registry.
type delivery struct {
	mu   sync.Mutex // held while it is being sent
	held map[string]bool
	from name.Digest // where it is, once it is anywhere
}

func newBlobs(atOnce int) blobs {
	return blobs{slots: make(chan struct{}, atOnce), sent: map[blobKey]*delivery{}}
}

func (b *blobs) delivery(to name.Repository, digest v1.Hash) *delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := blobKey{to.RegistryStr(), digest}
	if b.sent[key] == nil {
		b.sent[key] = &delivery{held: map[string]bool{}}
	}
	return b.sent[key]
}

// note remembers that a repository has a blob.
func (b *blobs) note(to name.Repository, digest v1.Hash) {
	d := b.delivery(to, digest)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noteHeld(to, digest)
}

func (d *delivery) noteHeld(to name.Repository, digest v1.Hash) {
	d.held[to.RepositoryStr()] = true
	d.from = to.Digest(digest.String())
}

// send brings a blob into a repository, unless it is there. Told is called with the bytes as they are sent; those
// of an attempt that failed are taken back.
func (b *blobs) send(ctx context.Context, from, to place, what blob, told func(int64)) error {
	d := b.delivery(to.repo, what.digest)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held[to.repo.RepositoryStr()] {
		return nil
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	layer := &remoteBlob{ctx: ctx, from: from, what: what, told: told}
	var upload v1.Layer = layer
	if len(d.held) > 0 {
		upload = &remote.MountableLayer{Layer: layer, Reference: d.from}
	}
	if err := to.pusher.Upload(ctx, to.repo, upload); err != nil {
		layer.takeBack()
		return err
	}
	d.noteHeld(to.repo, what.digest)
	return nil
}

// A remoteBlob is a blob at a registry as a layer that the library can upload.
type remoteBlob struct {
	ctx  context.Context
	from place
	what blob
	told func(int64)
	read atomic.Int64 // the library may still read when it has failed
}

// Digest implements v1.Layer.
func (l *remoteBlob) Digest() (v1.Hash, error) { return l.what.digest, nil }

// DiffID implements v1.Layer. It is not asked for.
func (l *remoteBlob) DiffID() (v1.Hash, error) { return v1.Hash{}, errors.ErrUnsupported }

// Uncompressed implements v1.Layer. It is not asked for.
func (l *remoteBlob) Uncompressed() (io.ReadCloser, error) { return nil, errors.ErrUnsupported }

// Size implements v1.Layer.
func (l *remoteBlob) Size() (int64, error) { return l.what.size, nil }

// MediaType implements v1.Layer. The library leaves blobs of some types out; which those are was
// decided when the manifest was read.
func (l *remoteBlob) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// Compressed implements v1.Layer. The library compares what it reads with the digest.
func (l *remoteBlob) Compressed() (io.ReadCloser, error) {
	l.takeBack()
	source, err := l.from.puller.Layer(l.ctx, l.from.repo.Digest(l.what.digest.String()))
	if err != nil {
		return nil, err
	}
	content, err := source.Compressed()
	if err != nil {
		return nil, err
	}
	return &counted{content, l}, nil
}

func (l *remoteBlob) takeBack() {
	l.told(-l.read.Swap(0))
}

type counted struct {
	io.ReadCloser
	of *remoteBlob
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.of.read.Add(int64(n))
	c.of.told(int64(n))
	return n, err
}
