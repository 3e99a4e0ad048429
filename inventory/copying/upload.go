package copying

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
)

// holds asks p's repository for a blob.
func (p place) holds(ctx context.Context, digest v1.Hash) (bool, error) {
	layer, err := p.puller.Layer(ctx, p.repo.Digest(digest.String()))
	if err != nil {
		return false, err
	}
	if _, err = layer.Size(); registry.IsAbsent(err) {
		return false, nil
	}
	return err == nil, err
}

// upload brings a blob into p's repository, with two requests: it is mounted from another repository of the registry or,
// where origin is "" or the registry does not do that, sent.
func (p place) upload(ctx context.Context, layer *remoteBlob, origin string) error {
	if layer.what.size <= 0 || p.inPieces.Load() {
		return p.pusher.Upload(ctx, p.repo, layer)
	}
	err := p.uploadWhole(ctx, layer, origin)
	if ctx.Err() != nil || !takesOnlyPieces(err) {
		return err
	}
	if inPieces := p.pusher.Upload(ctx, p.repo, layer); inPieces != nil {
		return inPieces
	}
	p.inPieces.Store(true)
	return nil
}

// takesOnlyPieces reports whether err is what a registry may answer to a blob that comes in one request.
func takesOnlyPieces(err error) bool {
	var rejected *sendError
	refusals := []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusLengthRequired, http.StatusRequestedRangeNotSatisfiable, http.StatusNotImplemented}
	return errors.As(err, &rejected) && slices.Contains(refusals, registry.Status(err))
}

// A sendError says that a blob could not be sent after its upload had begun.
type sendError struct{ error }

// Unwrap returns the reason.
func (e *sendError) Unwrap() error { return e.error }

func (p place) uploadWhole(ctx context.Context, layer *remoteBlob, origin string) error {
	what := ocispec.Descriptor{Digest: digest.Digest(layer.what.digest.String()), Size: layer.what.size}
	begun := false
	content := func() (io.ReadCloser, error) { begun = true; return layer.Compressed() }
	var err error
	if origin != "" {
		err = p.oras.Mount(ctx, what, origin, content)
	}
	if refused := registry.Status(err); origin == "" || !begun && refused >= 400 && refused < 500 && refused != http.StatusTooManyRequests {
		// Some registries refuse to mount instead of beginning an upload.
		err = p.oras.Blobs().Push(ctx, what, &lazy{open: content})
	}
	if err != nil && begun {
		return &sendError{err}
	}
	return err
}

// A lazy opens what it reads when it is first read.
type lazy struct {
	open func() (io.ReadCloser, error)
	io.ReadCloser
}

// Read implements io.Reader.
func (l *lazy) Read(p []byte) (n int, err error) {
	if l.ReadCloser == nil {
		if l.ReadCloser, err = l.open(); err != nil {
			return 0, err
		}
	}
	return l.ReadCloser.Read(p)
}

// Close implements io.Closer.
func (l *lazy) Close() error {
	if l.ReadCloser == nil {
		return nil
	}
	return l.ReadCloser.Close()
}

// put puts a manifest under ref.
func (j *Job) put(ctx context.Context, m *manifest, ref name.Reference) error {
	what := ocispec.Descriptor{MediaType: string(m.mediaType), Digest: digest.Digest(m.digest.String()), Size: int64(len(m.raw))}
	return j.to.oras.Manifests().PushReference(ctx, what, bytes.NewReader(m.raw), ref.Identifier())
}
