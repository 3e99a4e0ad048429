package healing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/copying"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// round copies back what it may of the losses.
func (h *Healer) round(ctx context.Context, settings Settings, latest losses) {
	now := time.Now()
	s, err := h.update(ctx, func(s *state) error {
		s.forget(now)
		return nil
	})
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		h.options.Log.Error(err, "Cannot copy back what is lost: what was copied before is not known")
		h.metrics.waits(map[reason]int{unusable: len(latest.all)})
		return
	}
	todo, waiting := h.choose(latest, s, now)
	todo = slices.DeleteFunc(todo, func(l loss) bool {
		_, stops := h.work.stops[hostOf(l.copied.To)]
		if stops { // for what was found after l
			waiting[stopped]++
		}
		return stops
	})
	for _, host := range hostsOf(todo) {
		of := slices.DeleteFunc(slices.Clone(todo), func(l loss) bool { return hostOf(l.copied.To) != host })
		left := h.heal(ctx, settings, s, of)
		for why, n := range left {
			waiting[why] += n
		}
	}
	h.metrics.waits(waiting)
	if _, err := h.update(ctx, func(*state) error { return nil }); err != nil && ctx.Err() == nil {
		h.options.Log.Error(err, "Could not note what was copied") // which the next round does
	}
	if err := h.report(ctx); err != nil && ctx.Err() == nil {
		h.options.Log.Error(err, "Could not report what was copied back")
	}
}

// choose returns the losses that may be made good now, and counts the others by what is in the way.
func (h *Healer) choose(latest losses, s *state, now time.Time) (todo []loss, waiting map[reason]int) {
	waiting = map[reason]int{}
	places := map[string]bool{}
	var all []loss
	for _, standing := range latest.all {
		l, why, says := h.consider(standing)
		if places[l.copied.To.Ref] && why == none {
			continue // another name of the same
		}
		places[l.copied.To.Ref] = true
		all = append(all, l)
		if why == none {
			why, says = h.before(l, s, latest.began, now)
		}
		if why == none {
			todo = append(todo, l)
			continue
		}
		waiting[why]++
		if says != "" {
			h.tell(l, why, says)
		}
	}
	h.work.keepOnly(all)
	return todo, waiting
}

func hostsOf(all []loss) []string {
	hosts := each.Of(all, func(l loss) string { return hostOf(l.copied.To) })
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// update changes the state, and writes down with it what was done and could not be written down before.
func (h *Healer) update(ctx context.Context, change func(*state) error) (*state, error) {
	now := time.Now()
	s, resumed, err := h.options.Lease.update(ctx, func(s *state) error {
		for _, l := range h.work.healed {
			s.noteHealed(l, now)
		}
		for host, why := range h.work.stops {
			s.stop(host, why)
		}
		return change(s)
	})
	if err != nil {
		return nil, err
	}
	h.work.healed = nil
	clear(h.work.stops)
	for _, host := range resumed {
		h.noteResumed(host)
	}
	h.metrics.state(s, now, h.settings.Load().Limit)
	return s, nil
}

// noteResumed begins anew with a registry.
func (h *Healer) noteResumed(host string) {
	delete(h.work.rests, host)
	clear(h.work.told)
	h.options.Log.Info("A person lets images be copied back again", "registry", host)
	h.record(auditv1alpha1.Healing{Result: Resumed, Registry: host})
}

const (
	// imagesAtOnce is how many images are looked at and copied together, and blobsAtOnce how many of their blobs:
	// pulls of nodes come first.
	imagesAtOnce = 16
	blobsAtOnce  = 8
)

// heal copies losses of one registry, and counts those that it leaves.
func (h *Healer) heal(ctx context.Context, settings Settings, s *state, todo []loss) map[reason]int {
	host := hostOf(todo[0].copied.To)
	credentials, err := h.options.Credentials(ctx, settings.PushSecret)
	if err != nil {
		h.work.fails(host, unusable, time.Now())
		for _, l := range todo {
			h.tell(l, unusable, err.Error())
		}
		return map[reason]int{unusable: len(todo)}
	}
	m := h.meter(settings.Limit)
	pull, push := h.options.Registries.Metered(m, nil), h.options.Registries.Metered(m, &credentials)
	defer pull.Close()
	defer push.Close()
	copier := copying.New(pull, push, copying.Options{Bare: true, Images: imagesAtOnce, Blobs: blobsAtOnce})
	b := batches{healer: h, host: host, copier: copier, meter: m, settings: settings, left: map[reason]int{}}
	// What failed comes last, whatever the reason: it would be in the way of all others each time.
	slices.SortStableFunc(todo, func(a, b loss) int { return cmp.Compare(h.work.failures(a.copied.To), h.work.failures(b.copied.To)) })
	for len(todo) > 0 && ctx.Err() == nil {
		atOnce := cmp.Or(h.work.atOnce[host], imagesAtOnce)
		if atOnce == 1 && b.requestsLeft() < settings.Limit.Requests/2 {
			b.leave(todo, budget, "") // it would be begun in vain
			break
		}
		if s.healed()+len(h.work.healed) >= maxHealed {
			b.leave(todo, budget, h.fullNote())
			break
		}
		n := min(atOnce, len(todo))
		goesOn := b.copy(ctx, todo[:n])
		todo = todo[n:]
		if !goesOn {
			b.leave(todo, b.why, "")
			break
		}
	}
	return b.left
}

// meter returns what takes requests out of the budget.
func (h *Healer) meter(limit Limit) *meter {
	return &meter{now: time.Now, spent: h.metrics.spends, setAside: func(ctx context.Context, least Limit) (g grant, err error) {
		err = h.options.Lease.spend(ctx, func(s *state) error {
			var ok bool
			if g, ok = h.own.setAside(&s.Spent, time.Now(), least, limit); !ok {
				return errSpent
			}
			return nil
		})
		if err == nil {
			h.own.note(g)
		}
		return g, err
	}}
}

// batches are copies to one registry, some at a time.
type batches struct {
	healer   *Healer
	host     string
	copier   *copying.Copier
	meter    *meter
	settings Settings
	left     map[reason]int
	why      reason // that no more are copied
}

// leave counts losses that are not made good now.
func (b *batches) leave(all []loss, why reason, says string) {
	b.left[why] += len(all)
	for _, l := range all {
		if says != "" {
			b.healer.tell(l, why, says)
		}
	}
}

// requestsLeft returns how many requests are left of the budget.
func (b *batches) requestsLeft() int64 {
	return b.healer.options.Lease.left(b.settings.Limit, time.Now()).Requests + b.meter.left().Requests
}

// starves notes that the budget was spent on some losses and none of them was made good, though left requests were left of it at first. To
// find out what is to be sent takes as many requests as an image has layers, several times; images that are looked at together may spend on
// that all that there is, hour by hour. So they are looked at one by one then; one that takes more than half of the budget by itself is named.
func (b *batches) starves(some []loss, left int64) {
	b.healer.work.atOnce[b.host] = 1
	if spent := left - b.requestsLeft(); len(some) == 1 && spent >= b.settings.Limit.Requests/2 {
		b.healer.work.fails(some[0].copied.To.Ref, budget, time.Now())
		b.healer.tell(some[0], budget, fmt.Sprintf("%d requests were not enough for it, and the budget for an hour has %d", spent, b.settings.Limit.Requests))
	}
}

// copy copies some losses, and reports whether it makes sense to go on.
func (b *batches) copy(ctx context.Context, some []loss) bool {
	before := b.requestsLeft()
	jobs := b.copier.Survey(ctx, each.Of(some, func(l loss) policy.Copy { return l.copied }))
	looked := some
	jobs, some = b.affordable(jobs, some)
	b.copier.Run(ctx, slices.DeleteFunc(slices.Clone(jobs), func(j *copying.Job) bool { return j.State != copying.Open }))
	good, bad := 0, ""
	for i, j := range jobs {
		switch {
		case j.State == copying.Copied || j.State == copying.There:
			good++
			b.healer.healed(some[i], j)
		case j.State == copying.Failed && !b.meter.isEmpty():
			bad = registry.Reason(j.Err)
			b.healer.failed(some[i], j, bad)
			b.left[failed]++
		case ctx.Err() == nil:
			b.left[budget]++
		}
	}
	switch {
	case b.meter.isEmpty() && good > 0:
		b.why = budget
	case b.meter.isEmpty():
		b.why = budget
		if b.requestsLeft() < b.settings.Limit.Requests/2 { // and not bytes, which affordable counts
			b.starves(looked, before)
		}
	case bad != "" && good == 0:
		b.why = failed
		b.healer.work.fails(b.host, failed, time.Now())
	default:
		delete(b.healer.work.rests, b.host)
		b.healer.work.atOnce[b.host] = min(imagesAtOnce, 2*len(looked))
		return true
	}
	return false
}

// affordable leaves out the jobs that need more than is left of the budget, so that none is begun in vain.
func (b *batches) affordable(jobs []*copying.Job, some []loss) ([]*copying.Job, []loss) {
	var kept []*copying.Job
	var of []loss
	left := b.healer.options.Lease.left(b.settings.Limit, time.Now()).Bytes + b.meter.left().Bytes
	for i, j := range jobs {
		switch {
		case j.State == copying.Open && j.Bytes > b.settings.Limit.Bytes:
			b.leave(some[i:i+1], budget, fmt.Sprintf("%d bytes would have to be sent for it, and the budget for an hour has %d", j.Bytes, b.settings.Limit.Bytes))
			continue
		case j.State == copying.Open && j.Bytes > left:
			b.left[budget]++
			continue
		case j.State == copying.Open:
			left -= j.Bytes
		}
		kept, of = append(kept, j), append(of, some[i])
	}
	return kept, of
}

// healed notes that an image was copied back, or was back before that.
func (h *Healer) healed(l loss, j *copying.Job) {
	to := l.copied.To
	h.work.done[idOf(to)] = time.Now()
	delete(h.work.rests, to.Ref)
	delete(h.work.told, to.Ref)
	if j.State == copying.There { // by its own account
		h.work.fails(to.Ref, atOnce, time.Now())
		return
	}
	h.work.healed = append(h.work.healed, to)
	h.work.news.copied = append(h.work.news.copied, made{l, j})
	h.metrics.images.WithLabelValues(Copied).Inc()
	h.options.Log.Info("Copied back an image that its mirror had lost", "image", l.Image.Ref, "place", to.Ref, "bytes", j.Sent())
	h.record(l.document(Copied, j, ""))
}

// failed notes that an image could not be copied.
func (h *Healer) failed(l loss, j *copying.Job, why string) {
	h.work.fails(l.copied.To.Ref, failed, time.Now())
	h.metrics.images.WithLabelValues(Failed).Inc()
	if h.tell(l, failed, why) {
		h.record(l.document(Failed, j, why))
	}
}
