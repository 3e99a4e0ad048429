package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	admissionv1 "k8s.io/api/admission/v1"
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
type Authorizer func(context.Context, authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)

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
	*Handler

	req  *request
	name string
	// asked is set if the object has the annotation, where that may count; override is what it says.
	asked    bool
	override overrideAttempt
	// permission is what the Authorizer said, which is asked once, and objection why it was not more; "" if it was not asked.
	permission overrideResult
	objection  string
	// sum is the part that both codes share, once it has been computed.
	sum []byte
}

// newOverride returns the check of r, which changes the object called name.
func (h *Handler) newOverride(r *request, name string) *overrideCheck {
	o := &overrideCheck{Handler: h, req: r, name: name}
	if value := r.subject().Metadata.Annotations.Override; h.Authorizer != nil && value != nil {
		o.asked, o.override = true, parseOverride(*value)
	}
	return o
}

// authorizationTime is kept back from a review for asking whether the user may override it: a
// request to the API server, which may have to ask a webhook of its own.
const authorizationTime = 2 * time.Second

// mayMatter reports whether the annotation may turn out to count, in which case time has to be kept
// back for asking.
func (o *overrideCheck) mayMatter() bool {
	return o.asked && o.override.hasReason() && (o.hasCode(false) || o.hasCode(true))
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
	if !o.asked {
		return false
	}
	o.override.result, o.override.objection = o.permits(ctx, isRejected(r))
	return o.override.result == overrideUsed
}

// permits reports whether the annotation counts for a refusal and, if it does not, why.
func (o *overrideCheck) permits(ctx context.Context, rejected bool) (overrideResult, string) {
	switch {
	case !o.hasCode(true) && (rejected || !o.hasCode(false)):
		return overrideWrongCode, o.explainCode(rejected)
	case !o.override.hasReason():
		return overrideNoReason, "it gives no reason"
	}
	if o.permission == "" {
		o.permission, o.objection = o.authorize(ctx)
	}
	return o.permission, o.objection
}

// explainCode says why the code does not count.
func (o *overrideCheck) explainCode(rejected bool) string {
	switch code := o.override.code; {
	case code == "":
		return "it does not begin with the code of this change"
	case rejected && o.hasCode(false):
		return fmt.Sprintf("its code %q is for this change only while the Machine Config Operator accepts the configuration, which it no longer would", code)
	default:
		return fmt.Sprintf("its code %q is for another change or user, or for an earlier state of the object", code)
	}
}

// authorize asks whether the user who makes the request may override.
func (o *overrideCheck) authorize(ctx context.Context) (overrideResult, string) {
	ctx, cancel := context.WithTimeout(ctx, authorizationTime)
	defer cancel()
	status, err := o.Authorizer(ctx, o.question())
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

// apply turns the refusal a into an admission if the annotation covers it. Otherwise it adds to
// the message how to override, and why the annotation, if there is one, does not count. There is
// nothing to override in a mode that refuses nothing, nor in a request that could not be read.
func (o *overrideCheck) apply(ctx context.Context, mode policy.Mode, a *answer) {
	if o.Authorizer == nil || a.verdict != denied && (a.verdict != none || mode != policy.ModeEnforce) {
		return
	}
	o.override.refusal = a.verdict
	rejected := isRejected(a.record)
	honoured := o.honours(ctx, a.record)
	if o.asked {
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
	if o.asked {
		fmt.Fprintf(&b, "\nThe annotation %s does not count: %s.", OverrideAnnotation, o.override.objection)
	}
	value := o.code(rejected) + ": " + reasonPlaceholder
	who := "Break-glass, for those who may " + OverrideVerb + " this object"
	if rejected {
		who += ", and accept that no mirror change will reach nodes until the configuration is repaired"
	}
	if !o.req.isRemoval() {
		first := ""
		if o.req.Name == "" { // it was generated, as API servers leave this empty then: the code is for it, and the next one is another
			first = "name it " + name(o.name) + " and "
		}
		fmt.Fprintf(&b, "\n%s: %sadd the annotation\n  %s: %q", who, first, OverrideAnnotation, value)
		return b.String()
	}
	resource := o.req.Resource.Resource + "." + o.req.Resource.Group + "/" + o.name
	if o.req.Namespace != "" {
		resource += " -n " + o.req.Namespace
	}
	again := "delete it"
	if o.req.Operation == admissionv1.Update {
		again = "remove its last finalizer"
	}
	fmt.Fprintf(&b, "\n%s: annotate it, then %s again\n  oc annotate --overwrite %s %s=%q", who, again, name(resource), OverrideAnnotation, value)
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

// follow has the override of a refusal reported once c is in force with the annotation: anyone who can
// reach the port can ask for an override that no API server has asked for.
func (o *overrideCheck) follow(c *recent.Change, refusal string) {
	confirms := c.Confirms
	c.Confirms = func(set mirrors.Set) (made, proven bool) {
		made, proven = confirms(set)
		made = made && o.isIn(set)
		return made, made && proven
	}
	c.Done = func(inForce bool) { o.report(inForce, refusal) }
}

// isIn reports whether the annotation is in force with the object, if it is to be.
func (o *overrideCheck) isIn(set mirrors.Set) bool {
	if o.req.isRemoval() {
		return true
	}
	object := o.req.objectIn(set)
	return object == nil || object.GetAnnotations()[OverrideAnnotation] == *o.req.put.Metadata.Annotations.Override
}

// report tells of the override of a refusal, which is in force or never will be.
func (o *overrideCheck) report(inForce bool, refusal string) {
	o.confirm(o.req, o.name, inForce)
	if !inForce {
		o.metrics.countOverride(overrideUnconfirmed)
		return
	}
	o.metrics.countOverride(overrideUsed)
	if o.Overridden != nil {
		o.Overridden(Override{
			Kind: o.req.kind(), Namespace: o.req.Namespace, Name: o.name, UID: o.req.subject().Metadata.UID,
			User: name(o.req.UserInfo.Username), Reason: o.override.reason, Refusal: text.Lines(refusal),
		})
	}
}

// hashed returns the sum of what the code of an override is bound to, so that an annotation
// that stays on an object does not cover its next change:
//
//   - An update is bound to the generation that it replaces, which counts the changes of the
//     spec (metadata.generation). So the same spec, reverted and applied again, is another
//     change. A change of metadata alone, such as adding the annotation, leaves the generation as it
//     is. Nor do labels count, which choose the pools of a PinnedImageSet: its changes are bound to those before and after, too.
//   - A creation has no generation to replace, and no uid before it is admitted. It is bound to the
//     time: the same object, deleted and created once more with the annotation, has the same code for
//     a day at most.
//   - A deletion is bound to the object and the spec that goes with it. It has the same code as
//     the removal of the last finalizer, which completes it; deleting counts as a generation.
//
// All are bound to the user who was refused. The annotation of a deletion is on the stored object:
// another user who deletes it, perhaps with all others, has not read it.
//
// The findings are not part of it, except for one: answers of registries change, and a code
// that changed with them could not be used on the day that it is for. Whether MCO would reject
// the configuration depends on the objects alone, and is a danger of another kind.
//
// A spec counts as it is written, which one API server always does in the same way.
func (o *overrideCheck) hashed() []byte {
	if o.sum != nil {
		return o.sum
	}
	r, operation := o.req, string(o.req.Operation)
	uid, generation := types.UID(""), int64(0)
	switch {
	case r.isRemoval():
		operation, uid = string(admissionv1.Delete), r.old.Metadata.UID
	case r.Operation == admissionv1.Update:
		uid, generation = r.old.Metadata.UID, r.old.Metadata.Generation
	}
	sum := sha256.New()
	// The number keeps codes of another way of computing them apart.
	fmt.Fprintf(sum, "3 %q %q %q %q %q %q %q %d ", r.UserInfo.Username, operation, r.Resource.Group, r.Resource.Resource, r.Namespace, o.name, uid, generation)
	if r.Kind.Kind == mirrors.PinnedSetGVK.Kind && !r.isRemoval() { // labels choose the pools
		fmt.Fprintf(sum, "%q %q ", r.old.Metadata.Labels.all, r.put.Metadata.Labels.all)
	}
	var spec bytes.Buffer
	_ = json.Compact(&spec, r.subject().Spec) // a hash takes everything
	sum.Write(spec.Bytes())
	o.sum = sum.Sum(nil)
	return o.sum
}

// code returns the code that an override has to state: short enough to be copied by a person, and
// long enough for two changes of one object not to have the same by chance. It is not a
// secret; the API server decides who may override.
func (o *overrideCheck) code(rejected bool) string { return o.codeIn(o.period(), rejected) }

// hasCode reports whether the annotation has the code, printed now or some time ago.
func (o *overrideCheck) hasCode(rejected bool) bool {
	now := o.period()
	return o.override.code == o.codeIn(now, rejected) || now > 0 && o.override.code == o.codeIn(now-1, rejected)
}

// creationPeriod is how long the code of a creation stays the same. It counts for as long again, which
// leaves time to read a refusal and to have a pipeline's change approved.
const creationPeriod = 12 * time.Hour

// period returns in which period the change is made, 0 where that does not matter.
func (o *overrideCheck) period() int64 {
	if o.req.Operation != admissionv1.Create {
		return 0
	}
	return time.Now().Unix() / int64(creationPeriod/time.Second)
}

func (o *overrideCheck) codeIn(period int64, rejected bool) string {
	sum := sha256.New()
	sum.Write(o.hashed())
	fmt.Fprintf(sum, " %d %t", period, rejected)
	return hex.EncodeToString(sum.Sum(nil)[:codeBytes])
}

const codeBytes = 4

// isCode reports whether s looks like a code.
func isCode(s string) bool {
	data, err := hex.DecodeString(s)
	return err == nil && len(data) == codeBytes
}

// isRejected reports whether r denies because MCO would reject the configuration.
func isRejected(r review.Record) bool {
	return slices.ContainsFunc(r.Verdict.Findings, func(f policy.Finding) bool {
		return f.Rule == policy.RejectedByMCO && f.Severity == policy.Deny
	})
}
