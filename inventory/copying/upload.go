package copying

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/transfer"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
)

// holds asks p's repository for a blob by GET, as nodes do, and for its first byte: a registry may answer HEAD, mount, and take manifests, by what
// it remembers of a blob that its storage has lost. What cannot be read at a storage to which it leads, of which nodes may know more, is not
// held: it is sent once more.
func (p place) holds(ctx context.Context, of v1.Hash) (bool, error) {
	registry := "https://" + p.repo.RegistryStr() + "/"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, registry+"v2/"+p.repo.RepositoryStr()+"/blobs/"+of.String(), http.NoBody)
	if err != nil {
		return false, err
	}
	req.Header.Set("Range", "bytes=0-0")
	isEmpty := digest.Canonical.FromBytes(nil).String() == of.String()
	resp, err := p.client.Do(req)
	if err != nil {
		if transfer.Status(err) == http.StatusRequestedRangeNotSatisfiable {
			return isEmpty, nil
		}
		if at, ok := errors.AsType[*url.Error](err); ok && ctx.Err() == nil && !strings.HasPrefix(at.URL, registry) {
			return false, nil
		}
		return false, err
	}
	defer resp.Body.Close()
	// Of a registry that sends more than was asked for, what is short is read to its end, so that the connection stays.
	n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, wire.MaxOther))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return resp.StatusCode < http.StatusMultipleChoices && (n > 0 || isEmpty), nil
}

// mountFrom mounts a blob from a repository, or sends the content if the registry begins an upload instead. It reports whether either was
// done; neither is where registries refuse to mount. If it is not sure that the blob is there, it is asked for.
func (p place) mountFrom(ctx context.Context, layer *remoteBlob, from string, sure bool, content func() (io.ReadCloser, error)) (done bool, err error) {
	begun := false
	err = p.oras.Mount(ctx, layer.descriptor(), from, func() (io.ReadCloser, error) {
		begun = true
		return content()
	})
	switch refused := transfer.Status(err); {
	case begun:
		return true, err
	case err == nil && !sure:
		return p.holds(ctx, layer.what.digest)
	case refused >= 400 && refused < 500 && refused != http.StatusTooManyRequests:
		return false, nil
	default:
		return true, err
	}
}

// mount brings a blob into p's repository from another one of the registry. Where the registry does not do that, the
// blob is sent, once there is a slot for it.
func (p place) mount(ctx context.Context, layer *remoteBlob, from string, sure bool, slot func(context.Context) (func(), error)) error {
	whole, done := !p.inPieces.Load(), func() {}
	defer func() { done() }()
	begun := false
	mounted, err := p.mountFrom(ctx, layer, from, sure, func() (io.ReadCloser, error) {
		begun = true
		free, err := slot(ctx)
		if err != nil {
			return nil, err
		}
		done = free
		return layer.open()
	})
	switch {
	case begun:
		return p.inPiecesIf(ctx, layer, whole, err)
	case mounted || err != nil:
		return err
	}
	free, err := slot(ctx)
	if err != nil {
		return err
	}
	done = free
	return p.upload(ctx, layer, false)
}

// upload sends a blob to p's repository, with two requests, while it is already asked for at its source. If it may be there,
// the first of the two asks for it: it mounts the blob from the repository itself.
func (p place) upload(ctx context.Context, layer *remoteBlob, mayBeThere bool) (err error) {
	whole := !p.inPieces.Load()
	ahead := openAhead(layer)
	defer func() { _ = ahead.Close() }() // the part read was compared with its digest
	done := false
	if mayBeThere {
		done, err = p.mountFrom(ctx, layer, p.repo.RepositoryStr(), false, func() (io.ReadCloser, error) { return ahead, nil })
	}
	if !done && err == nil {
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
