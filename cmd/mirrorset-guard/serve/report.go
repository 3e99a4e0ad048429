package serve

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

const (
	// reportLifetime is how long a page is handed out again, reportTime how long making it may take.
	reportLifetime, reportTime = 20 * time.Second, 30 * time.Second
	// maxReaders is how many requests may wait for a page.
	maxReaders = 64
	// maxDecisions is how many decisions are kept for the page, maxStrangers how many on requests of senders
	// that are not known.
	maxDecisions, maxStrangers = 50, 10
)

// A reporter serves the page about the configuration in force. It rests on known facts, so that no
// registry is asked for it, and is made by one request at a time: the others wait for that page.
type reporter struct {
	look      func(context.Context) (review.Standing, error)
	progress  func(context.Context, time.Time) (status.Input, error)
	release   func() []answer.Block
	decisions *decisions
	about     answer.Page
	log       logr.Logger

	readers atomic.Int32
	turn    chan struct{} // holds one value, which the maker of the page takes out
	// The holder of the turn may use these.
	made time.Time
	page string
}

// newReporter returns the reporter of g, whose parts must exist once it is asked.
func (g *guard) newReporter(cluster string) *reporter {
	r := &reporter{
		look:      func(ctx context.Context) (review.Standing, error) { return g.standing.Look(ctx) },
		progress:  rollouts.NewReader(g.cluster).Input,
		release:   func() []answer.Block { return g.updates.Blocks() },
		decisions: &g.decisions,
		about:     answer.Page{Cluster: cluster, Version: cli.Version},
		log:       g.log.WithName("report"),
		turn:      make(chan struct{}, 1),
	}
	r.turn <- struct{}{}
	return r
}

// ServeHTTP implements http.Handler.
func (r *reporter) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if uid := req.URL.Query().Get("change"); uid != "" {
		r.serveDecision(w, uid)
		return
	}
	defer r.readers.Add(-1)
	if r.readers.Add(1) > maxReaders {
		w.Header().Set("Retry-After", "20")
		http.Error(w, "too many readers at once", http.StatusServiceUnavailable)
		return
	}
	data, err := r.current(req.Context())
	if err != nil {
		http.Error(w, "the page could not be made: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	writePage(w, data)
}

func (r *reporter) serveDecision(w http.ResponseWriter, uid string) {
	d, ok := r.decisions.find(uid)
	if !ok {
		http.Error(w, "this replica has no such decision among its last ones; the audit log has all", http.StatusNotFound)
		return
	}
	about, a := r.about, page.Decision(d)
	about.Time, about.Requester = d.Time, page.Asker(d.User)
	html, err := a.HTML(about)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writePage(w, html)
}

func writePage(w http.ResponseWriter, html string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", answer.SecurityPolicy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, html) // the client may have gone
}

// current returns a page that is not older than reportLifetime.
func (r *reporter) current(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-r.turn:
	}
	defer func() { r.turn <- struct{}{} }()
	if r.page != "" && time.Since(r.made) < reportLifetime {
		return r.page, nil
	}
	// The page is for those who wait as well: it is made although this client may go.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
	defer cancel()
	data, err := r.make(ctx)
	if err != nil {
		r.log.Error(err, "Could not make the page")
		return "", err
	}
	r.page, r.made = data, time.Now()
	return data, nil
}

func (r *reporter) make(ctx context.Context) (string, error) {
	record, err := r.look(ctx)
	if err != nil {
		return "", err
	}
	about := r.about
	about.Time = time.Now()
	a := record.Answer()
	a.Basis[len(a.Basis)-1] = "Registries were asked from the guard's pod; nodes may have other proxies, CAs and name servers."
	a.Add(r.release()...)
	if in, err := r.progress(ctx, about.Time); err == nil {
		progress := rollouts.StatusAnswer(status.Of(in), about.Time)
		a.Add(answer.Section{ID: "pools", Title: "Rollouts"}, answer.Paragraph{answer.Labelled(progress.Tone, progress.Verdict+":", progress.Headline)})
		a.Add(progress.Blocks...)
	} else {
		a.Notes = append(a.Notes, "the rollouts are not known: "+err.Error())
	}
	a.Add(page.Decisions(r.decisions.latest())...)
	return a.HTML(about)
}

// decisions are the last decisions of this replica. The zero value is ready for use.
type decisions struct {
	mu   sync.Mutex
	last []auditv1alpha1.Decision // the latest last
}

func (d *decisions) add(a auditv1alpha1.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	alike := func(other auditv1alpha1.Decision) bool { return other.SenderNotKnown == a.SenderNotKnown }
	n, most := 0, maxDecisions
	if a.SenderNotKnown {
		most = maxStrangers
	}
	for _, other := range d.last {
		if alike(other) {
			n++
		}
	}
	if n == most {
		oldest := slices.IndexFunc(d.last, alike)
		d.last = slices.Delete(d.last, oldest, oldest+1)
	}
	d.last = append(d.last, a)
}

// latest returns them, the latest first.
func (d *decisions) latest() []auditv1alpha1.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Clone(d.last)
	slices.Reverse(all)
	return all
}

func (d *decisions) find(uid string) (auditv1alpha1.Decision, bool) {
	for _, a := range d.latest() {
		if a.UID == uid {
			return a, true
		}
	}
	return auditv1alpha1.Decision{}, false
}

// decided is an audit log that keeps the last decisions for the page.
type decided struct {
	webhook.AuditLog
	kept *decisions
}

// Record implements webhook.AuditLog.
func (d decided) Record(a auditv1alpha1.Decision) {
	d.kept.add(a)
	d.AuditLog.Record(a)
}
