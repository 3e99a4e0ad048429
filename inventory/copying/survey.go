package copying

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/transfer"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// manifests returns those of j in the order in which they are put: the attachments, the parts of an index,
// and the image.
func (j *Job) manifests() []*manifest {
	var all []*manifest
	for _, m := range j.attached {
		all = append(all, m.all()...)
	}
	return append(all, j.image.all()...)
}

// survey reads the manifests to copy from the first place that has them, and looks for them at the mirror.
func (c *Copier) survey(ctx context.Context, j *Job) error {
	var err error
	if j.to, err = c.at(ctx, j.To, !j.Cache); err != nil {
		return err
	}
	j.Registry = j.to.repo.RegistryStr()
	if j.Cache {
		return c.inTime(ctx, j, c.surveyCache)
	}
	var ahead sync.WaitGroup
	ahead.Go(func() { j.to.list(ctx) })
	defer ahead.Wait()
	var failed []error
	for _, l := range j.From {
		err = c.inTime(ctx, j, func(ctx context.Context, j *Job) error { return c.readFrom(ctx, j, l) })
		if err == nil {
			return c.inTime(ctx, j, c.surveyMirror)
		}
		failed = append(failed, fmt.Errorf("%s: %s", l.Ref, transfer.Reason(err)))
	}
	return errors.Join(failed...)
}

// surveyTime is how long a part of a survey may take: longer than a registry may have one request wait (wire). One that sends little
// at a time would else keep the run from its end.
const surveyTime = 15 * time.Minute

var errSlow = fmt.Errorf("it could not be read within %.0f minutes", surveyTime.Minutes())

// inTime does a part of a survey, unless that takes too long.
func (c *Copier) inTime(ctx context.Context, j *Job, part func(context.Context, *Job) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, c.surveyTime, errSlow)
	defer cancel()
	err := part(limited, j)
	if err != nil && errors.Is(context.Cause(limited), errSlow) {
		return errSlow
	}
	return err
}

func (c *Copier) readFrom(ctx context.Context, j *Job, l mirrors.Location) (err error) {
	if j.from, err = c.at(ctx, l, false); err != nil {
		return err
	}
	r := c.reader(j, j.from)
	var known attachments
	var ahead sync.WaitGroup
	if of, err := v1.NewHash(j.Copy.Digest); err == nil {
		ahead.Go(func() { known = r.attachedTo(ctx, of) }) // while the manifest is read
	}
	image, err := j.readImage(ctx, r)
	ahead.Wait()
	if err != nil {
		return err
	}
	attached, notes, err := r.attached(ctx, image.all(), known)
	if err != nil {
		return err
	}
	j.image, j.attached, j.Notes, j.origin, j.Digest = image, attached, notes, l, image.digest.String()
	return nil
}

// reader returns what reads j at a place, instead of what was read before.
func (c *Copier) reader(j *Job, at place) *reader {
	j.forget()
	j.read = &quota{room: c.room}
	return &reader{at, j.read}
}

// readImage reads the image by its tag, which then is known to name it still, or else by its digest.
func (j *Job) readImage(ctx context.Context, r *reader) (*manifest, error) {
	_, byTag := r.ref.(name.Tag)
	if byTag || j.Copy.Digest == "" {
		m, err := r.read(ctx, r.ref)
		switch {
		case err == nil && (j.Copy.Digest == "" || m.digest.String() == j.Copy.Digest):
			j.asked = time.Now()
			return m, nil
		case err != nil && (j.Copy.Digest == "" || !transfer.IsAbsent(err)):
			return nil, err
		}
	}
	return r.read(ctx, r.repo.Digest(j.Copy.Digest))
}

// surveyMirror finds out what the mirror has of j.
func (c *Copier) surveyMirror(ctx context.Context, j *Job) error {
	if err := c.addSignatures(ctx, j); err != nil {
		return err
	}
	looks := c.looks(j)
	j.leaveUnreadable(looks)
	err := eachOf(ctx, j.manifests(), func(ctx context.Context, m *manifest) (err error) {
		m.there, err = j.has(ctx, m)
		return err
	})
	if err == nil {
		j.leavePulled()
		err = eachOf(ctx, j.manifests(), func(ctx context.Context, m *manifest) error { return c.surveyBlobsOf(ctx, j, m) })
	}
	if err == nil && (!j.image.there || c.options.MoveTags) {
		err = c.stopsNobody(ctx, j, looks)
	}
	if err != nil {
		return errors.New(transfer.Reason(err)) // which names the registry: the library's words before it are no help
	}
	return nil
}

// eachOf does something for each of what a registry is asked about, until that fails for one.
func eachOf[T any](ctx context.Context, all []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for _, one := range all {
		group.Go(func() error { return do(ctx, one) })
	}
	return group.Wait()
}

// addSignatures adds those that nodes accept and that are at other places than the image.
func (c *Copier) addSignatures(ctx context.Context, j *Job) error {
	for _, a := range j.Attachments {
		tag, ok := tagOf(a.To)
		if !ok || slices.ContainsFunc(j.attached, func(m *manifest) bool { return m.tag == tag }) {
			continue
		}
		from, err := c.at(ctx, a.From, false)
		if err != nil {
			return err
		}
		m, err := (&reader{place: from, quota: j.read}).read(ctx, from.ref)
		if err != nil {
			return fmt.Errorf("its signature at %s could not be read: %s", a.From.Ref, transfer.Reason(err))
		}
		m.tag, m.elsewhere = tag, &from
		j.attached = append(j.attached, m)
	}
	return nil
}

func tagOf(l mirrors.Location) (string, bool) {
	tag, err := name.NewTag(l.Ref, name.WithDefaultTag(""))
	return tag.TagStr(), err == nil && tag.TagStr() != ""
}

// surveyBlobsOf finds out which blobs of a manifest the mirror has. Registries take no manifest without its blobs, and may lose some: as long as the
// mirror lacks the image, nodes get it elsewhere, and with it they would stop there.
func (c *Copier) surveyBlobsOf(ctx context.Context, j *Job, m *manifest) error {
	if !m.there || j.unsure() {
		return c.surveyBlobs(ctx, j, m.blobs)
	}
	for _, b := range m.blobs {
		c.blobs.note(j.to.repo, b.digest)
	}
	return nil
}

// unsure reports whether that the mirror has a manifest is no proof that it has its blobs.
func (j *Job) unsure() bool { return j.Partial || !j.image.there }

// surveyBlobs finds out which of blobs the mirror has. A repository without a tag may have some, which came before
// an interruption. If it has not the config of the first image, which is among the first blobs to come, it is not asked for
// others, and what of them is there is found out when they are sent.
func (c *Copier) surveyBlobs(ctx context.Context, j *Job, blobs []blob) (err error) {
	if len(blobs) == 0 {
		return nil
	}
	if j.to.isMissing(ctx) {
		j.to.blobSample.Do(func() {
			var held bool
			held, err = c.blobs.ask(ctx, j.to, blobs[len(blobs)-1].digest, j.unsure()) // which is where blobsOf puts the config
			j.to.noBlobs = !held && err == nil
		})
		if err != nil || j.to.noBlobs {
			return err
		}
	}
	return eachOf(ctx, blobs, func(ctx context.Context, b blob) error {
		_, err := c.blobs.ask(ctx, j.to, b.digest, j.unsure())
		return err
	})
}

// has reports whether the mirror has a manifest, under the tag that it is to have.
func (j *Job) has(ctx context.Context, m *manifest) (bool, error) {
	var ref name.Reference = j.to.repo.Digest(m.digest.String())
	switch _, byTag := j.to.ref.(name.Tag); {
	case m.tag != "":
		ref = j.to.repo.Tag(m.tag)
	case m == j.image && byTag:
		ref = j.to.ref
	}
	if tag, byTag := ref.(name.Tag); j.to.isMissing(ctx) || byTag && j.to.lacks(ctx, tag.TagStr()) {
		return false, nil
	}
	got, err := j.to.puller.Get(ctx, ref) // as nodes ask
	if transfer.IsAbsent(err) {
		return false, nil
	}
	return err == nil && got.Digest == m.digest, err
}

// taggedNow returns the digest that a tag of the mirror names now, the zero value for none. A list without it is believed for a
// while; the lack of a list is not.
func (c *Copier) taggedNow(ctx context.Context, j *Job, tag name.Tag) (v1.Hash, error) {
	if time.Since(j.to.listed) < c.recently && j.to.lacks(ctx, tag.TagStr()) && !j.to.isMissing(ctx) {
		return v1.Hash{}, nil
	}
	return c.named(ctx, j, tag)
}

var errHidden = errors.New("what it names is not known, as the mirror says that there is no such repository, and has it; --move-tags sets it")

// named asks for the digest that a tag of the mirror names. An answer that there is no such repository is none, errHidden, where
// the mirror says otherwise of the image.
func (c *Copier) named(ctx context.Context, j *Job, tag name.Tag) (v1.Hash, error) {
	noRepository := func(ref name.Reference) bool {
		_, err := j.to.puller.Get(ctx, ref)
		return transfer.SaysNoRepository(err)
	}
	got, err := j.to.puller.Get(ctx, tag) // an answer to HEAD has no reason
	switch {
	case err == nil:
		return got.Digest, nil
	case !transfer.IsAbsent(err):
		return v1.Hash{}, err
	case transfer.SaysNoRepository(err) && !c.options.MoveTags &&
		!noRepository(j.to.repo.Digest(j.image.digest.String())) && noRepository(tag): // unless it has come to be meanwhile
		return v1.Hash{}, errHidden
	}
	return v1.Hash{}, nil
}

// digestOf asks for the digest of a manifest alone, as some registries count each that they serve, and where that does not say, for the manifest.
func digestOf(ctx context.Context, at *endpoint, ref name.Reference) (v1.Hash, error) {
	head, err := at.puller.Head(ctx, ref)
	if err == nil {
		return head.Digest, nil
	}
	if transfer.IsAbsent(err) || transfer.Status(err) != 0 {
		return v1.Hash{}, err
	}
	got, err := at.puller.Get(ctx, ref)
	if err != nil {
		return v1.Hash{}, err
	}
	return got.Digest, nil
}
