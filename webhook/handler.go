package webhook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// A Reviewer judges an edit before ctx ends. An error means that there is no verdict.
// *review.Reviewer is one; implementations must be safe for concurrent use.
type Reviewer interface {
	// Review judges the edit that a user asks for.
	Review(ctx context.Context, edit mirrors.Edit, by settings.Requester) (review.Record, error)
	// Renew returns record, which is Review's, as of now: it judges the edit again where the
	// configuration in force is no longer the one of record.
	Renew(ctx context.Context, edit mirrors.Edit, by settings.Requester, record review.Record) (review.Record, error)
}

// A ReviewerFunc is a function that implements Reviewer. It ignores the requester, and never keeps a record.
type ReviewerFunc func(ctx context.Context, edit mirrors.Edit) (review.Record, error)

// Review implements Reviewer.
func (f ReviewerFunc) Review(ctx context.Context, edit mirrors.Edit, _ settings.Requester) (review.Record, error) {
	return f(ctx, edit)
}

// Renew implements Reviewer.
func (f ReviewerFunc) Renew(ctx context.Context, edit mirrors.Edit, _ settings.Requester, _ review.Record) (review.Record, error) {
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

// handle answers req, and calls over once req is not used any more, which may be after it has returned. ctx has to end
// before the API server stops waiting. The decision is logged, in one line, to the logger in ctx.
func (h *Handler) handle(ctx context.Context, req admissionv1.AdmissionRequest, over func()) admissionv1.AdmissionResponse {
	start := time.Now()
	a := h.inTime(ctx, req, over)
	defer a.request.release()
	a.waive(h.mode())
	took := time.Since(start)
	h.write(ctx, a, took)
	h.metrics.answered(ctx, a, start, took)
	return a.response()
}

// grace is the time that a decision may take after the end of its context, if it heeds that. It is a
// part of the reserve: the answer still has to be written.
const grace = 250 * time.Millisecond

// inTime answers req a moment after the end of ctx at the latest: planning, deciding and writing for
// very many images, on a busy machine, does not check the time at every step. A decision that comes
// too late is dropped, and admits nothing. Over is called once req is not used any more.
func (h *Handler) inTime(ctx context.Context, req admissionv1.AdmissionRequest, over func()) answer {
	r := readRequest(req)
	var users atomic.Int32
	users.Store(2)
	leave := func() {
		if users.Add(-1) == 0 {
			over()
		}
	}
	defer leave()
	decided := make(chan answer, 1)
	go func() {
		defer leave()
		a := h.answerTo(ctx, r)
		if r.fate.Load() == abandoned {
			r.release()
		}
		decided <- a
	}()
	select {
	case a := <-decided:
		return a
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case a := <-decided:
		return a
	case <-timer.C:
	}
	if !r.fate.CompareAndSwap(0, abandoned) {
		return <-decided // other replicas have been told already
	}
	late := &request{AdmissionRequest: req, put: new(manifest), old: new(manifest)} // as r is still in use
	return noVerdict(late, proposal{name: late.Name, subject: late.title()}, fmt.Errorf("deciding took too long: %w", ctx.Err()))
}

// answerTo answers r: it recognizes the change that r asks for, has it reviewed, and lets an override of a refusal
// count. A panic anywhere in it, the writing of the Record's texts included, is a refusal: a dropped connection would
// let a deletion pass.
func (h *Handler) answerTo(ctx context.Context, r *request) (a answer) {
	a = answer{request: r, proposal: proposal{name: r.Name, subject: r.title()}}
	defer refusePanic(&a)
	p, err := r.recognize()
	if err != nil {
		a.verdict, a.message, a.err = malformed, brief(err), err
		return a
	}
	a.proposal = p
	if p.unchanged {
		a.verdict = skipped
		return a
	}
	o := h.newOverride(r, p.name)
	a = h.review(ctx, r, p, o)
	a.hashes = r.hashes()
	o.apply(ctx, h.mode(), &a)
	if a.isUnjudgedOverride() && r.commit() {
		// Other changes have to be judged together with it, although there is no verdict on it.
		c := recent.Change{Edit: p.edit, Confirms: r.confirms(mirrors.Set{})}
		o.follow(&c, a.message)
		h.edits().AddUnconditionally(ctx, c)
	}
	return a
}

// refusePanic, deferred, makes a a refusal if there was a panic.
func refusePanic(a *answer) {
	if p := recover(); p != nil {
		*a = noVerdict(a.request, a.proposal, fmt.Errorf("panic: %v", p))
		a.stack = string(debug.Stack())
	}
}

// review answers r as if it could not be overridden, except that a change which o covers counts as admitted for the
// changes after it.
func (h *Handler) review(ctx context.Context, r *request, p proposal, o *overrideCheck) (a answer) {
	a = answer{request: r, proposal: p, verdict: allowed}
	defer refusePanic(&a)
	rec, err := h.decide(ctx, r, p.edit, o)
	if err != nil {
		return noVerdict(r, p, err)
	}
	a.record, a.message, a.warnings = rec, rec.Refusal, rec.Warnings()
	switch {
	case !rec.Verdict.Allowed:
		a.verdict = denied
	case words.Waived(rec.Verdict):
		a.verdict = waived
	}
	if h.ExpectRetry != nil && (a.verdict == denied || r.isDryRun()) && isKnown(ctx) {
		h.ExpectRetry(rec)
	}
	return a
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
	request *request
	// hashes are of its objects.
	hashes hashes

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

// isUnjudgedOverride reports whether a admits a change, and for real, of which there is no verdict.
func (a answer) isUnjudgedOverride() bool {
	return a.verdict == overridden && a.override.refusal == none && !a.request.isDryRun()
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
	return answer{request: r, proposal: p, verdict: none, message: message, err: err}
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
