package recent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientadmissionregistrationv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	// sweepEvery is the time between two sweeps by Run while there is something in the list.
	sweepEvery = time.Second
	// sweepTime bounds one sweep.
	sweepTime = 10 * time.Second
	// announceEvery is how often Run finds out whether the list can be shared.
	announceEvery = time.Minute
	// storingMargin is how long the API server may take to store what all webhooks have
	// admitted. It takes milliseconds; this is for one that is short of time.
	storingMargin = 2 * time.Second
	// suspectTime is how long an edit counts if earlier ones of its sender were not stored.
	suspectTime = 3 * time.Second
	// rememberOver is for how long it is remembered that an entry of the list is over.
	rememberOver = 10 * time.Minute
)

// firstSweeps are the times after an addition at which Run checks whether it is stored: early enough
// to see an object that is soon deleted again.
var firstSweeps = []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond}

// Run follows the list and takes edits off it that are stored, or will never be, until ctx ends.
// Without it nothing can be shared, and edits count until the configuration has them, or
// MaxStoringTime has passed. From time to time it checks whether the list can be written.
//
// The guard is not notified if a change is refused after it has admitted it. But the
// validating webhooks are all asked at the same time, and after them the change is only stored
// (k8s.io/apiserver, pkg/admission/plugin/webhook/validating/dispatcher.go). So once the slowest
// of the others must have answered, and a moment has passed for storing, a change that the
// API server does not have will not be stored.
func (e *Edits) Run(ctx context.Context) {
	e.mu.Lock()
	e.running = true
	e.mu.Unlock()
	var following sync.WaitGroup
	defer following.Wait()
	if e.shared != nil {
		following.Go(func() { e.follow(ctx) })
	}
	e.announce(ctx)
	announcements := time.NewTicker(announceEvery)
	defer announcements.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for busy, n := false, 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-announcements.C:
			e.forgetOver()
			e.announce(ctx)
			continue
		case <-e.added:
			if !busy {
				busy, n = true, 0
				timer.Reset(firstSweeps[0])
			}
			continue
		case <-e.urgent:
			n = 0
		case <-timer.C:
			n++
		}
		timer.Stop()
		if busy = e.sweep(ctx); busy {
			timer.Reset(e.sweepAfter(n))
		}
	}
}

// sweepAfter returns the time between the nth sweep and the next: not longer than until an edit will not be
// stored any more, as others may wait for that.
func (e *Edits) sweepAfter(n int) time.Duration {
	after := sweepEvery
	if n < len(firstSweeps) {
		after = firstSweeps[n]
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.pending {
		for _, limit := range []time.Duration{storingMargin, e.storing} {
			if left := limit - time.Since(p.at); p.claim == 0 && left > 0 {
				after = min(after, left)
			}
		}
	}
	return after
}

// follow follows the list until ctx ends.
func (e *Edits) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := e.shared.follow(ctx, e.see)
		e.mu.Lock()
		e.link.followed = false
		if errors.Is(err, errUnusable) {
			e.link.unread = err
			e.logLink()
		}
		e.notify()
		e.mu.Unlock()
		_ = wait(ctx)
	}
}

// see processes a version of the list.
func (e *Edits) see(c content) {
	e.mu.Lock()
	defer e.mu.Unlock()
	anew := !e.link.followed
	if anew {
		e.link.followed, e.link.unread, e.link.tried = true, nil, true
		e.logLink()
		if !c.same(e.latest) {
			e.link.settled = time.Now().Add(settleTime)
			e.count++ // something may have been added, and be over
		}
	}
	if !isOlder(c.version, e.latest.version) {
		e.follows(c, anew)
	}
}

// follows processes c, which came directly after the version before, unless the list is followed anew.
// It is called with the lock held.
func (e *Edits) follows(c content, anew bool) {
	before, now := e.latest, time.Now()
	e.latest = c
	e.notify()
	if c.absent && !anew {
		e.disturbed(deleted, "", now)
	}
	e.senders.vouch(c.known...)
	e.take(c, before, now)
	if c.absent || slices.ContainsFunc(e.pending, func(p *pending) bool { return p.own != nil && p.own.admitted && !p.listed }) {
		e.wake()
	}
}

// take processes the entries of c, which came after another version.
func (e *Edits) take(c, before content, now time.Time) {
	known := map[string]*pending{}
	var listed []*pending
	for _, p := range e.pending {
		if p.listed {
			listed = append(listed, p)
		}
		p.listed, known[p.id] = false, p
	}
	defer func() { e.noteDelisted(listed, c, now) }()
	defer e.dropClaims()
	for _, en := range c.entries {
		if p := known[en.id]; p != nil {
			p.listed = true
			continue
		}
		isNew := !slices.ContainsFunc(before.entries, func(old entry) bool { return old.id == en.id })
		if isStrange(en) && isNew {
			e.disturbed(garbage, c.writer, now)
		}
		if _, over := e.over[en.id]; over {
			continue
		}
		waits := en.unreadable == "" || e.trouble.waits(isStrange(en), now)
		if isStrange(en) && (!waits || e.delayedBy(now)) { // any user with the right to may write more of it all the time
			continue
		}
		if !waits {
			e.over[en.id] = now
			continue
		}
		if len(e.pending) >= maxKnown {
			e.overflow = now
			e.count++
			continue
		}
		e.pending = append(e.pending, &pending{entry: en, at: now, listed: true})
		e.count++
		e.wake()
	}
}

// forgetOver forgets entries that have long been over and are not in the list.
func (e *Edits) forgetOver() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, since := range e.over {
		if time.Since(since) >= rememberOver && !slices.ContainsFunc(e.latest.entries, func(en entry) bool { return en.id == id }) {
			delete(e.over, id)
		}
	}
}

// noteDelisted takes note of edits that were listed and are no longer in c. It has Run find out what became of those
// that another replica may have taken off the list because they are over. It is called with the lock held.
func (e *Edits) noteDelisted(listed []*pending, c content, now time.Time) {
	if slices.ContainsFunc(listed, func(p *pending) bool {
		return p.own == nil && !p.listed && now.Sub(p.at) >= storingMargin-firstSweeps[0]
	}) {
		signal(e.urgent)
	}
	if c.writer != "" && !c.absent && len(c.entries) == 0 && slices.ContainsFunc(listed, func(p *pending) bool { return p.own != nil && p.own.admitted }) {
		e.disturbed(emptied, c.writer, now)
	}
}

// isStrange reports whether en is garbage: no guard, or no replica, has written it.
func isStrange(en entry) bool { return en.unreadable != "" && !en.newer && !en.tooLarge }

// isPassedOver reports whether en is garbage that nothing waits for. It is called with the lock held.
func (e *Edits) isPassedOver(en entry) bool {
	return isStrange(en) && !slices.ContainsFunc(e.pending, func(p *pending) bool { return p.id == en.id })
}

// delayedBy has changes that wait for garbage wait from now on, and reports whether there is any: one entry
// stands for all that comes at the same moment. It is called with the lock held.
func (e *Edits) delayedBy(now time.Time) bool {
	i := slices.IndexFunc(e.pending, func(p *pending) bool { return isStrange(p.entry) })
	if i >= 0 {
		e.pending[i].at = now
	}
	return i >= 0
}

// dropClaims forgets the claims of others that are not in the list any more. It is called with the
// lock held.
func (e *Edits) dropClaims() {
	e.pending = slices.DeleteFunc(e.pending, func(p *pending) bool { return p.claim != 0 && p.own == nil && !p.listed })
}

// disturbed takes note of trouble with the list. It is called with the lock held.
func (e *Edits) disturbed(kind kindOfTrouble, by string, now time.Time) {
	e.trouble.note(kind, by, now)
	if e.trouble.mayLog(now) {
		e.options.Log.Info("The Lease in which replicas share the changes that they admit was disturbed", "what", e.trouble.text(now))
	}
}

// breakLink takes note that the list cannot be used, because of err. It returns an error as long
// as another replica may have admitted something that is not stored yet, which is possible only if
// the list could be used before.
func (e *Edits) breakLink(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.link.unread == nil {
		e.link.unwritten = err
	}
	e.logLink()
	if left := MaxStoringTime - time.Since(e.link.since); e.link.worked && left > 0 {
		return fmt.Errorf("changes that other replicas admitted a moment ago may still be stored within %s: %w", left.Round(time.Second), err)
	}
	return nil
}

// logLink logs that the link was lost or restored. It is called with the lock held.
func (e *Edits) logLink() {
	l := &e.link
	err := l.broken()
	l.tried = true
	switch {
	case err != nil && l.since.IsZero():
		l.since = time.Now()
		e.options.Log.Error(err, "Replicas do not share the changes that they admit")
	case err == nil && !l.since.IsZero():
		l.since = time.Time{}
		e.options.Log.Info("Replicas share the changes that they admit")
	}
}

// announce tries to write the list as it is, to find out about missing rights before they matter,
// and about granted ones before the next change. It is a dry run: after a write, reviews under way
// would need a new view.
func (e *Edits) announce(ctx context.Context) {
	if e.shared == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	c, err := e.shared.read(ctx)
	if err == nil {
		_, err = e.shared.write(ctx, c, c.entries, metav1.DryRunAll)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case errors.Is(err, errUnusable):
		e.link.unwritten = err
	case err == nil:
		e.link.unwritten, e.link.worked = nil, e.link.worked || e.link.followed
	default:
		return // the next attempt will show
	}
	e.logLink()
	e.notify()
}

// sweep cleans up the list, and reports whether there is something left to watch.
func (e *Edits) sweep(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	view, err := e.readView(ctx, e.followed) // others wait for the edits put back
	inForce, read := e.readStored(ctx)
	e.Observe(inForce, read)
	limit := e.storingTime(ctx, read)
	e.endIf(func(p *pending) (over bool, in *mirrors.Set) { return e.isLost(p, read, limit), nil })
	if err == nil && view.shared && e.tidy(ctx) != nil {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return err != nil || len(e.pending) > 0
}

// tidy takes edits off the list that are over, and puts back those that disappeared from it though
// they may still be stored.
func (e *Edits) tidy(ctx context.Context) error {
	e.mu.Lock()
	now := e.latest
	entries := e.list(now, nil)
	e.mu.Unlock()
	if slices.EqualFunc(entries, now.entries, func(a, b entry) bool { return a.id == b.id }) {
		return nil
	}
	return e.put(ctx, now, entries)
}

// readStored returns the objects in force of the pending edits, and when they were read; the zero time
// if they could not be. Edits that become pending later are not looked up in them.
func (e *Edits) readStored(ctx context.Context) (mirrors.Set, time.Time) {
	if e.options.Stored == nil {
		return mirrors.Set{}, time.Time{}
	}
	e.mu.Lock()
	var edits []mirrors.Edit
	for _, p := range e.pending {
		if p.claim == 0 && p.unreadable == "" {
			edits = append(edits, p.edit)
		}
	}
	read := time.Now()
	e.mu.Unlock()
	if len(edits) == 0 {
		return mirrors.Set{}, read
	}
	set, err := e.options.Stored(ctx, edits)
	if err != nil {
		return mirrors.Set{}, time.Time{}
	}
	return set, read
}

// storingTime returns the time within which the API server stores what this process admitted, if it
// does. Other webhooks are read only if that matters.
func (e *Edits) storingTime(ctx context.Context, read time.Time) time.Duration {
	e.mu.Lock()
	matters := slices.ContainsFunc(e.pending, func(p *pending) bool { return read.Sub(p.at) >= storingMargin })
	e.mu.Unlock()
	if !matters || e.options.OtherWebhooks == nil {
		return MaxStoringTime
	}
	others, err := e.options.OtherWebhooks(ctx)
	if err != nil {
		e.options.Log.V(1).Info("Could not read which other webhooks may refuse a change", "error", err.Error())
		return MaxStoringTime
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.storing = min(others+storingMargin, MaxStoringTime)
	return e.storing
}

// isLost reports whether p, which is not in the configuration that was read, will not be stored any more; limit is how
// long storing may take.
func (e *Edits) isLost(p *pending, read time.Time, limit time.Duration) bool {
	age := read.Sub(p.at)
	switch {
	case p.claim != 0:
		return false
	case p.own != nil:
		if p.own.seat != nil && e.senders.rank(p.own.seat.sender) == rankSuspect {
			limit = min(limit, suspectTime)
		}
		return p.own.admitted && age >= limit
	case p.unreadable != "" && !p.tooLarge: // if a guard wrote it, that one remembers it
		return age >= limit
	default:
		// Other replicas take care of their own edits, as they know when these were admitted. An
		// edit that disappeared from the list counts as over only once it should be stored.
		return !p.listed && age >= limit
	}
}

// defaultWebhookTimeout is how long the API server waits for a webhook without timeoutSeconds.
const defaultWebhookTimeout = 10 * time.Second

// OtherWebhooks returns a function that reads how long validating webhooks other than own, by name, may
// take over a change of one of the resources, by API group ("config.openshift.io").
func OtherWebhooks(client clientadmissionregistrationv1.ValidatingWebhookConfigurationsGetter, own []string, resources map[string][]string) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		list, err := client.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, fmt.Errorf("listing validating webhooks: %w", err)
		}
		return longestTimeout(list.Items, own, resources), nil
	}
}

// longestTimeout returns the longest timeout of the webhooks that may be asked about a change,
// own excepted. Selectors by labels or namespaces, and match conditions, are ignored: the webhook
// counts as if it were asked.
func longestTimeout(configurations []admissionregistrationv1.ValidatingWebhookConfiguration, own []string, resources map[string][]string) time.Duration {
	var longest time.Duration
	for _, c := range configurations {
		for _, w := range c.Webhooks {
			if slices.Contains(own, w.Name) || !slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool { return mayMatch(r, resources) }) {
				continue
			}
			timeout := defaultWebhookTimeout
			if w.TimeoutSeconds != nil {
				timeout = time.Duration(*w.TimeoutSeconds) * time.Second
			}
			longest = max(longest, timeout)
		}
	}
	return longest
}

// mayMatch reports whether r covers one of the resources, in any version: a change in one
// version is sent to a webhook for another (matchPolicy Equivalent).
func mayMatch(r admissionregistrationv1.RuleWithOperations, resources map[string][]string) bool {
	for group, names := range resources {
		if !slices.Contains(r.APIGroups, "*") && !slices.Contains(r.APIGroups, group) {
			continue
		}
		for _, pattern := range r.Resources {
			if pattern == "*" || pattern == "*/*" || slices.Contains(names, pattern) {
				return true
			}
		}
	}
	return false
}
