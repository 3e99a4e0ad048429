package copying

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/transfer"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A State names the stage that a Job has reached.
type State string

// The states of a Job.
const (
	// Open means that it has yet to be copied.
	Open State = "Open"
	// Started means that it is being copied.
	Started State = "Started"
	// Copied means that all of it is at the mirror.
	Copied State = "Copied"
	// There means that the mirror had all of it.
	There State = "Present"
	// Failed means that it is not copied; Job.Err says why.
	Failed State = "Failed"
)

// A Job is one image to be copied.
type Job struct {
	policy.Copy
	// State, Err and Notes may be read when Survey or Copy has returned, or by Options.On for the job
	// that it is called for.
	State State
	Err   error
	Notes []string
	// Wanted is set by a survey that finds something to be sent, and Bytes is how many have to be, those not counted
	// that another job sends to the same registry, too.
	Wanted bool
	Bytes  int64
	// Digest is that of the image, and Registry where it is copied to.
	Digest, Registry string

	sent     atomic.Int64
	from, to place
	origin   mirrors.Location
	// asked is when the tag of the origin was last seen to name the image.
	asked time.Time
	// image and attached are what was read of it, nil when it has ended.
	image    *manifest
	attached []*manifest
	read     *quota
}

// Sent returns how many bytes were sent.
func (j *Job) Sent() int64 { return j.sent.Load() }

// count counts bytes that were sent, or if n is negative those of an attempt that failed.
func (j *Job) count(n int64) { j.sent.Add(n) }

func (j *Job) end(state State, err error) {
	j.State, j.Err = state, err
	j.forget()
}

// forget gives up what was read of j. What is known of its blobs stays, if all of it was read.
func (j *Job) forget() {
	switch {
	case j.read == nil:
		return
	case j.image == nil:
		j.read.room.give(j.read.taken.Load())
	default:
		j.read.room.give(j.read.bytes.Load())
	}
	j.read, j.image, j.attached = nil, nil, nil
}

// Survey finds out what has to be sent for each of copies. It changes nothing. The jobs are in the order of copies. Those
// that cannot be copied are Failed.
func (c *Copier) Survey(ctx context.Context, copies []policy.Copy) []*Job {
	jobs := jobsOf(copies)
	c.surveyEach(ctx, jobs, func(int) {})
	counted := newTally(cmp.Or(c.options.MaxBytes, math.MaxInt64))
	var left []*Job
	for _, j := range jobs {
		if !c.count(j, counted) {
			left = append(left, j)
		}
	}
	c.blobs.spare.Store(counted.room)
	counted.room = math.MaxInt64
	for _, j := range left {
		c.count(j, counted)
		j.Wanted = false
		j.end(Failed, ErrLeft)
	}
	for _, j := range jobs {
		if j.State != Open {
			c.tell(j)
		}
	}
	return jobs
}

// Copy copies each of copies as soon as it and the more important ones have been surveyed. Planned is called once all of them are
// surveyed, unless ctx has ended; it may read Wanted, Bytes and Registry of each, and State of those that are not Wanted, for others
// may be under way. A copy not done when ctx ends is Open, or Failed if it was being surveyed.
func (c *Copier) Copy(ctx context.Context, copies []policy.Copy, planned func([]*Job)) []*Job {
	if c.options.MaxBytes > 0 {
		jobs := c.Survey(ctx, copies)
		if ctx.Err() == nil {
			planned(jobs)
		}
		c.run(ctx, jobs)
		return jobs
	}
	jobs, counted, surveys := jobsOf(copies), newTally(math.MaxInt64), surveysOf(copies)
	var planning sync.WaitGroup
	planning.Go(func() {
		surveys.wait(math.MaxInt)
		if ctx.Err() == nil {
			planned(jobs)
		}
	})
	c.surveyEach(ctx, jobs, func(i int) {
		j := jobs[i]
		c.count(j, counted)
		surveys[j.Rank].Done()
		surveys.wait(j.Rank)
		switch {
		case ctx.Err() != nil:
		case j.State != Open:
			c.tell(j)
		case c.images.Acquire(ctx, i, 1) == nil:
			defer c.images.Release(1)
			c.runJob(ctx, j)
		}
	})
	planning.Wait()
	return jobs
}

func jobsOf(copies []policy.Copy) []*Job {
	return convert.Each(copies, func(copied policy.Copy) *Job { return &Job{Copy: copied, State: Open} })
}

// surveyEach surveys jobs, and calls then with the index of each that is surveyed, while others are.
func (c *Copier) surveyEach(ctx context.Context, jobs []*Job, then func(i int)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, surveysAtOnce)
	for i, j := range jobs {
		slots <- struct{}{}
		group.Go(func() {
			if err := c.survey(ctx, j); err != nil {
				j.end(Failed, err)
			}
			<-slots
			then(i)
		})
	}
	group.Wait()
}

// surveys are those that are not done yet, by the rank of their copies.
type surveys map[int]*sync.WaitGroup

func surveysOf(copies []policy.Copy) surveys {
	s := surveys{}
	for _, copied := range copies {
		if s[copied.Rank] == nil {
			s[copied.Rank] = &sync.WaitGroup{}
		}
		s[copied.Rank].Add(1)
	}
	return s
}

// wait waits for those of all ranks below one.
func (s surveys) wait(rank int) {
	for other, group := range s {
		if other < rank {
			group.Wait()
		}
	}
}

// ErrLeft is why an image was not copied for which Options.MaxBytes left no room.
var ErrLeft = errors.New("--max-bytes leaves no room for it in this run")

// A tally has the blobs that count for one of the jobs that need them, and how many bytes there is room for.
type tally struct {
	mu      sync.Mutex
	counted map[blobKey]bool
	room    int64
}

func newTally(room int64) *tally { return &tally{counted: map[blobKey]bool{}, room: room} }

// count counts the bytes of j, and finds out whether there is something to be sent. It reports whether there is room for it; if
// not, none of its blobs counts.
func (c *Copier) count(j *Job, t *tally) bool {
	if j.State != Open {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	complete := true
	var mine []blobKey
	j.Bytes = 0
	for _, m := range j.manifests() {
		complete = complete && m.there
		for _, b := range m.blobs {
			key := blobKey{j.Registry, b.digest}
			if from, _ := c.blobs.delivery(j.to.repo, b.digest).source(); from == "" && !t.counted[key] {
				t.counted[key], mine = true, append(mine, key)
				j.Bytes += b.size
			}
			complete = complete && c.blobs.has(j.to.repo, b.digest)
		}
	}
	if j.Bytes > t.room {
		for _, key := range mine {
			delete(t.counted, key)
		}
		return false
	}
	t.room -= j.Bytes
	if j.Wanted = !complete; complete {
		j.end(There, nil)
	}
	return true
}

// run copies the Open ones of jobs, the first ones first, until all are done or ctx ends. A job not done then
// is Open.
func (c *Copier) run(ctx context.Context, jobs []*Job) {
	var group sync.WaitGroup
	for i, j := range jobs {
		if j.State != Open {
			continue
		}
		if ctx.Err() != nil || c.images.Acquire(ctx, i, 1) != nil { // here, so that they start in their order
			break
		}
		group.Go(func() {
			defer c.images.Release(1)
			c.runJob(ctx, j)
		})
	}
	group.Wait()
}

func (c *Copier) runJob(ctx context.Context, j *Job) {
	j.State = Started
	c.tell(j)
	err := c.copyAgain(ctx, j)
	refused := ""
	if transfer.IsCache(err) {
		refused = transfer.Reason(err) + ", as a pull-through cache does; through it: "
		err = c.throughCache(ctx, j)
	}
	switch {
	case err == nil:
		j.end(Copied, nil)
	case ctx.Err() != nil:
		j.State = Open
		return
	case errors.Is(err, ErrLeft):
		j.end(Failed, ErrLeft)
	default:
		j.end(Failed, errors.New(refused+transfer.Reason(err)))
	}
	c.tell(j)
}

const (
	maxAttempts = 5
	firstRest   = time.Second
)

// copyAgain copies j, and once more where that failed for a reason that may pass. Parts sent by then are there.
func (c *Copier) copyAgain(ctx context.Context, j *Job) error {
	for attempt := 1; ; attempt++ {
		err := c.copy(ctx, j)
		if err == nil || attempt == maxAttempts || !transfer.IsTemporary(err) {
			return err
		}
		if pause.For(ctx, c.firstRest<<(attempt-1), nil) != nil {
			return err
		}
	}
}

// copy sends the blobs of j, and then puts its manifests.
func (c *Copier) copy(ctx context.Context, j *Job) error {
	if j.Cache {
		return c.pullThrough(ctx, j)
	}
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(sendsAtOnce)
	for _, m := range j.manifests() {
		from := j.from
		if m.elsewhere != nil {
			from = *m.elsewhere
		}
		for _, b := range m.blobs {
			group.Go(func() error {
				return c.blobs.send(sending, from, j.to, b, j.count)
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, m := range j.attached {
		if err := c.attach(ctx, j, m); err != nil {
			return err
		}
	}
	if err := j.putParts(ctx, j.image); err != nil {
		return err
	}
	return c.finish(ctx, j)
}

// putParts puts the manifests below m that the mirror lacks.
func (j *Job) putParts(ctx context.Context, m *manifest) error {
	for _, part := range m.all() {
		if part == m || part.there {
			continue
		}
		if err := j.put(ctx, part, j.to.repo.Digest(part.digest.String())); err != nil {
			return err
		}
	}
	return nil
}

// attach puts an attachment of the image. A tag that has something else stays as it is, unless tags may be moved: it may be the
// house's own signature, or that of another image that is copied at the same time and has a part in common. Nodes may then stop
// for it.
func (c *Copier) attach(ctx context.Context, j *Job, m *manifest) error {
	if err := j.putParts(ctx, m); err != nil || m.there {
		return err
	}
	if m.tag == "" {
		return j.put(ctx, m, j.to.repo.Digest(m.digest.String()))
	}
	lock, _ := j.to.attaching.LoadOrStore(m.tag, &sync.Mutex{})
	attaching := lock.(*sync.Mutex) //nolint:forcetypeassert // nothing else is in there
	attaching.Lock()
	defer attaching.Unlock()
	tag := j.to.repo.Tag(m.tag)
	there, err := c.named(ctx, j, tag)
	switch {
	case errors.Is(err, errHidden):
		j.note("the tag %s is not set: %v", m.tag, err)
	case err != nil:
		return err
	case there != v1.Hash{} && there != m.digest && !c.options.MoveTags:
		j.note("the mirror has something else under the tag %s, which --move-tags replaces", m.tag)
	default:
		return j.put(ctx, m, tag)
	}
	if j.image.there {
		return nil
	}
	return c.stopsNobody(ctx, j, c.looks(j))
}

func (j *Job) note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(j.Notes, note) {
		j.Notes = append(j.Notes, note)
	}
}

// finish puts the image itself, under its tag last.
func (c *Copier) finish(ctx context.Context, j *Job) error {
	tag, byTag := j.to.ref.(name.Tag)
	if j.OnlyAttachments && j.image.there {
		return nil
	}
	if !byTag {
		if c.options.Untagged {
			return j.put(ctx, j.image, j.to.ref)
		}
		keeping, _ := j.To.Keeping(j.image.digest.String())
		return j.put(ctx, j.image, j.to.repo.Tag(policy.TagOf(keeping)))
	}
	there, err := c.taggedNow(ctx, j, tag)
	if err != nil {
		return err
	}
	if (there != v1.Hash{}) && there != j.image.digest && !c.options.MoveTags {
		return fmt.Errorf("the tag names another image there, %s; --move-tags moves it to %s", text.ShortDigests(there.String()), text.ShortDigests(j.image.digest.String()))
	}
	if there != j.image.digest {
		if err := j.put(ctx, j.image, tag); err != nil {
			return err
		}
	}
	c.noteMoved(ctx, j)
	return nil
}

// noteMoved says that the tag was moved at the source meanwhile.
func (c *Copier) noteMoved(ctx context.Context, j *Job) {
	if _, byTag := j.from.ref.(name.Tag); !byTag || time.Since(j.asked) < c.recently {
		return
	}
	if now, err := digestOf(ctx, j.from.endpoint, j.from.ref); err == nil && now != j.image.digest {
		j.note("%s was moved to %s meanwhile; what was planned is copied, %s", j.origin.Ref, text.ShortDigests(now.String()), text.ShortDigests(j.image.digest.String()))
	}
}
