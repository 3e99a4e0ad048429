package recent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	// sweepEvery is how often Run looks after the list while there is something in it.
	sweepEvery = time.Second
	// sweepTime bounds one look after the list.
	sweepTime = 10 * time.Second
	// announceEvery is how often Run finds out whether the list can be shared.
	announceEvery = time.Minute
	// storingMargin is how long the API server may take to store what all webhooks have
	// admitted. It takes milliseconds; this is for one that is short of time.
	storingMargin = 2 * time.Second
)

// Run takes edits off the list that are stored, or will never be, until ctx ends. Without it
// they count until the configuration has them, or MaxStoringTime has passed. Now and then it
// finds out whether the list can be shared.
//
// That a change was refused after the guard had admitted it is told to nobody. But the
// validating webhooks are all asked at the same time, and after them there is only the storing
// (k8s.io/apiserver, pkg/admission/plugin/webhook/validating/dispatcher.go). So once the slowest
// of the others must have answered, and a moment for the storing has passed, a change that the
// API server does not have is not going to come.
func (e *Edits) Run(ctx context.Context) {
	e.announce(ctx)
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	announcements := time.NewTicker(announceEvery)
	defer announcements.Stop()
	for busy := true; ; {
		var tick <-chan time.Time
		if busy {
			tick = ticker.C
		}
		select {
		case <-ctx.Done():
			return
		case <-e.added:
			busy = true // and there is time until the next tick
		case <-tick:
			busy = e.sweep(ctx)
		case <-announcements.C:
			e.announce(ctx)
		}
	}
}

// announce tries to write the list as it is, so that missing rights are known before they matter,
// and granted ones before the next change. It is a dry run: after a write, reviews under way have
// to look again.
func (e *Edits) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	look, err := e.Look(ctx)
	if err != nil || !look.shared {
		return // the next time finds out, or Look has noted it
	}
	err = e.shared.try(ctx, look.content)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil || errors.Is(err, errUnusable) {
		e.note(err)
	}
}

// sweep reports whether there is something left to look after.
func (e *Edits) sweep(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	look, err := e.Look(ctx)
	if err != nil {
		return true
	}
	inForce, read := e.readInForce(ctx)
	limit := e.storingTime(ctx, look, read)
	kept := e.coming(look.content.entries, inForce, read, limit)
	e.sweepLocal(inForce, read, limit)
	if look.shared && len(kept) < len(look.content.entries) && e.put(ctx, look.content, kept) != nil {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(kept)+len(e.local) > 0
}

// put writes entries where from is.
func (e *Edits) put(ctx context.Context, from content, entries []entry) error {
	after, err := e.shared.write(ctx, from, entries)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		if errors.Is(err, errUnusable) {
			e.note(err)
		}
		return err
	}
	e.note(nil)
	e.remember(after, time.Now())
	return nil
}

// readInForce returns the configuration in force, and when it was read; the zero time if it
// could not be.
func (e *Edits) readInForce(ctx context.Context) (mirrors.Set, time.Time) {
	if e.options.InForce == nil {
		return mirrors.Set{}, time.Time{}
	}
	read := time.Now()
	set, err := e.options.InForce(ctx)
	if err != nil {
		return mirrors.Set{}, time.Time{}
	}
	return set, read
}

// storingTime returns after how long what this process admitted must be stored. Others are
// asked for their webhooks only if that matters.
func (e *Edits) storingTime(ctx context.Context, look Look, read time.Time) time.Duration {
	e.mu.Lock()
	matters := slices.ContainsFunc(slices.Concat(look.content.entries, look.local), func(en entry) bool {
		seen, ok := e.seen[en.id]
		return ok && read.Sub(seen.at) >= storingMargin
	})
	e.mu.Unlock()
	if !matters || e.options.OtherWebhooks == nil {
		return MaxStoringTime
	}
	others, err := e.options.OtherWebhooks(ctx)
	if err != nil {
		e.options.Log.V(1).Info("Could not read which other webhooks may refuse a change", "error", err.Error())
		return MaxStoringTime
	}
	return min(others+storingMargin, MaxStoringTime)
}

// coming returns the entries that may still be stored. Those of other replicas are theirs to
// look after, unless they outlive any request.
func (e *Edits) coming(entries []entry, inForce mirrors.Set, read time.Time, limit time.Duration) []entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	var coming []entry
	for _, en := range e.kept(entries, inForce, read) {
		own, seen := e.own[en.id], e.seen[en.id]
		switch {
		case own == nil && e.isBy(en): // it was never admitted
		case own != nil && own.told && read.Sub(seen.at) >= limit: // looked for afterwards, and not there
		default:
			coming = append(coming, en)
		}
	}
	return coming
}

// isBy reports whether this process put en in the list.
func (e *Edits) isBy(en entry) bool {
	return e.options.Lease != nil && en.by == e.options.Lease.instance
}

func (e *Edits) sweepLocal(inForce mirrors.Set, read time.Time, limit time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := slices.DeleteFunc(e.kept(e.local, inForce, read), func(en entry) bool { return read.Sub(e.seen[en.id].at) >= limit })
	if len(kept) != len(e.local) {
		e.local = kept
		e.count++
	}
}
