package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// permits is an Authorizer that permits one user everything.
func permits(user string) Authorizer {
	return Authorizer(func(ctx context.Context, who authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: who.User == user}, ctx.Err()
	})
}

func refusedBy(rules ...string) policy.Verdict {
	v := policy.Verdict{}
	for _, rule := range rules {
		v.Findings = append(v.Findings, policy.Finding{
			Rule: rule, Severity: policy.Deny, Reason: "it would break", Detail: []string{"a detail"}, Remedy: []string{"mend it"},
		})
	}
	return v
}

// overriddenHandler refuses everything for these rules, and lets kube:admin override it.
func overriddenHandler(verdict policy.Verdict) *Handler {
	return &Handler{Options: Options{Reviewer: &records{verdict: verdict}, Authorizer: permits("kube:admin")}}
}

// annotated returns req with an override on the object that has to have it.
func annotated(t *testing.T, req admissionv1.AdmissionRequest, value string) admissionv1.AdmissionRequest {
	t.Helper()
	raw := &req.Object
	if readRequest(req).isRemoval() {
		raw = &req.OldObject
	}
	var o map[string]any
	if err := json.Unmarshal(raw.Raw, &o); err != nil {
		t.Fatal(err)
	}
	meta, _ := o["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[OverrideAnnotation] = value
	meta["annotations"] = annotations
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	raw.Raw = data
	return req
}

// codeIn returns the code that a refusal prints.
func codeIn(t *testing.T, message string) string {
	t.Helper()
	_, rest, found := strings.Cut(message, OverrideAnnotation+": \"")
	if !found {
		_, rest, found = strings.Cut(message, OverrideAnnotation+"=\"")
	}
	code, _, ok := strings.Cut(rest, ": "+reasonPlaceholder+`"`)
	if !found || !ok || len(code) != 8 {
		t.Fatalf("the refusal names no annotation:\n%s", message)
	}
	return code
}

func onResource(req admissionv1.AdmissionRequest) admissionv1.AdmissionRequest {
	req.Resource = metav1.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "imagetagmirrorsets"}
	return req
}

// stored returns apps as an API server has it.
func stored(source string, uid types.UID, generation int64) *configv1.ImageTagMirrorSet {
	o := tagMirrorSet("apps", source)
	o.UID, o.Generation = uid, generation
	return o
}

func leaving(o *configv1.ImageTagMirrorSet) *configv1.ImageTagMirrorSet {
	now := metav1.Now()
	o.DeletionTimestamp, o.DeletionGracePeriodSeconds = &now, new(int64)
	return o
}

// TestOverride: the annotation that a refusal prints, with a reason, makes the change pass for a
// user who may override, and is told wherever the change is.
func TestOverride(t *testing.T) {
	set := func(source string, n int64) *configv1.ImageTagMirrorSet { return stored(source, "u", n) }
	finalized := set("quay.io", 4)
	finalized.Finalizers = []string{"example.com/hold"}
	generated := creation(tagMirrorSet("apps", "quay.io"))
	generated.Name = ""
	advice := map[string]string{
		"create": ": add the annotation", "update": ": add the annotation", "generated name": ": name it apps and add the annotation",
		"delete": "then delete it again", "last finalizer": "then remove its last finalizer again",
	}
	for name, req := range map[string]admissionv1.AdmissionRequest{
		"create":         creation(tagMirrorSet("apps", "quay.io")),
		"generated name": generated,
		"update":         update(set("quay.io", 3), set("other.io", 4)),
		"delete":         deletion(set("quay.io", 3)),
		"last finalizer": update(leaving(finalized), leaving(set("quay.io", 4))),
	} {
		t.Run(name, func(t *testing.T) {
			req = onResource(req)
			h := overriddenHandler(refusedBy(policy.ImageMissing))
			audited := new(recorder)
			h.Audit = audited
			var told []Override
			h.Overridden = func(o Override) { told = append(told, o) }
			refused := h.Handle(quiet(t), req)
			if refused.Allowed {
				t.Fatal("admitted without an annotation")
			}
			code := codeIn(t, refused.Result.Message)
			if !strings.Contains(refused.Result.Message, advice[name]) {
				t.Errorf("the refusal says %s", refused.Result.Message)
			}
			req.Name = "apps"
			admitted := h.Handle(quiet(t), annotated(t, req, code+":  the mirror is\nbeing rebuilt "))
			if !admitted.Allowed {
				t.Fatal(admitted.Result.Message)
			}
			if want := "OVERRIDDEN by kube:admin, and admitted although it was refused: the mirror is being rebuilt"; admitted.Warnings[0] != want {
				t.Errorf("warnings %q", admitted.Warnings)
			}
			if all := strings.Join(admitted.Warnings, "\n"); !strings.Contains(all, "is refused") || !strings.Contains(all, "it would break") {
				t.Errorf("warnings do not say what was refused: %q", admitted.Warnings)
			}
			if a := admitted.AuditAnnotations; a["verdict"] != "overridden" || a["override"] != "used "+code+": the mirror is being rebuilt" || a["rules"] != "ImageMissing" {
				t.Errorf("audit annotations %v", a)
			}
			if len(told) != 0 || len(audited.confirmations) != 0 {
				t.Errorf("told %+v, %+v, before anything is in force", told, audited.confirmations)
			}
			appear(t, h, req, code+":  the mirror is\nbeing rebuilt ")
			if len(told) != 1 || told[0].User != "kube:admin" || told[0].Name != "apps" || told[0].Reason != "the mirror is being rebuilt" ||
				!strings.Contains(told[0].Refusal, "is refused") || strings.Contains(told[0].Refusal, "Break-glass") {
				t.Errorf("told %+v", told)
			}
			last := audited.records[len(audited.records)-1]
			if len(audited.confirmations) != 1 {
				t.Fatalf("confirmed %+v", audited.confirmations)
			}
			if c := audited.confirmations[0]; !c.Confirmed || c.UID != last.UID || c.User.Name != "kube:admin" || c.Object != last.Object || c.Time.IsZero() {
				t.Errorf("recorded %+v", c)
			}
		})
	}
}

// appear has what req asks for be in force, with an annotation.
func appear(t *testing.T, h *Handler, req admissionv1.AdmissionRequest, value string) {
	t.Helper()
	var set mirrors.Set
	if r := readRequest(req); !r.isRemoval() {
		o, err := r.decode(r.put)
		if err != nil {
			t.Fatal(err)
		}
		o.SetAnnotations(map[string]string{OverrideAnnotation: value})
		set.Objects = []mirrors.Object{o}
	}
	h.edits().Observe(set, time.Now().Add(time.Second))
}

// TestForgedOverride: whoever can reach the port can ask for an override that no API server has
// asked for. It is told nowhere, whatever is in force.
func TestForgedOverride(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		req     admissionv1.AdmissionRequest
		inForce func(code string) mirrors.Set
	}{
		{"never in force", creation(stored("quay.io", "u", 1)), func(string) mirrors.Set { return mirrors.Set{} }},
		{"without the annotation", update(stored("quay.io", "u", 3), stored("other.io", "u", 4)), func(string) mirrors.Set {
			return mirrors.Set{Objects: []mirrors.Object{stored("other.io", "u", 4)}}
		}},
		{"with another reason", update(stored("quay.io", "u", 3), stored("other.io", "u", 4)), func(code string) mirrors.Set {
			o := stored("other.io", "u", 4)
			o.Annotations = map[string]string{OverrideAnnotation: code + ": another"}
			return mirrors.Set{Objects: []mirrors.Object{o}}
		}},
		{"another object is deleted", deletion(stored("quay.io", "forged", 3)), func(string) mirrors.Set { return mirrors.Set{} }},
		{"not deleted", deletion(stored("quay.io", "u", 3)), func(string) mirrors.Set {
			return mirrors.Set{Objects: []mirrors.Object{stored("quay.io", "u", 3)}}
		}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				req := onResource(tt.req)
				h := overriddenHandler(refusedBy(policy.ImageMissing))
				audited := new(recorder)
				h.metrics, h.Audit = newMetrics(), audited
				h.Overridden = func(o Override) { t.Errorf("told %+v", o) }
				code := codeIn(t, h.Handle(quiet(t), req).Result.Message)
				if got := h.Handle(quiet(t), annotated(t, req, code+": why")); !got.Allowed {
					t.Fatal(got.Result.Message)
				}
				h.edits().Observe(tt.inForce(code), time.Now().Add(time.Second))
				time.Sleep(recent.MaxStoringTime)
				h.edits().Observe(mirrors.Set{}, time.Time{})
				used, never := testutil.ToFloat64(h.metrics.override.WithLabelValues("used")), testutil.ToFloat64(h.metrics.override.WithLabelValues("unconfirmed"))
				if used != 0 || never != 1 {
					t.Errorf("%v count as used, %v as not confirmed", used, never)
				}
				if c := audited.confirmations; len(c) != 1 || c[0].Confirmed {
					t.Errorf("recorded %+v", c)
				}
			})
		})
	}
}

// TestOverrideIsReadKindly: ways of writing the annotation that leave no doubt about the code, and
// a reason of any kind.
func TestOverrideIsReadKindly(t *testing.T) {
	req := onResource(update(stored("quay.io", "u", 3), stored("other.io", "u", 4)))
	h := overriddenHandler(refusedBy(policy.ImageMissing))
	code := codeIn(t, h.Handle(quiet(t), req).Result.Message)
	for value, reason := range map[string]string{
		code + ": 4711":                       "4711",
		code + " the disk is full":            "the disk is full",
		code + " see https://x.example.com/1": "see https://x.example.com/1",
		code + ":why: disk":                   "why: disk",
		" " + strings.ToUpper(code) + " : 理由": "理由",
	} {
		got := h.Handle(quiet(t), annotated(t, req, value))
		if !got.Allowed || !strings.HasSuffix(got.Warnings[0], "refused: "+reason) {
			t.Errorf("%q: %v %q", value, got.Result, got.Warnings)
		}
	}
}

// TestOverrideDoesNotCount: what keeps the annotation from counting, each with the words that
// say so.
func TestOverrideDoesNotCount(t *testing.T) {
	before, after := stored("quay.io", "u", 3), stored("other.io", "u", 4)
	req := onResource(update(before, after))
	code := codeIn(t, overriddenHandler(refusedBy(policy.ImageMissing)).Handle(quiet(t), req).Result.Message)
	mayNot := Authorizer(func(context.Context, authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{}, nil
	})
	half := Authorizer(func(context.Context, authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{EvaluationError: "role not found"}, nil
	})
	contradicts := Authorizer(func(context.Context, authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, nil
	})
	fails := Authorizer(func(context.Context, authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{}, errors.New("no API server")
	})
	for _, tt := range []struct {
		reason, value string
		authorizer    Authorizer
		rule          string
		want          string // of the message
		result        overrideResult
	}{
		{"no reason", code + ":", nil, "", "it gives no reason", overrideNoReason},
		{"blank", code + ": \t\u200b ", nil, "", "it gives no reason", overrideNoReason},
		{"dots", code + ": ...", nil, "", "it gives no reason", overrideNoReason},
		{"the placeholder", code + ": " + reasonPlaceholder, nil, "", "it gives no reason", overrideNoReason},
		{"the code alone", code, nil, "", "it gives no reason", overrideNoReason},
		{"another code alone", "0123abcd", nil, "", `its code "0123abcd" is for another change`, overrideWrongCode},
		{"another code without a colon", "0123abcd because: it is", nil, "", `its code "0123abcd" is for another change`, overrideWrongCode},
		{"a reason alone", "I know what I do", nil, "", "it does not begin with the code of this change", overrideWrongCode},
		{"empty", "", nil, "", "it does not begin with the code of this change", overrideWrongCode},
		{"another code", "0123abcd: because", nil, "", `its code "0123abcd" is for another change or user, or for an earlier state of the object`, overrideWrongCode},
		{"garbage", "\x1b[2J\x00: because", nil, "", "is for another change", overrideWrongCode},
		{"huge", strings.Repeat("a", 1<<18) + ": because", nil, "", "is for another change", overrideWrongCode},
		{"a new danger", code + ": because", nil, policy.RejectedByMCO, "only while the Machine Config Operator accepts the configuration", overrideWrongCode},
		{"no right", code + ": because", mayNot, "", `user "kube:admin" may not override imagetagmirrorsets.config.openshift.io "apps"`, overrideForbidden},
		{"half an answer", code + ": because", half, "", "could not be determined in full: role not found", overrideUnknown},
		{"a contradiction", code + ": because", contradicts, "", "may not override", overrideForbidden},
		{"no answer", code + ": because", fails, "", `whether user "kube:admin" may override imagetagmirrorsets.config.openshift.io "apps" could not be determined: no API server`, overrideUnknown},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			h := overriddenHandler(refusedBy(policy.ImageMissing))
			if tt.rule != "" {
				h.Reviewer = &records{verdict: refusedBy(policy.ImageMissing, tt.rule)}
			}
			if tt.authorizer != nil {
				h.Authorizer = tt.authorizer
			}
			h.Overridden = func(o Override) { t.Errorf("told %+v", o) }
			h.metrics = newMetrics()
			got := h.Handle(quiet(t), annotated(t, req, tt.value))
			if got.Allowed {
				t.Fatalf("admitted: %q", got.Warnings)
			}
			message := got.Result.Message
			if !strings.Contains(message, "The annotation mirrorset-guard.io/override does not count: ") || !strings.Contains(message, tt.want) {
				t.Errorf("got %s", message)
			}
			if n := len(message); n > 2000 {
				t.Errorf("the message has %d bytes", n)
			}
			if again := codeIn(t, message); (again == code) != (tt.rule == "") {
				t.Errorf("it prints code %s, the first was %s", again, code)
			}
			if n := testutil.ToFloat64(h.metrics.override.WithLabelValues(string(tt.result))); n != 1 {
				t.Errorf("the metric counts %v for %s", n, tt.result)
			}
			if a := got.AuditAnnotations["override"]; !strings.HasPrefix(a, "does not count: ") {
				t.Errorf("audit annotation %q", a)
			}
		})
	}
}

// TestOverrideCode: the code is for one change, whatever stays of the annotation.
func TestOverrideCode(t *testing.T) {
	code := func(req admissionv1.AdmissionRequest) string {
		return codeIn(t, overriddenHandler(refusedBy(policy.ImageMissing)).Handle(quiet(t), onResource(req)).Result.Message)
	}
	labelled := stored("quay.io", "u", 3)
	labelled.Labels, labelled.ResourceVersion = map[string]string{"a": "b"}, "77"
	other := tagMirrorSet("other", "quay.io")
	pinned := func(op admissionv1.Operation, metadata ...string) admissionv1.AdmissionRequest {
		req := requestTo(op, mirrors.PinnedSetGVK, "pins")
		for i, into := range []*runtime.RawExtension{&req.OldObject, &req.Object}[:len(metadata)] {
			*into = rawText(fmt.Sprintf(`{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"PinnedImageSet","metadata":{"name":"pins","labels":{"pool":%s,"spec":{"pinnedImages":[]}}`, metadata[i]))
		}
		return req
	}
	for _, tt := range []struct {
		reason string
		a, b   admissionv1.AdmissionRequest
		same   bool
	}{
		{"the same again", update(stored("quay.io", "u", 3), stored("x.io", "u", 4)), update(stored("quay.io", "u", 3), stored("x.io", "u", 4)), true},
		{"metadata changed in between", update(stored("quay.io", "u", 3), stored("x.io", "u", 4)), update(labelled, stored("x.io", "u", 4)), true},
		{"pinned for another pool, and for one more", pinned(admissionv1.Update, `"infra"}}`, `"worker"}}`), pinned(admissionv1.Update, `"worker"}}`, `"master"}}`), false},
		{"pins deleted, and the last finalizer removed", pinned(admissionv1.Delete, `"infra"},"finalizers":["a"]}`), pinned(admissionv1.Update, `"infra"},"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a"]}`, `"infra"},"deletionTimestamp":"2026-01-01T00:00:00Z"}`), true},
		{"another spec", update(stored("quay.io", "u", 3), stored("x.io", "u", 4)), update(stored("quay.io", "u", 3), stored("y.io", "u", 4)), false},
		{"reverted, and applied once more", update(stored("quay.io", "u", 3), stored("x.io", "u", 4)), update(stored("quay.io", "u", 5), stored("x.io", "u", 6)), false},
		{"the object was replaced", update(stored("quay.io", "u", 3), stored("x.io", "u", 4)), update(stored("quay.io", "another", 3), stored("x.io", "another", 4)), false},
		{"created, or updated to", creation(tagMirrorSet("apps", "x.io")), update(stored("quay.io", "u", 0), stored("x.io", "u", 1)), false},
		{"created under another name", creation(tagMirrorSet("apps", "quay.io")), creation(other), false},
		{"created as a new object", creation(stored("quay.io", "u", 1)), creation(stored("quay.io", "another", 1)), true},
		{"deleted with another spec", deletion(stored("quay.io", "u", 3)), deletion(stored("x.io", "u", 3)), false},
		{"deleted as a new object", deletion(stored("quay.io", "u", 3)), deletion(stored("quay.io", "another", 3)), false},
		{"deleted, and the last finalizer removed", deletion(stored("quay.io", "u", 3)), update(leaving(stored("quay.io", "u", 4)), leaving(stored("quay.io", "u", 4))), true},
	} {
		if a, b := code(tt.a), code(tt.b); (a == b) != tt.same {
			t.Errorf("%s: codes %s and %s", tt.reason, a, b)
		}
	}
}

// TestOverrideIsItsAuthors: what one user wrote on the stored object does not count for another who
// deletes it, though that one may override too; each has a code.
func TestOverrideIsItsAuthors(t *testing.T) {
	h := overriddenHandler(refusedBy(policy.ImageMissing))
	h.Authorizer = Authorizer(func(context.Context, authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
	})
	by := func(user string, req admissionv1.AdmissionRequest) admissionv1.AdmissionRequest {
		req.UserInfo.Username = user
		return onResource(req)
	}
	req := deletion(stored("quay.io", "u", 3))
	code := codeIn(t, h.Handle(quiet(t), by("alice", req)).Result.Message)
	left := annotated(t, by("alice", req), code+": alice was here")
	refused := h.Handle(quiet(t), by("admin", left))
	if refused.Allowed || !strings.Contains(refused.Result.Message, "is for another change or user") {
		t.Fatalf("allowed %t: %v", refused.Allowed, refused.Result)
	}
	if again := h.Handle(quiet(t), annotated(t, by("admin", req), codeIn(t, refused.Result.Message)+": I have seen it")); !again.Allowed {
		t.Errorf("with a code of their own: %s", again.Result.Message)
	}
	if own := h.Handle(quiet(t), by("alice", left)); !own.Allowed {
		t.Errorf("for the author: %s", own.Result.Message)
	}
}

// TestOverrideOfACreationEnds: the annotation of an object that was created with it does not cover the
// same creation on another day. An update is bound to what it replaces, and takes its time.
func TestOverrideOfACreationEnds(t *testing.T) {
	for _, tt := range []struct {
		reason string
		req    admissionv1.AdmissionRequest
		after  time.Duration
		counts bool
	}{
		{"at once", creation(tagMirrorSet("apps", "quay.io")), 0, true},
		{"after a pipeline", creation(tagMirrorSet("apps", "quay.io")), creationPeriod, true},
		{"another day", creation(tagMirrorSet("apps", "quay.io")), 2 * creationPeriod, false},
		{"an update", update(stored("quay.io", "u", 3), stored("x.io", "u", 4)), 2 * creationPeriod, true},
		{"a deletion", deletion(stored("quay.io", "u", 3)), 2 * creationPeriod, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := overriddenHandler(refusedBy(policy.ImageMissing))
			req := onResource(tt.req)
			code := codeIn(t, h.Handle(quiet(t), req).Result.Message)
			time.Sleep(tt.after)
			if got := h.Handle(quiet(t), annotated(t, req, code+": why")); got.Allowed != tt.counts {
				t.Errorf("%s: allowed %t: %v", tt.reason, got.Allowed, got.Result)
			}
		})
	}
}

// TestOverrideOfEveryKind: the code is bound to the kind, and follows the spec of each.
func TestOverrideOfEveryKind(t *testing.T) {
	seen := map[string]string{}
	for _, gvk := range everyKind {
		for _, spec := range []string{`{}`, `{"additionalTrustedCA":{"name":"x"},"registrySources":{"blockedRegistries":["x.io"]},"unknown":1}`} {
			req := requestTo(admissionv1.Create, gvk, "cluster")
			req.Resource = metav1.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s"}
			req.Object = rawText(fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"cluster"},"spec":%s}`, gvk.GroupVersion(), gvk.Kind, spec))
			h := overriddenHandler(refusedBy(policy.ImageMissing))
			code := codeIn(t, h.Handle(quiet(t), req).Result.Message)
			if before, dup := seen[code]; dup {
				t.Errorf("%s %s has the code of %s", gvk.Kind, spec, before)
			}
			seen[code] = gvk.Kind + spec
			if got := h.Handle(quiet(t), annotated(t, req, code+": why")); !got.Allowed {
				t.Errorf("%s: %s", gvk.Kind, got.Result.Message)
			}
		}
	}
}

// TestOverrideRejectedByMCO: the code for a configuration that MCO rejects is one of its own,
// which covers the lesser danger too.
func TestOverrideRejectedByMCO(t *testing.T) {
	req := onResource(creation(tagMirrorSet("apps", "quay.io")))
	h := overriddenHandler(refusedBy(policy.RejectedByMCO))
	refused := h.Handle(quiet(t), req).Result.Message
	if !strings.Contains(refused, "accept that no mirror change will reach nodes until the configuration is repaired") {
		t.Errorf("got %s", refused)
	}
	value := codeIn(t, refused) + ": it is mended in a minute"
	got := h.Handle(quiet(t), annotated(t, req, value))
	if !got.Allowed || !strings.Contains(strings.Join(got.Warnings, "\n"), "OVERRIDDEN: the Machine Config Operator rejects the configuration") {
		t.Errorf("allowed %t, warnings %q", got.Allowed, got.Warnings)
	}
	h.Reviewer = &records{verdict: refusedBy(policy.ImageMissing)}
	if got := h.Handle(quiet(t), annotated(t, req, value)); !got.Allowed || strings.Contains(strings.Join(got.Warnings, "\n"), "rejects the configuration") {
		t.Errorf("the lesser danger: allowed %t, warnings %q", got.Allowed, got.Warnings)
	}
}

// TestOverrideDryRun: a dry run says what the change would get, and is told nowhere.
func TestOverrideDryRun(t *testing.T) {
	req := dryRun(onResource(creation(tagMirrorSet("apps", "quay.io"))))
	h := overriddenHandler(refusedBy(policy.ImageMissing))
	h.metrics = newMetrics()
	h.Overridden = func(o Override) { t.Errorf("told %+v", o) }
	code := codeIn(t, h.Handle(quiet(t), req).Result.Message)
	if got := h.Handle(quiet(t), annotated(t, req, code+": why")); !got.Allowed || got.AuditAnnotations["verdict"] != "overridden" {
		t.Errorf("allowed %t: %v", got.Allowed, got.Result)
	}
	if n := testutil.ToFloat64(h.metrics.override.WithLabelValues("used")); n != 0 {
		t.Errorf("the metric counts %v", n)
	}
}

// TestOverrideWithoutVerdict: nothing is known, and the user who may override takes it upon
// himself; even where the guard itself is at fault.
func TestOverrideWithoutVerdict(t *testing.T) {
	for name, reviewer := range map[string]ReviewerFunc{
		"error": func(context.Context, mirrors.Edit) (review.Record, error) {
			return review.Record{}, errors.New("no cluster")
		},
		"panic": func(context.Context, mirrors.Edit) (review.Record, error) { panic("no cluster") },
	} {
		t.Run(name, func(t *testing.T) {
			req := onResource(creation(tagMirrorSet("apps", "quay.io")))
			h := overriddenHandler(policy.Verdict{})
			h.Reviewer = reviewer
			refused := h.Handle(quiet(t), req)
			code := codeIn(t, refused.Result.Message)
			got := h.Handle(quiet(t), annotated(t, req, code+": why"))
			if !got.Allowed || !strings.Contains(strings.Join(got.Warnings, "\n"), "no cluster") || got.AuditAnnotations["verdict"] != "overridden" {
				t.Errorf("allowed %t, warnings %q, audit annotations %v", got.Allowed, got.Warnings, got.AuditAnnotations)
			}
		})
	}
}

// TestOverrideWhenTimeRunsOut: registries that do not answer leave time to ask who may override.
func TestOverrideWhenTimeRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := onResource(creation(tagMirrorSet("apps", "quay.io")))
		h := overriddenHandler(policy.Verdict{})
		h.Reviewer = ReviewerFunc(func(ctx context.Context, edit mirrors.Edit) (review.Record, error) {
			<-ctx.Done()
			verdict := refusedBy(policy.Unverified)
			return review.Record{Subject: edit.Subject(), Verdict: verdict, Refusal: words.Refusal(verdict, edit.Subject()), Read: time.Now()}, nil
		})
		authorizer := h.Authorizer
		h.Authorizer = Authorizer(func(ctx context.Context, who authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
			if ctx.Err() != nil {
				return authorizationv1.SubjectAccessReviewStatus{}, ctx.Err()
			}
			return authorizer(ctx, who)
		})
		ctx, cancel := context.WithTimeout(quiet(t), 10*time.Second)
		defer cancel()
		code := codeIn(t, h.Handle(ctx, req).Result.Message)
		ctx, cancel = context.WithTimeout(quiet(t), 10*time.Second)
		defer cancel()
		if got := h.Handle(ctx, annotated(t, req, code+": why")); !got.Allowed {
			t.Error(got.Result.Message)
		}
	})
}

// TestNothingToOverride: what is admitted anyway, and what cannot be read, ask nobody.
func TestNothingToOverride(t *testing.T) {
	nobody := Authorizer(func(context.Context, authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		t.Error("asked")
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
	})
	waivedVerdict := refusedBy(policy.ImageMissing)
	waivedVerdict.Allowed, waivedVerdict.Mode = true, policy.ModeWarn
	plain := onResource(creation(tagMirrorSet("apps", "quay.io")))
	code := codeIn(t, overriddenHandler(refusedBy(policy.ImageMissing)).Handle(quiet(t), plain).Result.Message)
	req := annotated(t, plain, code+": why")
	malformedRequest := req
	malformedRequest.Object = rawText(strings.Replace(string(req.Object.Raw), `"imageTagMirrors":[`, `"imageTagMirrors":[1,`, 1))
	for name, tt := range map[string]struct {
		verdict policy.Verdict
		req     admissionv1.AdmissionRequest
		want    string
	}{
		"allowed":   {policy.Verdict{Allowed: true}, req, "allowed"},
		"waived":    {waivedVerdict, req, "waived"},
		"malformed": {refusedBy(policy.ImageMissing), malformedRequest, "malformed"},
	} {
		h := overriddenHandler(tt.verdict)
		h.Authorizer = nobody
		got := h.Handle(quiet(t), tt.req)
		if v := got.AuditAnnotations["verdict"]; v != tt.want || got.AuditAnnotations["override"] != "" {
			t.Errorf("%s: verdict %s, override %q", name, v, got.AuditAnnotations["override"])
		}
		if got.Result != nil && strings.Contains(got.Result.Message, "Break-glass") {
			t.Errorf("%s: %s", name, got.Result.Message)
		}
	}
}

// TestWithoutAuthorizer: where nobody is asked, nothing is overridden, and nothing said of it.
func TestWithoutAuthorizer(t *testing.T) {
	req := onResource(creation(tagMirrorSet("apps", "quay.io")))
	code := codeIn(t, overriddenHandler(refusedBy(policy.ImageMissing)).Handle(quiet(t), req).Result.Message)
	h := &Handler{Options: Options{Reviewer: &records{verdict: refusedBy(policy.ImageMissing)}}}
	got := h.Handle(quiet(t), annotated(t, req, code+": why"))
	if got.Allowed || strings.Contains(got.Result.Message, OverrideAnnotation) {
		t.Errorf("allowed %t: %v", got.Allowed, got.Result)
	}
}

// TestOverrideAsksForTheUser: the question holds everything that the request says of its user.
func TestOverrideAsksForTheUser(t *testing.T) {
	var asked []authorizationv1.SubjectAccessReviewSpec
	h := overriddenHandler(refusedBy(policy.ImageMissing))
	h.Authorizer = Authorizer(func(_ context.Context, who authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		asked = append(asked, who)
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
	})
	req := onResource(creation(tagMirrorSet("apps", "quay.io")))
	req.UserInfo = authenticationv1.UserInfo{Username: "eve", UID: "7", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"user:full"}}}
	code := codeIn(t, h.Handle(quiet(t), req).Result.Message)
	if len(asked) != 0 {
		t.Errorf("asked although no annotation wants it: %v", asked)
	}
	h.Handle(quiet(t), annotated(t, req, code+": why"))
	want := []authorizationv1.SubjectAccessReviewSpec{{
		User: "eve", UID: "7", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"user:full"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "override", Group: "config.openshift.io", Version: "v1", Resource: "imagetagmirrorsets", Name: "apps"},
	}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOverriddenIsAdmitted: changes after it are judged together with it.
func TestOverriddenIsAdmitted(t *testing.T) {
	h := &Handler{Options: Options{Reviewer: &cluster{stored: mirrors.Set{Objects: []mirrors.Object{tagMirrorSet("a", "quay.io")}}}, Authorizer: permits("kube:admin")}}
	req := onResource(creation(tagMirrorSet("b", "quay.io")))
	code := codeIn(t, h.Handle(quiet(t), req).Result.Message)
	if got := h.Handle(quiet(t), annotated(t, req, code+": why")); !got.Allowed {
		t.Fatal(got.Result.Message)
	}
	if got := othersOf(t, h, mirrors.Set{}); len(got) != 1 {
		t.Errorf("%d changes are kept, want the one that was overridden", len(got))
	}
}

// TestOverrideMetricFromTheStart: an alert on the first override needs the series before it.
func TestOverrideMetricFromTheStart(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := newMetrics().register(registry); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(registry, "mirrorset_guard_overrides_total"); n != len(overrideResults) || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
}
