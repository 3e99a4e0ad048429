package webhook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
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
	// Review judges the edit that a user asks for.
	Review(ctx context.Context, edit mirrors.Edit, by policy.Requester) (review.Record, error)
	// Renew returns record, which is Review's, as of now: it judges the edit again where the
	// configuration in force is no longer the one of record.
	Renew(ctx context.Context, edit mirrors.Edit, by policy.Requester, record review.Record) (review.Record, error)
}

// A ReviewerFunc is a function that implements Reviewer. It ignores the requester, and never keeps a record.
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
// Reviewer panics, is refused in mode enforce. A dry run is treated like a real request, but for DryRuns.
//
// Changes that are admitted at the same moment have to be safe together.
type Handler struct {
	// Options are those of NewServeMux. If Recent is nil, the Handler has some of its own; Ready and
	// Metrics are not used, and Authenticate by NewServeMux alone.
	Options

	metrics   *metrics
	once      sync.Once
	strangers strangersBudget
	dryRuns   dryRuns
}

var _ admission.Handler = (*Handler)(nil)

// Handle implements admission.Handler. ctx has to end before the API server
// stops waiting. The decision is logged, in one line, to the logger in ctx.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	return h.handle(ctx, req, func() {})
}

// handle is Handle, and calls over once req is not used any more, which may be after it has returned.
func (h *Handler) handle(ctx context.Context, req admission.Request, over func()) admission.Response {
	start := time.Now()
	r, a := h.inTime(ctx, req, over)
	defer r.release()
	a.waive(h.mode())
	a.setRequest(r)
	took := time.Since(start)
	h.write(ctx, r, a, took)
	h.metrics.decided(r, a, took)
	h.metrics.usedUp(ctx, a, start, took)
	return a.response()
}

// Told is the number of findings whose Detail and Remedy the webhook needs: a message has 3 in full, a record 20.
const Told = 100

// A verdict is an answer in a word, for log, audit and metrics.
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

// An answer is everything that is reported about a request.
type answer struct {
	// uid, operation and dryRun are those of the request; hashes are of its objects.
	uid, operation string
	dryRun         bool
	hashes         hashes

	proposal proposal
	verdict  verdict
	// record is what allowed or denied rests on.
	record review.Record
	// mode is the one in which the request was answered. In any but enforce, none and
	// malformed are admissions.
	mode policy.Mode
	// message is what the refused user reads, or would read in mode enforce.
	message string
	// warnings are what the user reads in any case.
	warnings []string
	// err is why there is no verdict or no proposal; stack is that of a panic.
	err   error
	stack string
	// override is the outcome of the annotation that asks for an override; nil if there was
	// none, or nothing to override.
	override *overrideAttempt
}

func (h *Handler) mode() policy.Mode {
	if h.Mode == nil {
		return policy.ModeEnforce
	}
	return h.Mode()
}

// admitted reports whether the change is made.
func (a answer) admitted() bool {
	switch a.verdict {
	case allowed, skipped, waived, overridden:
		return true
	case none, malformed:
		return a.mode != policy.ModeEnforce
	default:
		return false
	}
}

// waive sets the mode of an answer without a record, and warns of what it admits.
func (a *answer) waive(mode policy.Mode) {
	if a.verdict != none && a.verdict != malformed {
		a.mode = a.record.Verdict.Mode
		return
	}
	if a.mode = mode; mode == policy.ModeWarn {
		a.warnings = []string{"Mode warn: in mode enforce this would be refused: " + text.Line(a.message)}
	}
}

// decide answers r. A panic anywhere in it, the writing of the Record's texts
// included, is a refusal: a dropped connection would let a deletion pass.
func (h *Handler) decide(ctx context.Context, r *request) (a answer) {
	a.proposal = proposal{name: r.Name, subject: r.title()}
	defer refusePanic(r, &a)
	o := h.newOverrideCheck(r)
	a = h.examine(ctx, r, o)
	o.settle(ctx, h.mode(), &a)
	if a.verdict == overridden && !r.isDryRun() && r.commit() {
		h.announce(ctx, o, a)
	}
	return a
}

// announce has the override a reported once it is in force. Other changes have to be judged
// together with it meanwhile, even if there was no verdict on it.
func (h *Handler) announce(ctx context.Context, o *overrideCheck, a answer) {
	o.announcement.made(o.report(a))
	if a.override.refusal == none {
		c := recent.Change{Edit: a.proposal.edit}
		o.follow(&c)
		h.edits().AddUnconditionally(ctx, c)
	}
}

// refusePanic, deferred, makes a a refusal if there was a panic.
func refusePanic(r *request, a *answer) {
	if p := recover(); p != nil {
		*a = noVerdict(r, a.proposal, fmt.Errorf("panic: %v", p))
		a.stack = string(debug.Stack())
	}
}

// examine answers r as if it could not be overridden, except that a change which o covers
// counts as admitted for the changes after it.
func (h *Handler) examine(ctx context.Context, r *request, o *overrideCheck) (a answer) {
	a.proposal = proposal{name: r.Name, subject: r.title()}
	defer refusePanic(r, &a)
	if r.Operation == admissionv1.Connect || r.SubResource != "" {
		a.verdict = skipped
		return a
	}
	p, err := r.propose()
	if err != nil {
		a.verdict, a.message, a.err = malformed, brief(err), err
		return a
	}
	a.proposal = p
	if p.unchanged {
		a.verdict = skipped
		return a
	}
	a = h.review(ctx, r, p, o)
	a.hashes = r.hashes()
	return a
}

func (h *Handler) review(ctx context.Context, r *request, p proposal, o *overrideCheck) answer {
	rec, err := h.judge(ctx, r, p, o)
	if err != nil {
		return noVerdict(r, p, err)
	}
	a := answer{proposal: p, verdict: allowed, record: rec, warnings: rec.Warnings()}
	switch {
	case !rec.Verdict.Allowed:
		a.verdict, a.message = denied, rec.Denial()
	case rec.Verdict.Waived():
		a.verdict, a.message = waived, rec.Waived()
	}
	if h.ExpectRetry != nil && (a.verdict == denied || r.isDryRun()) && isKnown(ctx) {
		h.ExpectRetry(rec)
	}
	return a
}

// requester returns the user who makes r, as the API server has authenticated them.
func (r *request) requester() policy.Requester {
	return policy.Requester{User: r.UserInfo.Username, Groups: r.UserInfo.Groups}
}

// maxErrorRunes is room for a chain of wrapped errors, and not for the page that
// a proxy may have sent instead of an answer.
const maxErrorRunes = 1000

// brief returns err on one line of bounded length.
func brief(err error) string { return text.Cut(text.Line(err.Error()), maxErrorRunes) }

// noVerdict refuses p because of err, and says what to do about it.
func noVerdict(r *request, p proposal, err error) answer {
	message := fmt.Sprintf("%s is refused because there is no verdict: %s.\n%s",
		p.subject, brief(err), advice(r, err))
	return answer{proposal: p, verdict: none, message: message, err: err}
}

// advice says what to try if there is no verdict.
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
