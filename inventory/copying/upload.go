package copying

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/transfer"
)

// holds asks p's repository for a blob.
func (p place) holds(ctx context.Context, digest v1.Hash) (bool, error) {
	layer, err := p.puller.Layer(ctx, p.repo.Digest(digest.String()))
	if err != nil {
		return false, err
	}
	if _, err = layer.Size(); transfer.IsAbsent(err) {
		return false, nil
	}
	return err == nil, err
}

// mount brings a blob into p's repository from another one of the registry. Where the registry does not do that, the
// blob is sent, once there is a slot for it.
func (p place) mount(ctx context.Context, layer *remoteBlob, from string, slot func(context.Context) (func(), error)) error {
	what, whole, done := layer.descriptor(), !p.inPieces.Load(), func() {}
	defer func() { done() }()
	begun := false
	err := p.oras.Mount(ctx, what, from, func() (content io.ReadCloser, err error) {
		begun = true
		free, err := slot(ctx)
		if err != nil {
			return nil, err
		}
		done = free
		return layer.open()
	})
	if begun {
		return p.inPiecesIf(ctx, layer, whole, err)
	}
	if refused := transfer.Status(err); refused < 400 || refused >= 500 || refused == http.StatusTooManyRequests {
		return err
	}
	// Some registries refuse to mount instead of beginning an upload.
	free, err := slot(ctx)
	if err != nil {
		return err
	}
	done = free
	return p.upload(ctx, layer, false)
}

// upload sends a blob to p's repository, with two requests, while it is already asked for at its source. If it may be there,
// the first of the two asks for it: it mounts the blob from the repository itself.
func (p place) upload(ctx context.Context, layer *remoteBlob, mayBeThere bool) error {
	whole := !p.inPieces.Load()
	ahead := openAhead(layer)
	defer func() { _ = ahead.Close() }() // the part read was compared with its digest
	var err error
	if mayBeThere {
		err = p.oras.Mount(ctx, layer.descriptor(), p.repo.RepositoryStr(), func() (io.ReadCloser, error) { return ahead, nil })
	}
	if refused := transfer.Status(err); !mayBeThere || !ahead.begun.Load() && refused >= 400 && refused < 500 && refused != http.StatusTooManyRequests {
		err = p.oras.Blobs().Push(ctx, layer.descriptor(), ahead)
	}
	if !ahead.begun.Load() {
		return err
	}
	return p.inPiecesIf(ctx, layer, whole, err)
}

// inPiecesIf sends a blob in pieces if err, of an upload that was whole, is what a registry may say that takes only these.
func (p place) inPiecesIf(ctx context.Context, layer *remoteBlob, whole bool, err error) error {
	if err == nil || ctx.Err() != nil || !whole || !slices.Contains(refusesWhole, transfer.Status(err)) {
		return err
	}
	content, err := layer.open()
	if err != nil {
		return err
	}
	defer content.Close()
	p.inPieces.Store(true)
	if err = p.oras.Blobs().Push(ctx, layer.descriptor(), content); err != nil {
		p.inPieces.Store(false)
	}
	return err
}

// refusesWhole are the answers of a registry to a blob in one request that may take it in pieces.
var refusesWhole = []int{
	http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusLengthRequired,
	http.StatusRequestedRangeNotSatisfiable, http.StatusNotImplemented,
}

func (l *remoteBlob) descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{Digest: digest.Digest(l.what.digest.String()), Size: l.what.size}
}

// An aheadReader is the content of a blob that is asked for before it is read.
type aheadReader struct {
	opened  chan struct{} // closed when content and err are set
	content io.ReadCloser
	err     error
	begun   atomic.Bool
}

func openAhead(layer *remoteBlob) *aheadReader {
	a := &aheadReader{opened: make(chan struct{})}
	go func() {
		defer close(a.opened)
		a.content, a.err = layer.open()
	}()
	return a
}

// Read implements io.Reader.
func (a *aheadReader) Read(p []byte) (int, error) {
	a.begun.Store(true)
	if <-a.opened; a.err != nil {
		return 0, a.err
	}
	return a.content.Read(p)
}

// Close implements io.Closer.
func (a *aheadReader) Close() error {
	if <-a.opened; a.err != nil {
		return nil //nolint:nilerr // there is no content to close
	}
	return a.content.Close()
}

// put puts a manifest under ref.
func (j *Job) put(ctx context.Context, m *manifest, ref name.Reference) error {
	of := ocispec.Descriptor{MediaType: string(m.mediaType), Digest: digest.Digest(m.digest.String()), Size: int64(len(m.raw))}
	return j.to.oras.Manifests().PushReference(ctx, of, bytes.NewReader(m.raw), ref.Identifier())
}
