package copying

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
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
	first sync.Mutex // held until it is anywhere at the registry

	mu       sync.Mutex
	from     name.Digest // where it is, once it is anywhere
	arrivals map[string]*arrival
}

// An arrival is a blob at a repository.
type arrival struct {
	mu sync.Mutex // held while the repository is asked for it, or it is being brought there
	blobState
}

type blobState int

const (
	unasked blobState = iota
	lacking
	held
)

func newBlobs(atOnce int) blobs {
	return blobs{slots: make(chan struct{}, atOnce), sent: map[blobKey]*delivery{}}
}

func (b *blobs) delivery(to name.Repository, digest v1.Hash) *delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := blobKey{to.RegistryStr(), digest}
	if b.sent[key] == nil {
		b.sent[key] = &delivery{arrivals: map[string]*arrival{}}
	}
	return b.sent[key]
}

func (d *delivery) arrival(to name.Repository) *arrival {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.arrivals[to.RepositoryStr()]
	if a == nil {
		a = &arrival{}
		d.arrivals[to.RepositoryStr()] = a
	}
	return a
}

// source returns where the registry has the blob; RepositoryStr is "" for nowhere that is known.
func (d *delivery) source() (from name.Digest, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.from, d.from != name.Digest{}
}

// arrived notes that the blob is at a repository, whose arrival is locked.
func (d *delivery) arrived(a *arrival, to name.Repository, digest v1.Hash) {
	a.blobState = held
	d.mu.Lock()
	defer d.mu.Unlock()
	d.from = to.Digest(digest.String())
}

// note remembers that a repository has a blob.
func (b *blobs) note(to name.Repository, digest v1.Hash) {
	d := b.delivery(to, digest)
	a := d.arrival(to)
	a.mu.Lock()
	defer a.mu.Unlock()
	d.arrived(a, to, digest)
}

// has reports whether a repository is known to have a blob.
func (b *blobs) has(to name.Repository, digest v1.Hash) bool {
	a := b.delivery(to, digest).arrival(to)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.blobState == held
}

// ask asks a repository for a blob, unless that is known.
func (b *blobs) ask(ctx context.Context, at place, digest v1.Hash) (bool, error) {
	d := b.delivery(at.repo, digest)
	a := d.arrival(at.repo)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.blobState != unasked {
		return a.blobState == held, nil
	}
	there, err := at.holds(ctx, digest)
	switch {
	case err != nil:
	case there:
		d.arrived(a, at.repo, digest)
	default:
		a.blobState = lacking
	}
	return there, err
}

// send brings a blob into a repository, unless it is there. Told is called with the bytes as they are sent; those
// of an attempt that failed are taken back.
func (b *blobs) send(ctx context.Context, from, to place, what blob, told func(int64)) error {
	d := b.delivery(to.repo, what.digest)
	a := d.arrival(to.repo)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.blobState == held {
		return nil
	}
	at, known := d.source()
	if !known {
		d.first.Lock()
		if at, known = d.source(); known {
			d.first.Unlock()
		} else {
			defer d.first.Unlock()
		}
	}
	layer := &remoteBlob{ctx: ctx, from: from, what: what, told: told}
	var err error
	if known {
		// To mount it takes no slot, and nothing of what slots are for.
		err = to.mount(ctx, layer, at.RepositoryStr(), b.slot)
	} else {
		err = b.upload(ctx, to, layer, a.blobState == unasked)
	}
	if err != nil {
		layer.takeBack()
		return err
	}
	d.arrived(a, to.repo, what.digest)
	return nil
}

// slot waits until a blob may be sent. The function that it returns ends that.
func (b *blobs) slot(ctx context.Context) (func(), error) {
	select {
	case b.slots <- struct{}{}:
		return func() { <-b.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *blobs) upload(ctx context.Context, to place, layer *remoteBlob, mayBeThere bool) error {
	done, err := b.slot(ctx)
	if err != nil {
		return err
	}
	defer done()
	return to.upload(ctx, layer, mayBeThere)
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

// A counted is the content of a blob as it is sent. Its last bytes come only when all of them were found to be what the
// digest says: a registry that does not compare them would otherwise have the blob.
type counted struct {
	io.ReadCloser
	of *remoteBlob
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err == nil && c.of.read.Load()+int64(n) >= c.of.what.size {
		err = c.end()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	c.of.read.Add(int64(n))
	c.of.told(int64(n))
	return n, err
}

// end reads the end of the content, which is an error unless it is io.EOF.
func (c *counted) end() error {
	var more [1]byte
	for {
		n, err := c.ReadCloser.Read(more[:])
		switch {
		case n > 0:
			return errors.New("a blob has more bytes than its manifest says")
		case err != nil:
			return err
		}
	}
}
