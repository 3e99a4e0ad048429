package copying

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// blobs are those that are at mirrors, or on the way to one. Each is sent to a registry once, and mounted into
// the other repositories there that need it.
type blobs struct {
	slots chan struct{}
	spare atomic.Int64 // bytes that may be sent beside those that are planned

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
	from     string // the repository where it is, "" for none that is known
	arrivals map[string]*arrival
}

// An arrival is a blob at a repository.
type arrival struct {
	busy  sync.Mutex // held while the repository is asked for it, or it is being brought there
	state blobState  // guarded by delivery.mu, so that a survey does not wait for transfers
}

// A blobState is the knowledge of a blob at a repository.
type blobState int

const (
	unasked blobState = iota
	lacking
	coming  // it is being brought there
	assumed // as a manifest that names it is there
	held
)

func newBlobs(atOnce int) *blobs {
	b := &blobs{slots: make(chan struct{}, atOnce), sent: map[blobKey]*delivery{}}
	b.spare.Store(math.MaxInt64)
	return b
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

// source returns the repository where the registry has the blob, "" for none that is known, and whether more than a manifest says so.
func (d *delivery) source() (from string, sure bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.from, d.from != "" && d.arrivals[d.from].state == held
}

// arrived notes that the blob is at a repository.
func (d *delivery) arrived(a *arrival, to name.Repository) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.state, d.from = held, to.RepositoryStr()
}

// gone notes that the blob is not at a repository, whatever was assumed.
func (d *delivery) gone(a *arrival, from name.Repository) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.state = lacking; d.from == from.RepositoryStr() {
		d.from = ""
	}
}

func (d *delivery) state(a *arrival) blobState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return a.state
}

func (d *delivery) set(a *arrival, state blobState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.state = state
}

// note remembers that a repository has a manifest that names a blob, which is no news where more is known of it.
func (b *blobs) note(to name.Repository, digest v1.Hash) {
	d := b.delivery(to, digest)
	a := d.arrival(to)
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.state == unasked {
		a.state = assumed
		d.from = cmp.Or(d.from, to.RepositoryStr())
	}
}

// has reports whether a repository is known to have a blob.
func (b *blobs) has(to name.Repository, digest v1.Hash) bool {
	d := b.delivery(to, digest)
	return d.state(d.arrival(to)) >= assumed
}

// ask asks a repository for a blob, unless that is known; if sure is set, by more than manifests. A blob under way is not there
// yet.
func (b *blobs) ask(ctx context.Context, at place, digest v1.Hash, sure bool) (bool, error) {
	d := b.delivery(at.repo, digest)
	a := d.arrival(at.repo)
	known := func() (there, ok bool) {
		state := d.state(a)
		return state >= assumed, state != unasked && (state != assumed || !sure)
	}
	if there, ok := known(); ok {
		return there, nil
	}
	a.busy.Lock()
	defer a.busy.Unlock()
	if there, ok := known(); ok {
		return there, nil
	}
	there, err := at.holds(ctx, digest)
	switch {
	case err != nil:
	case there:
		d.arrived(a, at.repo)
	default:
		d.gone(a, at.repo)
	}
	return there, err
}

// send brings a blob into a repository, unless it is there. Told is called with the bytes as they are sent; those
// of an attempt that failed are taken back.
func (b *blobs) send(ctx context.Context, from, to place, what blob, told func(int64)) error {
	d := b.delivery(to.repo, what.digest)
	a := d.arrival(to.repo)
	a.busy.Lock()
	defer a.busy.Unlock()
	before := d.state(a)
	if before >= assumed {
		return nil
	}
	d.set(a, coming)
	at, sure := d.source()
	if at == "" {
		d.first.Lock()
		if at, sure = d.source(); at != "" {
			d.first.Unlock()
		} else {
			defer d.first.Unlock()
		}
	}
	layer := &remoteBlob{ctx: ctx, from: from, what: what, told: told}
	var err error
	var unplanned int64
	if at != "" {
		// To mount it takes no slot, and nothing of what slots are for. If the registry does not mount it, it is sent once more than planned.
		err = to.mount(ctx, layer, at, sure, func(ctx context.Context) (func(), error) {
			if unplanned = what.size; b.spare.Add(-unplanned) < 0 {
				return nil, ErrLeft
			}
			return b.slot(ctx)
		})
	} else {
		err = b.upload(ctx, to, layer, before == unasked)
	}
	if err != nil {
		layer.takeBack()
		b.spare.Add(unplanned)
		d.set(a, before)
		return err
	}
	d.arrived(a, to.repo)
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

// A remoteBlob is a blob at the registry that it is copied from.
type remoteBlob struct {
	ctx  context.Context
	from place
	what blob
	told func(int64)
	read atomic.Int64 // the library may still read when it has failed
}

// open returns the content from its beginning. It is compared with the digest as it is read.
func (l *remoteBlob) open() (io.ReadCloser, error) {
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
