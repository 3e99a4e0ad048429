package webhook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// A Reviewer judges an edit before ctx ends. An error means that there is no verdict.
// *review.Reviewer is one; implementations must be safe for concurrent use.
type Reviewer interface {
	// Review judges the edit that somebody asks for.
	Review(ctx context.Context, edit mirrors.Edit, by policy.Requester) (review.Record, error)
	// Renew returns record, which is Review's, as of now: it judges the edit again where the
	// configuration in force is no longer the one of record.
	Renew(ctx context.Context, edit mirrors.Edit, by policy.Requester, record review.Record) (review.Record, error)
}

// A ReviewerFunc is a function that implements Reviewer, whoever asks, and never keeps a record.
type ReviewerFunc func(ctx context.Context, edit mirrors.Edit) (review.Record, error)

// Review implements Reviewer.
func (f ReviewerFunc) Review(ctx context.Context, edit mirrors.Edit, _ policy.Requester) (review.Record, error) {
	return f(ctx, edit)
}

// Renew implements Reviewer.
func (f ReviewerFunc) Renew(ctx context.Context, edit mirrors.Edit, _ policy.Requester, _ review.Record) (review.Record, error) {
	return f(ctx, edit)
}

// A Handler admits or refuses changes of mirror objects: ImageTagMirrorSet,
// ImageDigestMirrorSet, ImageContentSourcePolicy, and the Image configuration
// for its registry sources. It is safe for concurrent use.
//
// A request that cannot change where images are pulled from is admitted without
// a review: a connection, a subresource, an update that leaves the spec alone. A
// request that cannot be read, about which there is no verdict, or on which the
// Reviewer panics, is refused in mode enforce. A dry run is treated like a real request.
//
// Changes that are admitted at the same moment have to be safe together.
type Handler struct {
	Reviewer Reviewer
	// ComesAgain is that of Options; it may be nil.
	ComesAgain func(review.Record)
	// Mode is that of Options; it may be nil.
	Mode func() policy.Mode
	// Authorizer and Overridden are those of Options; they may be nil.
	Authorizer Authorizer
	Overridden func(Override)
	// Audit is that of Options; it may be nil.
	Audit AuditLog

	// Recent is that of Options; if it is nil, the Handler has some of its own.
	Recent *recent.Edits

	metrics *metrics
	once    sync.Once
}

var _ admission.Handler = (*Handler)(nil)

// Handle implements admission.Handler. ctx has to end before the API server
// stops waiting. The decision is logged, in one line, to the logger in ctx.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	return h.handle(ctx, req, func() {})
}

// handle is Handle that calls over once req is not used any more, which may be after it has returned.
func (h *Handler) handle(ctx context.Context, req admission.Request, over func()) admission.Response {
	start := time.Now()
	r, d := h.inTime(ctx, req, over)
	defer r.release()
	d.waive(h.mode())
	d.of(r)
	took := time.Since(start)
	logDecision(log.FromContext(ctx), r, d, took)
	h.record(log.FromContext(ctx), r, d, took)
	h.metrics.decided(r, d, took)
	h.metrics.usedUp(ctx, d, start, took)
	return d.response()
}

// Told is of how many findings the webhook needs Detail and Remedy: a message has 3 in full, a record 20.
const Told = 100

// A verdict is the decision in a word, for log, audit and metrics.
type verdict string

const (
	allowed verdict = "allowed"
	denied  verdict = "denied"
	// none: there was no verdict, hence a refusal.
	none verdict = "none"
	// malformed: the request could not be read, hence a refusal.
	malformed verdict = "malformed"
	// skipped: there was nothing to review, hence an admission.
	skipped verdict = "skipped"
	// waived: denied by the rules, and admitted because of the mode.
	waived verdict = "waived"
	// overridden: denied or none, and admitted because a user who may override it says so.
	overridden verdict = "overridden"
)

// verdicts are all there are.
var verdicts = []verdict{allowed, denied, none, malformed, skipped, waived, overridden}

// A decision is everything that is reported about a request.
type decision struct {
	// uid, operation and dryRun are those of the request, specs are those it is about.
	uid, operation string
	dryRun         bool
	specs          specs

	proposal proposal
	verdict  verdict
	// record is what allowed or denied rests on.
	record review.Record
	// mode is the one that the decision was made in. In another than enforce, none and
	// malformed are admissions.
	mode policy.Mode
	// message is what the refused user reads, or would read in mode enforce.
	message string
	// warnings are what the user reads in any case.
	warnings []string
	// err is why there is no verdict or no proposal; stack is where it was, if it
	// was a panic.
	err   error
	stack string
	// override is what became of the annotation that asks for an override; nil if there was
	// none, or nothing to override.
	override *override
}

func (h *Handler) mode() policy.Mode {
	if h.Mode == nil {
		return policy.ModeEnforce
	}
	return h.Mode()
}

// admitted reports whether the change is made.
func (d decision) admitted() bool {
	switch d.verdict {
	case allowed, skipped, waived, overridden:
		return true
	case none, malformed:
		return d.mode != policy.ModeEnforce
	default:
		return false
	}
}

// waive sets the mode of a decision without a record, and warns of what it admits.
func (d *decision) waive(mode policy.Mode) {
	if d.verdict != none && d.verdict != malformed {
		d.mode = d.record.Verdict.Mode
		return
	}
	if d.mode = mode; mode == policy.ModeWarn {
		d.warnings = []string{"Mode warn: in mode enforce this would be refused: " + text.Line(d.message)}
	}
}

// decide answers r. A panic anywhere in it, the writing of the Record's texts
// included, is a refusal: a dropped connection would let a deletion pass.
func (h *Handler) decide(ctx context.Context, r *request) (d decision) {
	d.proposal = proposal{name: r.Name, subject: r.title()}
	defer refusePanic(r, &d)
	o := h.overridingOf(r)
	d = h.examine(ctx, r, o)
	o.settle(ctx, h.mode(), &d)
	if d.verdict == overridden && !r.isDryRun() && r.commit() {
		h.overrode(ctx, o, d)
	}
	return d
}

// overrode has others told of the override d once it is in force. Other changes have to be judged
// together with it meanwhile, even if there was no verdict on it.
func (h *Handler) overrode(ctx context.Context, o *overriding, d decision) {
	o.telling.made(o.report(d))
	if d.override.of == none {
		c := recent.Change{Edit: d.proposal.edit}
		o.follow(&c)
		h.edits().AddAnyway(ctx, c)
	}
}

// refusePanic, deferred, makes d a refusal if there was a panic.
func refusePanic(r *request, d *decision) {
	if p := recover(); p != nil {
		*d = noVerdict(r, d.proposal, fmt.Errorf("panic: %v", p))
		d.stack = string(debug.Stack())
	}
}

// examine answers r as if it could not be overridden, save that a change which o covers
// counts as admitted for the changes after it.
func (h *Handler) examine(ctx context.Context, r *request, o *overriding) (d decision) {
	d.proposal = proposal{name: r.Name, subject: r.title()}
	defer refusePanic(r, &d)
	if r.Operation == admissionv1.Connect || r.SubResource != "" {
		d.verdict = skipped
		return d
	}
	p, err := r.propose()
	if err != nil {
		d.verdict, d.message, d.err = malformed, brief(err), err
		return d
	}
	d.proposal = p
	if p.unchanged {
		d.verdict = skipped
		return d
	}
	d = h.review(ctx, r, p, o)
	d.specs = r.specs()
	return d
}

func (h *Handler) review(ctx context.Context, r *request, p proposal, o *overriding) decision {
	rec, err := h.judge(ctx, r, p, o)
	if err != nil {
		return noVerdict(r, p, err)
	}
	d := decision{proposal: p, verdict: allowed, record: rec, warnings: rec.Warnings()}
	switch {
	case !rec.Verdict.Allowed:
		d.verdict, d.message = denied, rec.Denial()
	case rec.Verdict.Waived():
		d.verdict, d.message = waived, rec.Waived()
	}
	if h.ComesAgain != nil && (d.verdict == denied || r.isDryRun()) {
		h.ComesAgain(rec)
	}
	return d
}

// requester returns who makes r, as the API server has authenticated them.
func (r *request) requester() policy.Requester {
	return policy.Requester{User: r.UserInfo.Username, Groups: r.UserInfo.Groups}
}

// maxErrorRunes is room for a chain of wrapped errors, and not for the page that
// a proxy may have sent instead of an answer.
const maxErrorRunes = 1000

// brief returns err on one line of bounded length.
func brief(err error) string { return text.Cut(text.Line(err.Error()), maxErrorRunes) }

// noVerdict refuses p because of err, and says what to do about it.
func noVerdict(r *request, p proposal, err error) decision {
	message := fmt.Sprintf("%s is refused because there is no verdict: %s.\n%s",
		p.subject, brief(err), advice(r, err))
	return decision{proposal: p, verdict: none, message: message, err: err}
}

// advice says what to try where there is no verdict.
func advice(r *request, err error) string {
	retry := "Try again"
	if errors.Is(err, context.DeadlineExceeded) {
		retry = "Time ran out; what was found so far is kept, so try again in 10 seconds"
	}
	text := retry + "; if that does not help, see: " + logsCommand
	if r.Operation == admissionv1.Delete {
		text += "\nA deletion that cannot wait is let through while the guard is stopped: " + stopCommand
	}
	return text
}

// logsCommand shows why there was no verdict. stopCommand takes the guard away,
// whereupon DeletionsWebhook fails open.
const (
	logsCommand = "oc -n " + Namespace + " logs deployment/" + ServiceName
	stopCommand = "oc -n " + Namespace + " scale deployment/" + ServiceName + " --replicas=0"
)
