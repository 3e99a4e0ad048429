package copying

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/transfer"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Options choose the images to copy, and how.
type Options struct {
	// MoveTags lets tags be moved that name another image at the mirror.
	MoveTags bool
	// Untagged leaves an image copied by digest without a tag. By default it gets one, as some
	// registries delete untagged images: Quay after an hour.
	Untagged bool
	// MaxBytes bounds the bytes of blobs that are sent to mirrors, 0 for no bound. All images are then surveyed before the first
	// is copied; the most important come first, and those for which there is no room fail with ErrLeft.
	MaxBytes int64
	// Images bounds the images that are copied at once; 0 means a number that keeps two registries busy.
	Images int
	// On is told of each job whose State has changed, by one caller at a time; it may be nil.
	On func(*Job)
}

// The default bounds. A blob that is under way takes some 100 kB, so these do not bound memory but the
// load on a registry. More blobs than images, so that blobs are under way while manifests are put; and no more surveys than
// blobs: with more, the last image would be surveyed before the first is sent.
const (
	imagesAtOnce  = 48
	blobsAtOnce   = 64
	surveysAtOnce = 64
)

// recently is for how long what a tag names is not asked again.
const recently = 5 * time.Second

// A Copier copies images. It is safe for concurrent use.
type Copier struct {
	options Options
	pull    *registry.Client
	push    transfer.Registries

	mu      sync.Mutex
	remote  map[remoteKey]*endpoint
	blobs   *blobs
	room    *room
	images  *fairshare.Queue // of the images that are copied at once, those first that come first
	telling sync.Mutex
	// recently, firstRest and surveyTime are the constants, but in tests.
	recently, firstRest, surveyTime time.Duration
}

type remoteKey struct {
	host             string
	insecure, pushes bool
}

// New returns a Copier that reads what it copies through pull, and everything at mirrors through push.
func New(pull *registry.Client, push transfer.Registries, o Options) *Copier {
	o.Images = cmp.Or(o.Images, imagesAtOnce)
	return &Copier{
		options: o, pull: pull, push: push, remote: map[remoteKey]*endpoint{}, blobs: newBlobs(blobsAtOnce), room: newRoom(),
		images: fairshare.New(int64(o.Images)), recently: recently, firstRest: firstRest, surveyTime: surveyTime,
	}
}

// at returns the place of l, to be read or written.
func (c *Copier) at(ctx context.Context, l mirrors.Location, pushes bool) (place, error) {
	ref, err := name.ParseReference(l.Ref)
	if err != nil {
		return place{}, fmt.Errorf("the reference %q cannot be copied: %w", l.Ref, err)
	}
	e, err := c.endpoint(ctx, l, ref.Context().Registry, pushes)
	if err != nil {
		return place{}, err
	}
	return place{e, e.repository(ref.Context()), ref}, nil
}

func (c *Copier) endpoint(ctx context.Context, l mirrors.Location, r name.Registry, pushes bool) (*endpoint, error) {
	key := remoteKey{r.RegistryStr(), l.Insecure, pushes}
	if pushes { // a destination is known once, by any of its names; reading a source may need the credentials of one name
		key.host = mirrors.OneSpelling(key.host)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.remote[key]; e != nil {
		return e, nil
	}
	var registries transfer.Registries = c.pull
	in := c.room
	if pushes {
		registries, in = c.push, newRoom() // which those that build images do not fill
	}
	carrier, err := transfer.New(registries, l, pushes)
	if err != nil {
		return nil, err
	}
	e, err := newEndpoint(ctx, r, carrier, in)
	if err != nil {
		return nil, err
	}
	c.remote[key] = e
	return e, nil
}

func (c *Copier) tell(j *Job) {
	if c.options.On == nil {
		return
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	c.options.On(j)
}
