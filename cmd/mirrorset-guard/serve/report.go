package serve

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
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
	release   func() *v1alpha1.NextRelease
	decisions *decisions
	about     page.Context
	log       logr.Logger

	readers atomic.Int32
	turn    chan struct{} // holds one value, which the maker of the page takes out
	// The holder of the turn may use these.
	made time.Time
	page []byte
}

// newReporter returns the reporter of g, whose parts must exist once it is asked.
func (g *guard) newReporter(cluster string) *reporter {
	r := &reporter{
		look:      func(ctx context.Context) (review.Standing, error) { return g.standing.Look(ctx) },
		progress:  rollouts.NewReader(g.cluster).Input,
		release:   g.nextRelease,
		decisions: &g.decisions,
		about:     page.Context{Cluster: cluster, Version: cli.Version},
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
	var b bytes.Buffer
	if err := page.WriteDecision(&b, d, r.about); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writePage(w, b.Bytes())
}

func writePage(w http.ResponseWriter, data []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", page.SecurityPolicy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(data) // the client may have gone
}

// current returns a page that is not older than reportLifetime.
func (r *reporter) current(ctx context.Context) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.turn:
	}
	defer func() { r.turn <- struct{}{} }()
	if r.page != nil && time.Since(r.made) < reportLifetime {
		return r.page, nil
	}
	// The page is for those who wait as well: it is made although this client may go.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
	defer cancel()
	data, err := r.make(ctx)
	if err != nil {
		r.log.Error(err, "Could not make the page")
		return nil, err
	}
	r.page, r.made = data, time.Now()
	return data, nil
}

func (r *reporter) make(ctx context.Context) ([]byte, error) {
	record, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	doc := page.Report{Standing: record.Document(), Release: r.release(), Decisions: r.decisions.latest()}
	if in, err := r.progress(ctx, now); err == nil {
		progress := rollouts.StatusDocument(status.Of(in))
		doc.Rollout = &progress
	} else {
		doc.Standing.Notes = append(doc.Standing.Notes, "the rollouts are not known: "+err.Error())
	}
	about := r.about
	about.Time = now
	var b bytes.Buffer
	err = page.WriteReport(&b, doc, about)
	return b.Bytes(), err
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
