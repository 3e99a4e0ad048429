package copying

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// looks returns where nodes look for signatures at the mirror once it has the image.
func (c *Copier) looks(j *Job) []policy.Look {
	if len(j.Readers) == 0 {
		return nil
	}
	digest := j.image.digest.String()
	runs := []policy.Instance{{Digest: digest}}
	var parts []string
	if j.image.mediaType.IsIndex() {
		runs = c.pull.Chosen(string(j.image.mediaType), j.image.raw)
		for _, m := range j.image.all() {
			if m != j.image && !m.mediaType.IsIndex() {
				parts = append(parts, m.digest.String())
			}
		}
	}
	return j.Looks(digest, runs, parts)
}

// attachedUnder returns what the copy brings to a tag, nil for nothing.
func (j *Job) attachedUnder(tag string) *manifest {
	if i := slices.IndexFunc(j.attached, func(m *manifest) bool { return m.tag == tag }); i >= 0 {
		return j.attached[i]
	}
	return nil
}

// leaveUnreadable leaves out what nodes would look at as signatures and could not read: they would stop there, and may not look at all
// where it comes from.
func (j *Job) leaveUnreadable(looks []policy.Look) {
	for i := range looks {
		tag, _ := tagOf(looks[i].At())
		if m := j.attachedUnder(tag); m != nil && m.mediaType != types.OCIManifestSchema1 {
			j.note("what is under the tag %s is no signature that nodes can read, and not copied", tag)
			j.attached = slices.DeleteFunc(j.attached, func(other *manifest) bool { return other == m })
		}
	}
}

// leavePulled leaves out what is attached and nodes pull as an image that they look for signatures of: its own are not copied with it, and nodes
// would stop there.
func (j *Job) leavePulled() {
	stops := func(m *manifest) bool {
		return !m.there && len(j.Readers.At(policy.Repository(j.To.Ref)+"@"+m.digest.String())) > 0
	}
	j.attached = slices.DeleteFunc(j.attached, func(m *manifest) bool {
		leaves := slices.ContainsFunc(m.all(), stops)
		if leaves {
			j.note("%s refers to it, and is not copied with it, as it is an image that nodes pull: it needs a copy of its own", text.ShortDigests(m.digest.String()))
		}
		return leaves
	})
}

// stopsNobody returns an error if nodes would stop at the mirror for its signatures once it has the image, or others of those that it has, and do
// not as long as it lacks them.
func (c *Copier) stopsNobody(ctx context.Context, j *Job, looks []policy.Look) error {
	var mu sync.Mutex
	found := policy.Facts{}
	ask := map[mirrors.Location]func(context.Context) policy.Fact{}
	for i := range looks {
		l := &looks[i]
		m, from := j.brought(l)
		ask[l.At()] = func(ctx context.Context) policy.Fact { return c.signaturesThere(ctx, j, l.At(), m != nil) }
		if m != nil && l.Requires() {
			ask[from] = func(ctx context.Context) policy.Fact { return c.pull.Probe(ctx, from) }
		}
	}
	err := eachOf(ctx, slices.Collect(maps.Keys(ask)), func(ctx context.Context, at mirrors.Location) error {
		fact := ask[at](ctx)
		mu.Lock()
		defer mu.Unlock()
		found[at] = &fact
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	for i := range looks {
		if err := c.stops(j, &looks[i], found); err != nil {
			return err
		}
	}
	return nil
}

// stops returns an error if nodes stop at the mirror where one looks, by what was found there and where the image comes from.
func (c *Copier) stops(j *Job, l *policy.Look, found policy.Facts) error {
	m, from := j.brought(l)
	if j.image.there && (m == nil || m.there) {
		return nil // nodes stop there as it is, or do not
	}
	brought, there := &policy.Fact{Presence: policy.Absent}, found.At(l.At())
	switch {
	case m == nil:
	case l.Requires():
		brought = found.At(from)
	default:
		brought = &policy.Fact{Presence: policy.Present, Digest: m.digest.String()}
	}
	why := l.Stops(there, brought, m != nil && (m.there || c.options.MoveTags))
	switch {
	case why == "":
		return nil
	case m != nil && !m.there && there.Presence != policy.Absent && !c.options.MoveTags:
		return errors.New(why + "; --move-tags replaces it")
	default:
		return errors.New(why)
	}
}

// brought returns what the copy brings to where a node looks, nil for nothing, and from where.
func (j *Job) brought(l *policy.Look) (*manifest, mirrors.Location) {
	tag, _ := tagOf(l.At())
	m := j.attachedUnder(tag)
	from, _ := j.origin.Signatures(l.Instance.Digest)
	for _, a := range j.Attachments {
		if other, _ := tagOf(a.To); m != nil && m.elsewhere != nil && other == tag {
			from = a.From
			from.Depth = mirrors.DepthSignatures
		}
	}
	return m, from
}

// signaturesThere returns what nodes find under a tag of signatures at the mirror today. A missing repository says nothing of its
// future contents; nor does a mirror that denies all, if the signatures are to come there.
func (c *Copier) signaturesThere(ctx context.Context, j *Job, at mirrors.Location, comes bool) policy.Fact {
	fact := c.pull.Probe(ctx, at)
	absent := policy.Fact{Presence: policy.Absent}
	switch {
	case fact.Presence == policy.Denied && j.Denied && comes:
		return absent
	case fact.NoRepository && c.pull.Probe(ctx, j.To).NoRepository:
		return absent
	default:
		return fact
	}
}
