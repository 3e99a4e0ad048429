package wire

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A load is the state of a registry, by one of its answers.
type load int

const (
	fine       load = iota
	throttled       // 429: too fast
	overloaded      // 5xx, or the connection was cut
	broken          // no answer: refused, timed out, TLS, DNS
)

// A pace keeps the number of requests that are under way to one registry between one and a
// limit, and adapts to what the registry can take: each answer lets it grow a little, a
// refusal halves it, and an answer that takes much longer than usual lowers it somewhat
// (additive increase, multiplicative decrease, as TCP does). A registry that says when to
// come back is not asked sooner.
type pace struct {
	max  int
	rate *rate.Limiter

	mu       sync.Mutex
	limit    float64
	running  int
	waiting  []*slot // first come, first served
	resume   time.Time
	lowered  time.Time     // when limit was last decreased
	ceiling  float64       // the limit that was last too much, 0 if none was
	best     time.Duration // the quickest answers
	smoothed time.Duration // the usual ones of late
}

// A slot is the permission to have one request under way.
type slot struct {
	granted chan struct{}
	started time.Time
}

// paces holds the pace of each registry, by mirrors.OneSpelling: whichever name it is asked by, it
// stops once. It is safe for concurrent use.
type paces struct {
	mu     sync.Mutex
	rates  map[string]float64 // requests a second by host; 0 is for no bound
	byHost map[string]*pace
}

func (p *paces) replace(rates map[string]float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rates = rates
	for host, pace := range p.byHost { // each keeps what it has learned of the registry
		pace.rate.SetLimit(limitOf(rates[host]))
	}
}

// maxPaces bounds how many registries' paces are remembered.
const maxPaces = 4096

func (p *paces) forHost(host string) *pace {
	host = mirrors.OneSpelling(host)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byHost[host] == nil {
		if len(p.byHost) >= maxPaces {
			clear(p.byHost)
		}
		p.byHost[host] = newPace(limits.RequestsPerRegistry, p.rates[host])
	}
	return p.byHost[host]
}

// newPace allows up to most requests at once, and perSecond a second if it is not 0.
func newPace(most int, perSecond float64) *pace {
	return &pace{max: most, limit: float64(most), rate: rate.NewLimiter(limitOf(perSecond), limits.RequestBurst)}
}

func limitOf(perSecond float64) rate.Limit {
	if perSecond <= 0 {
		return rate.Inf
	}
	return rate.Limit(perSecond)
}

const (
	// maxRetryWait is how long a request waits for the time that a registry has named. If
	// that is later, the answer is that the registry limits the rate of requests.
	maxRetryWait = 5 * time.Second
	// Growth above nine tenths of a limit that was too much is slow, so that a
	// registry with a fixed limit seldom refuses and is still used well.
	nearCeiling = 0.9
	slowly      = 0.1
	// minLowering is the least time between two decreases, so that refusals of requests
	// that were under way together count once.
	minLowering = 50 * time.Millisecond
)

// acquire waits for a slot. It fails if ctx ends or, with a *Failure, if the registry
// at host does not want to be asked for longer than most.
func (p *pace) acquire(ctx context.Context, host string, most time.Duration) (*slot, error) {
	s, err := p.waitForSlot(ctx)
	if err != nil {
		return nil, err
	}
	wait := p.schedule()
	if wait > most {
		p.leave()
		f := Unreachable("%s limits the rate of requests; try again %s", host, inAWhile(wait))
		f.trouble.Cause = policy.Overloaded
		f.after = wait
		return nil, f
	}
	if err := pause.For(ctx, wait, nil); err != nil {
		p.leave()
		return nil, err
	}
	s.started = time.Now()
	return s, nil
}

func (p *pace) waitForSlot(ctx context.Context) (*slot, error) {
	s := &slot{granted: make(chan struct{})}
	p.mu.Lock()
	p.waiting = append(p.waiting, s)
	p.grant()
	p.mu.Unlock()
	select {
	case <-s.granted:
		return s, nil
	case <-ctx.Done():
		p.abandon(s)
		return nil, ctx.Err()
	}
}

// grant hands out free slots in the order of waiting. It is called with the lock held.
func (p *pace) grant() {
	for len(p.waiting) > 0 && p.running < max(1, int(p.limit)) {
		close(p.waiting[0].granted)
		p.waiting = p.waiting[1:]
		p.running++
	}
}

// abandon gives s up, whether it was granted meanwhile or not.
func (p *pace) abandon(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiting {
		if other == s {
			p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
			return
		}
	}
	p.running--
	p.grant()
}

// schedule returns how long to wait until the request may leave.
func (p *pace) schedule() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	at := now.Add(p.rate.ReserveN(now, 1).DelayFrom(now))
	if p.resume.After(at) {
		// Requests that waited for the same moment must not all be sent at it.
		at = p.resume.Add(rand.N(100 * time.Millisecond)) //nolint:gosec // not a secret
	}
	return at.Sub(now)
}

func (p *pace) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.grant()
}

// release gives a slot back and learns from how the request went. After is how long the
// registry wants to be left alone, 0 if unknown.
func (p *pace) release(s *slot, l load, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	now := time.Now()
	switch l {
	case fine:
		p.learn(now, now.Sub(s.started))
	case throttled:
		p.lower(s, now, 0.5)
		if resume := now.Add(after); resume.After(p.resume) {
			p.resume = resume
		}
	case overloaded, broken:
		p.lower(s, now, 0.7)
	}
	p.grant()
}

func (p *pace) learn(now time.Time, took time.Duration) {
	if p.best == 0 || took < p.best {
		p.best = took
	}
	if p.smoothed == 0 {
		p.smoothed = took
	}
	p.smoothed += (took - p.smoothed) / 16
	if p.slow() {
		if now.Sub(p.lowered) > p.smoothed {
			p.decrease(now, 0.9)
		}
		return
	}
	step := 1 / p.limit
	if p.ceiling > 0 && p.limit >= nearCeiling*p.ceiling {
		step *= slowly
	}
	p.limit = min(float64(p.max), p.limit+step)
	p.best += p.best/1024 + 1 // forget slowly: the quickest answer ever may be out of reach
}

// slow reports whether answers take so much longer than they could that more
// requests would only wait somewhere else. The constant keeps a busy processor,
// ours or theirs, from being taken for a crowded registry.
func (p *pace) slow() bool { return p.smoothed > 4*p.best+250*time.Millisecond }

// lower decreases the limit, once for all requests that were under way together.
func (p *pace) lower(s *slot, now time.Time, factor float64) {
	if !s.started.Before(p.lowered) && now.Sub(p.lowered) > minLowering {
		p.ceiling = p.limit
		p.decrease(now, factor)
	}
}

func (p *pace) decrease(now time.Time, factor float64) {
	p.limit = max(1, p.limit*factor)
	p.lowered = now
}

// A breaker spares a dead registry, and the callers that wait for it. After several
// failures in a row, or a grave one, the last failure answers every lookup for a while;
// then the next lookup is sent again. The while doubles each time. The breaker closes with
// the first answer.
type breaker struct {
	mu       sync.Mutex
	failures int
	trips    int
	until    time.Time
	cause    *Failure
}

const (
	// maxFailures in a row: with half of all answers failing at random that happens
	// once in 65,000 requests.
	maxFailures = 16
	minRest     = time.Second
	maxRest     = 30 * time.Second
)

// open returns the failure that keeps the registry from being asked now, nil if none
// does.
func (b *breaker) open() *Failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause != nil && time.Now().Before(b.until) {
		return b.cause
	}
	return nil
}

// failed counts f and reports whether the breaker has opened for it. A grave
// failure opens it at once.
func (b *breaker) failed(f *Failure, grave bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	if !grave && b.failures < maxFailures {
		return false
	}
	if time.Now().Before(b.until) {
		return false // open already; this one had been sent before
	}
	rest := min(maxRest, max(minRest<<min(b.trips, 10), f.after))
	b.until = time.Now().Add(rest - rand.N(rest/4)) //nolint:gosec // not a secret
	b.cause = f
	b.trips++
	b.failures = maxFailures - 1 // the next failure in a row opens it again
	return true
}

// answered closes the breaker.
func (b *breaker) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.trips, b.cause, b.until = 0, 0, nil, time.Time{}
}

// maxRetryAfter bounds how long a registry can make us wait.
const maxRetryAfter = 10 * time.Minute

// retryAfter reads the header of that name, a number of seconds or a date (RFC 9110,
// 10.2.3). It returns 0 if there is none, if it makes no sense or if the time is past.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(date.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
