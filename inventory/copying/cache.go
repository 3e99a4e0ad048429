package copying

import (
	"context"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/transfer"
)

// seeUpstream is what helps where a cache does not serve an image.
const seeUpstream = "see to the upstream of the cache, or to its credentials there"

// surveyCache reads the manifests of j through the cache at To, as nodes do and with their credentials, which brings them there.
func (c *Copier) surveyCache(ctx context.Context, j *Job) error {
	at, err := c.at(ctx, j.To, false)
	if err != nil {
		return err
	}
	r := c.reader(j, at)
	image, err := r.read(ctx, at.ref)
	if err != nil {
		return fmt.Errorf("%s: %s", transfer.Reason(err), seeUpstream)
	}
	if _, byTag := at.ref.(name.Tag); byTag && j.Copy.Digest != "" && image.digest.String() != j.Copy.Digest {
		return fmt.Errorf("the cache serves another image under the tag, %s: %s", text.ShortDigests(image.digest.String()), seeUpstream)
	}
	attached, notes, err := r.attached(ctx, image.all(), attachments{})
	if err != nil {
		return fmt.Errorf("what is attached to it could not be read: %s", transfer.Reason(err))
	}
	j.image, j.attached, j.Notes, j.Digest, j.from, j.to = image, attached, notes, image.digest.String(), at, at
	return nil
}

// pullThrough reads the blobs of j through the cache, each once for a repository, and keeps none of them.
func (c *Copier) pullThrough(ctx context.Context, j *Job) error {
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(sendsAtOnce)
	for _, m := range j.manifests() {
		for _, b := range m.blobs {
			group.Go(func() error {
				return c.blobs.pull(reading, j.from, b, j.count)
			})
		}
	}
	return group.Wait()
}

// pull reads a blob to its end, unless that was done.
func (b *blobs) pull(ctx context.Context, from place, what blob, told func(int64)) error {
	d := b.delivery(from.repo, what.digest)
	a := d.arrival(from.repo)
	a.busy.Lock()
	defer a.busy.Unlock()
	if d.state(a) == held {
		return nil
	}
	done, err := b.slot(ctx)
	if err != nil {
		return err
	}
	defer done()
	layer := &remoteBlob{ctx: ctx, from: from, what: what, told: told}
	content, err := layer.open()
	if err == nil {
		_, err = io.Copy(io.Discard, content)
		content.Close()
	}
	if err != nil {
		layer.takeBack()
		return err
	}
	d.arrived(a, from.repo)
	return nil
}

// throughCache is for a mirror that has said that it is a cache when something was pushed to it.
func (c *Copier) throughCache(ctx context.Context, j *Job) error {
	j.Cache = true
	if err := c.inTime(ctx, j, c.surveyCache); err != nil {
		return err
	}
	return c.copyAgain(ctx, j)
}
