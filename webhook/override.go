package webhook

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

const (
	// OverrideAnnotation is on the object of a change, and asks for the change to be made
	// although the guard refuses it. Its value is "CODE: REASON", where CODE is the one that the refusal
	// prints. For a deletion it is on the stored object.
	OverrideAnnotation = "mirrorset-guard.io/override"
	// OverrideVerb is what a user must be permitted to do to the object of the change for the
	// annotation to count. No resource has such a verb by itself: it exists to be granted.
	OverrideVerb = "override"
)

// An Authorizer asks the cluster whether a user may do something. An error means that this
// could not be determined.
type Authorizer interface {
	Authorize(ctx context.Context, who authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)
}

// An AuthorizerFunc is a function that implements Authorizer.
type AuthorizerFunc func(context.Context, authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)

// Authorize implements Authorizer.
func (f AuthorizerFunc) Authorize(ctx context.Context, who authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	return f(ctx, who)
}

// An Override is a change that was admitted although the guard refused it.
type Override struct {
	// Kind, Namespace, Name and UID are those of the object. UID may be empty.
	Kind            schema.GroupVersionKind
	Namespace, Name string
	UID             types.UID
	// User made the change, and gave the Reason.
	User, Reason string
	// Refusal is the message of the refusal that was overridden.
	Refusal string
}

// An overrideAttempt is the annotation that asks for a refused change to be made, with its outcome.
type overrideAttempt struct {
	// code and reason are the parts of the annotation, on one line each and of bounded length.
	code, reason string
	result       overrideResult
	// refusal is the one that it was for: denied or none.
	refusal verdict
	// objection says why it does not count; "" if it does.
	objection string
}

// String returns the outcome, for records.
func (o overrideAttempt) String() string {
	if o.objection != "" {
		return "does not count: " + o.objection
	}
	return string(o.result) + " " + o.code + ": " + o.reason
}

// An overrideResult is the outcome of an override in a word, for the metric.
type overrideResult string

const (
	overrideUsed      overrideResult = "used"
	overrideNoReason  overrideResult = "no_reason"
	overrideWrongCode overrideResult = "wrong_code"
	overrideForbidden overrideResult = "forbidden"
	// overrideUnknown: whether the user may override could not be determined.
	overrideUnknown overrideResult = "unknown"
	// overrideUnconfirmed: the change was admitted, and was never seen in force.
	overrideUnconfirmed overrideResult = "unconfirmed"
)

// overrideResults are all there are.
var overrideResults = []overrideResult{overrideUsed, overrideUnconfirmed, overrideNoReason, overrideWrongCode, overrideForbidden, overrideUnknown}

// maxOverrideReason bounds the reason that is reported: an annotation may have 256 KiB.
const maxOverrideReason = 300

// parseOverride reads the value of the annotation. A value that begins with a code counts even without
// the colon, which lets the answer name the missing part.
func parseOverride(value string) overrideAttempt {
	value = text.Line(value)
	code, reason, found := strings.Cut(value, ":")
	if first, rest, _ := strings.Cut(value, " "); isCode(first) {
		code, reason = first, strings.TrimPrefix(strings.TrimSpace(rest), ":")
	} else if !found {
		code, reason = "", value
	}
	return overrideAttempt{
		code:   text.Cut(strings.ToLower(strings.TrimSpace(code)), maxOverrideCode),
		reason: text.Cut(text.Line(strings.TrimSpace(reason)), maxOverrideReason),
	}
}

// maxOverrideCode is more than a code has.
const maxOverrideCode = 16

// reasonPlaceholder stands for the reason where a refusal prints the annotation.
const reasonPlaceholder = "<your reason>"

// hasReason reports whether a person has written something, if only the number of a ticket.
func (o overrideAttempt) hasReason() bool {
	return o.reason != reasonPlaceholder && strings.ContainsFunc(o.reason, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}

// An overrideCheck decides about the override of one request. It is not safe for concurrent use.
type overrideCheck struct {
	req *request
	// authorizer is nil if nothing can be overridden.
	authorizer Authorizer
	change     boundChange
	name       string
	// override is the annotation, if the object has it.
	override overrideAttempt
	// permission is what the Authorizer said, which is asked once; nil if it was not asked.
	permission   *permission
	announcement *announcement
}

// A permission is the Authorizer's answer: whether a user may override, and if not, why not.
type permission struct {
	result    overrideResult
	objection string
}

func (h *Handler) newOverrideCheck(r *request) *overrideCheck {
	o := &overrideCheck{req: r, authorizer: h.Authorizer, name: r.subject().nameOr(r.Name), announcement: &announcement{to: h.Overridden, metrics: h.metrics}}
	o.announcement.record = func(confirmed bool) { h.confirm(r, o.name, confirmed) }
	o.change = boundChange{request: r, name: o.name}
	if o.asked() {
		o.override = parseOverride(r.subject().override)
	}
	return o
}

// asked reports whether the object has the annotation, where that may count.
func (o *overrideCheck) asked() bool { return o.authorizer != nil && o.req.subject().asked }

// authorizationTime is kept back from a review for asking whether the user may override it: a
// request to the API server, which may have to ask a webhook of its own.
const authorizationTime = 2 * time.Second

// mayMatter reports whether the annotation may turn out to count, in which case time has to be kept
// back for asking.
func (o *overrideCheck) mayMatter() bool {
	return o.asked() && o.override.hasReason() &&
		(o.change.hasCode(o.override.code, false) || o.change.hasCode(o.override.code, true))
}

// keepBack returns a context that leaves the time for deciding, and for asking where that may be necessary.
func (o *overrideCheck) keepBack(ctx context.Context) (context.Context, context.CancelFunc) {
	reserve := decidingTime
	if o.mayMatter() {
		reserve += authorizationTime
	}
	return review.KeepBack(ctx, reserve)
}

// honours reports whether the annotation covers the refusal r. A user who accepts
// that MCO rejects the configuration accepts a lesser danger as well.
func (o *overrideCheck) honours(ctx context.Context, r review.Record) bool {
	if !o.asked() {
		return false
	}
	o.override.result, o.override.objection = o.judge(ctx, isRejected(r))
	return o.override.result == overrideUsed
}

func (o *overrideCheck) judge(ctx context.Context, rejected bool) (overrideResult, string) {
	code := o.override.code
	switch {
	case !o.change.hasCode(code, true) && (rejected || !o.change.hasCode(code, false)):
		return overrideWrongCode, o.explainCode(rejected)
	case !o.override.hasReason():
		return overrideNoReason, "it gives no reason"
	}
	if o.permission == nil {
		result, objection := o.authorize(ctx)
		o.permission = &permission{result, objection}
	}
	return o.permission.result, o.permission.objection
}

// explainCode says why the code does not count.
func (o *overrideCheck) explainCode(rejected bool) string {
	switch code := o.override.code; {
	case code == "":
		return "it does not begin with the code of this change"
	case rejected && o.change.hasCode(code, false):
		return fmt.Sprintf("its code %q is for this change only while the Machine Config Operator accepts the configuration, which it no longer would", code)
	default:
		return fmt.Sprintf("its code %q is for another change or user, or for an earlier state of the object", code)
	}
}

// authorize asks whether the user who makes the request may override.
func (o *overrideCheck) authorize(ctx context.Context) (overrideResult, string) {
	ctx, cancel := context.WithTimeout(ctx, authorizationTime)
	defer cancel()
	status, err := o.authorizer.Authorize(ctx, o.question())
	switch {
	case err != nil:
		return overrideUnknown, fmt.Sprintf("whether %s could not be determined: %s", o.userMay("may"), brief(err))
	case status.Allowed && !status.Denied:
		return overrideUsed, ""
	case status.EvaluationError != "":
		return overrideUnknown, fmt.Sprintf("whether %s could not be determined in full: %s", o.userMay("may"), text.Cut(text.Line(status.EvaluationError), maxOverrideReason))
	default:
		return overrideForbidden, o.userMay("may not")
	}
}

func (o *overrideCheck) userMay(may string) string {
	resource := o.req.Resource.Resource
	if o.req.Resource.Group != "" {
		resource += "." + o.req.Resource.Group
	}
	return fmt.Sprintf("user %q %s %s %s %q", name(o.req.UserInfo.Username), may, OverrideVerb, name(resource), name(o.name))
}

func (o *overrideCheck) question() authorizationv1.SubjectAccessReviewSpec {
	user := o.req.UserInfo
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: OverrideVerb, Group: o.req.Resource.Group, Version: o.req.Resource.Version, Resource: o.req.Resource.Resource,
			Namespace: o.req.Namespace, Name: o.name,
		},
	}
}

// settle turns the refusal a into an admission if the annotation covers it. Otherwise it adds to
// the message how to override, and why the annotation, if there is one, does not count. There is
// nothing to override in a mode that refuses nothing, nor in a request that could not be read.
func (o *overrideCheck) settle(ctx context.Context, mode policy.Mode, a *answer) {
	if o.authorizer == nil || a.verdict != denied && (a.verdict != none || mode != policy.ModeEnforce) {
		return
	}
	o.override.refusal = a.verdict
	rejected := isRejected(a.record)
	honoured := o.honours(ctx, a.record)
	if o.asked() {
		a.override = &o.override
	}
	if !honoured {
		a.message += "\n" + o.advice(rejected)
		return
	}
	a.verdict = overridden
	a.warnings = append(o.warnings(a.message, rejected), a.warnings...)
}

// advice says how the refusal can be overridden.
func (o *overrideCheck) advice(rejected bool) string {
	var b strings.Builder
	if o.asked() {
		fmt.Fprintf(&b, "\nThe annotation %s does not count: %s.", OverrideAnnotation, o.override.objection)
	}
	value := o.change.code(rejected) + ": " + reasonPlaceholder
	who := "Break-glass, for those who may " + OverrideVerb + " this object"
	if rejected {
		who += ", and accept that no mirror change will reach nodes until the configuration is repaired"
	}
	if !o.req.isRemoval() {
		fmt.Fprintf(&b, "\n%s: add the annotation\n  %s: %q", who, OverrideAnnotation, value)
		return b.String()
	}
	resource := o.req.Resource.Resource + "." + o.req.Resource.Group + "/" + o.name
	if o.req.Namespace != "" {
		resource += " -n " + o.req.Namespace
	}
	fmt.Fprintf(&b, "\n%s: annotate it, then delete it again\n  oc annotate --overwrite %s %s=%q", who, name(resource), OverrideAnnotation, value)
	return b.String()
}

// maxOverrideWarnings bounds the lines of a refusal that its override repeats.
const maxOverrideWarnings = 8

// warnings repeat the refusal that has been overridden.
func (o *overrideCheck) warnings(refusal string, rejected bool) []string {
	warnings := []string{fmt.Sprintf("OVERRIDDEN by %s, and admitted although it was refused: %s", name(o.req.UserInfo.Username), o.override.reason)}
	if rejected {
		warnings = append(warnings, "OVERRIDDEN: the Machine Config Operator rejects the configuration; no mirror change reaches nodes until it is repaired")
	}
	for line := range strings.Lines(refusal) {
		if line = text.Line(line); line != "" && len(warnings) < maxOverrideWarnings {
			warnings = append(warnings, line)
		}
	}
	return warnings
}

// follow has o announced once c is in force with the annotation, if that covers it: anyone who can
// reach the port can ask for an override that no API server has asked for.
func (o *overrideCheck) follow(c *recent.Change) {
	if o.override.result != overrideUsed {
		return
	}
	c.Confirms = func(set mirrors.Set) bool { return o.req.isMadeIn(set) && o.isIn(set) }
	c.Done = o.announcement.stored
}

// isIn reports whether the annotation is in force with the object, if it is to be.
func (o *overrideCheck) isIn(set mirrors.Set) bool {
	if o.req.isRemoval() {
		return true
	}
	object := o.req.objectIn(set)
	return object == nil || object.GetAnnotations()[OverrideAnnotation] == o.req.put.override
}

// An announcement reports an override once it was made and is known to be in force or not, in either
// order. It is safe for concurrent use.
type announcement struct {
	to      func(Override) // may be nil
	record  func(confirmed bool)
	metrics *metrics

	mu     sync.Mutex
	report *Override
	// isKnown is set once it is known whether the override is in force.
	isKnown, inForce bool
}

// made takes note that the override was made.
func (n *announcement) made(o Override) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.report = &o
	n.send()
}

// stored takes note of whether the override is in force.
func (n *announcement) stored(inForce bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isKnown, n.inForce = true, inForce
	n.send()
}

func (n *announcement) send() {
	if n.report == nil || !n.isKnown {
		return
	}
	n.record(n.inForce)
	if !n.inForce {
		n.metrics.countOverride(overrideUnconfirmed)
		return
	}
	n.metrics.countOverride(overrideUsed)
	if n.to != nil {
		n.to(*n.report)
	}
}

// report returns the Override that was used.
func (o *overrideCheck) report(a answer) Override {
	return Override{
		Kind: o.req.kind(), Namespace: o.req.Namespace, Name: o.name, UID: o.req.subject().uid,
		User: name(o.req.UserInfo.Username), Reason: o.override.reason, Refusal: text.Lines(a.message),
	}
}
