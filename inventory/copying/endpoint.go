package copying

import (
	"context"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	orasregistry "oras.land/oras-go/v2/registry"
	oras "oras.land/oras-go/v2/registry/remote"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/transfer"
)

// An endpoint is a registry as the libraries' clients see it: go-containerregistry's reads, oras-go's writes, as it
// asks half as many requests for that.
type endpoint struct {
	puller *remote.Puller
	client *http.Client
	room   *room
	// inPieces is set if the registry does not take a blob in one request.
	inPieces atomic.Bool

	mu           sync.Mutex
	repositories map[string]*repository
}

// A place is a reference at a registry.
type place struct {
	*endpoint
	*repository
	ref name.Reference
}

func newEndpoint(ctx context.Context, r name.Registry, carrier http.RoundTripper, in *room) (*endpoint, error) {
	e := &endpoint{room: in, repositories: map[string]*repository{}}
	// A Wrapper is taken as it is: neither repeated requests nor authorization are the library's business.
	wrapped, err := transport.NewWithContext(ctx, r, authn.Anonymous, referrersWatch{carrier, e}, nil)
	if err != nil {
		return nil, err
	}
	e.client = &http.Client{Transport: uploads{carrier, e}}
	e.puller, err = remote.NewPuller(remote.WithTransport(wrapped), remote.WithJobs(blobsAtOnce))
	return e, err
}

// A repository is one at a registry, with the knowledge about it as a whole.
type repository struct {
	repo name.Repository
	oras *oras.Repository

	listing     sync.Once
	tags        map[string]bool // nil if they could not be listed
	missing     bool            // by the list of its tags
	listed      time.Time
	sampling    sync.Once
	isSampled   atomic.Bool // or is being sampled
	sampled     []string    // the tags of the first manifest's attachments
	sampleErr   error
	referring   sync.Once
	noReferrers atomic.Bool // it is not asked for referrers, as its registry does not know what they are
	blobSample  sync.Once
	noBlobs     bool     // if missing is set, and of one image it had none
	attaching   sync.Map // a *sync.Mutex by tag of an attachment, as images share parts and with them these tags
}

// repository returns the one of r at e.
func (e *endpoint) repository(r name.Repository) *repository {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.repositories[r.RepositoryStr()]
	if known == nil {
		known = &repository{repo: r, oras: &oras.Repository{
			Client:          e.client,
			Reference:       orasregistry.Reference{Registry: r.RegistryStr(), Repository: r.RepositoryStr()},
			SkipReferrersGC: true, // nothing is deleted
		}}
		e.repositories[r.RepositoryStr()] = known
	}
	return known
}

// maxTags is how many tags are read of a repository at most. One that has more is asked for single tags.
const maxTags = 20_000

// pageCost is what a page of them counts for beside its tags: a registry may give empty ones without end. TagCost is what a tag
// takes beside its name.
const (
	pageCost = 100
	tagCost  = 64
)

// list reads the tags of p's repository, once.
func (p place) list(ctx context.Context) {
	p.listing.Do(func() {
		p.listed = time.Now()
		lister, err := p.puller.Lister(ctx, p.repo)
		tags, read, taken := map[string]bool{}, 0, int64(0)
		defer func() {
			if p.tags == nil {
				p.room.give(taken)
			}
		}()
		for err == nil && lister.HasNext() {
			var page *remote.Tags
			if page, err = lister.Next(ctx); err != nil {
				break
			}
			more := int64(0)
			for _, t := range page.Tags {
				tags[t] = true
				more += tagCost + int64(len(t))
			}
			taken += more
			read += pageCost + len(page.Tags)
			if p.room.take(more, taken) != nil || read > maxTags { // tags that are named again count, too
				return
			}
		}
		switch {
		case transfer.IsAbsent(err) && p.lacksImage(ctx):
			p.missing, p.tags = true, tags
		case err == nil:
			p.tags = tags
		}
	})
}

// lacksImage reports whether the registry says that it has not what p names. Some have no lists of tags, or show none.
func (p place) lacksImage(ctx context.Context) bool {
	_, err := p.puller.Head(ctx, p.ref)
	return transfer.IsAbsent(err)
}

// lacks reports whether p's repository is known not to have tag.
func (p place) lacks(ctx context.Context, tag string) bool {
	p.list(ctx)
	return p.tags != nil && !p.tags[tag]
}

// isMissing reports whether p's repository is known not to exist; it may have blobs all the same.
func (p place) isMissing(ctx context.Context) bool {
	p.list(ctx)
	return p.missing
}

// A referrersWatch carries requests, and notes which repositories have no lists of referrers. The library then
// looks for a tag, and does not say so. All answers but blobs take room.
type referrersWatch struct {
	http.RoundTripper
	endpoint *endpoint
}

// RoundTrip implements http.RoundTripper.
func (w referrersWatch) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	for req.Response != nil && req.Response.Request != nil { // by which it was redirected
		req = req.Response.Request
	}
	if repository, _, ok := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/"), "/referrers/"); ok && transfer.HasNoReferrers(resp) {
		w.endpoint.note(repository)
	}
	if path.Base(path.Dir(req.URL.Path)) != "blobs" {
		resp.Body = &charged{ReadCloser: resp.Body, room: w.endpoint.room}
	}
	return resp, nil
}

// note remembers that a repository has no list of referrers.
func (e *endpoint) note(repository string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.repositories[repository]; r != nil {
		r.noReferrers.Store(true)
	}
}
