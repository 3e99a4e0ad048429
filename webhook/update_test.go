package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// updateReviews is an UpdateReviewer that knows of a release what the test says.
type updateReviews struct {
	settings policy.Settings
	release  policy.Release
	do       func(context.Context) // before it answers; nil for nothing
	asked    []policy.Update
	await    func(*configv1.ClusterVersion) bool
	done     func(bool)
}

func (u *updateReviews) Review(ctx context.Context, update policy.Update, _ policy.Requester) review.Record {
	u.asked = append(u.asked, update)
	if u.do != nil {
		u.do(ctx)
	}
	return u.record(u.release)
}

func (u *updateReviews) Undetermined(_ policy.Update, why error, _ policy.Requester) review.Record {
	return u.record(policy.Release{Name: "4.21.3", Asked: "4.21.3", Unread: true, Open: []string{why.Error()}})
}

func (u *updateReviews) record(r policy.Release) review.Record {
	return review.Record{Subject: "ClusterVersion version", Verdict: u.settings.DecideRelease(r)}
}

func (u *updateReviews) Await(is func(*configv1.ClusterVersion) bool, done func(bool)) {
	u.await, u.done = is, done
}

var (
	denying = policy.Settings{Severities: map[string]policy.Severity{policy.ReleaseNotReady: policy.Deny}}
	lacking = policy.Release{
		Name: "4.21.3", Asked: "4.21.3", Counts: policy.Counts{Total: 191, Rerouted: 191, Verified: 190}, MissingImages: 1,
		Missing: []string{"rhel-coreos: no place that nodes would ask has the image"},
	}
)

// versioned returns the update of a ClusterVersion by its specs. It runs 4.20.9.
func versioned(before, after, annotations string) admission.Request {
	object := func(spec, annotations string, generation int) string {
		return fmt.Sprintf(`{"apiVersion":"config.openshift.io/v1","kind":"ClusterVersion","metadata":{"name":"version","uid":"u","generation":%d,"annotations":{%s}},"spec":%s,"status":{"desired":{"version":"4.20.9","image":"quay.io/release@sha256:%s"}}}`,
			generation, annotations, spec, strings.Repeat("9", 64))
	}
	req := requestTo(admissionv1.Update, versionKind, "version")
	req.Resource.Group, req.Resource.Version, req.Resource.Resource = "config.openshift.io", "v1", "clusterversions"
	req.OldObject, req.Object = rawText(object(before, "", 1)), rawText(object(after, annotations, 2))
	return req
}

const (
	noUpdate  = `{"clusterID":"c","channel":"stable-4.20"}`
	anUpdate  = `{"clusterID":"c","channel":"stable-4.20","desiredUpdate":{"version":"4.21.3","image":"","force":false}}`
	aRollback = `{"clusterID":"c","channel":"stable-4.20","desiredUpdate":{"version":"4.20.9","image":""}}`
)

// TestUpdates: an update warns by default, is refused by setting, and what cannot be reviewed counts as not known.
func TestUpdates(t *testing.T) {
	late := func(ctx context.Context) { <-ctx.Done() }
	for _, c := range []struct {
		why      string
		reviews  updateReviews
		allowed  bool
		code     int32
		warnings int
		says     string
	}{
		{"ready", updateReviews{settings: denying, release: policy.Release{Name: "4.21.3", Counts: policy.Counts{Rerouted: 191}}}, true, 0, 1, "release 4.21.3 is ready"},
		{"lacking, by default", updateReviews{release: lacking}, true, 0, 3, "1 of its 191 images cannot be pulled"},
		{"lacking", updateReviews{settings: denying, release: lacking}, false, 403, 0, "1 of its 191 images cannot be pulled"},
		{"it panics, by default", updateReviews{do: func(context.Context) { panic("a fault") }}, true, 0, 3, "panic: a fault"},
		{"it panics", updateReviews{settings: denying, do: func(context.Context) { panic("a fault") }}, false, 403, 0, "panic: a fault"},
		{"late, by default", updateReviews{release: lacking, do: late}, true, 0, 3, "1 of its 191 images"},
		{"too late, by default", updateReviews{do: func(context.Context) { time.Sleep(time.Minute) }}, true, 0, 3, "deciding took too long"},
		{"too late", updateReviews{settings: denying, do: func(context.Context) { time.Sleep(time.Minute) }}, false, 403, 0, "deciding took too long"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(quiet(t), 10*time.Second)
			defer cancel()
			start := time.Now()
			h := &Handler{Options: Options{Reviewer: &records{err: errors.New("asked about an update")}, Updates: &c.reviews}}
			got := h.Handle(ctx, versioned(noUpdate, anUpdate, ""))
			text := strings.Join(got.Warnings, "\n")
			var code int32
			if got.Result != nil {
				text, code = text+got.Result.Message, got.Result.Code
			}
			if got.Allowed != c.allowed || code != c.code || len(got.Warnings) != c.warnings || !strings.Contains(text, c.says) {
				t.Errorf("%s: allowed %t, %d, %q, %s; want that it says %q", c.why, got.Allowed, code, got.Warnings, text, c.says)
			}
			if took := time.Since(start); took > 11*time.Second {
				t.Errorf("%s: answered after %s", c.why, took)
			}
			time.Sleep(2 * time.Minute) // what is late ends as well
		})
	}
}

// TestUpdatesUnhindered: what is no update, or none that anybody but its maker decides about, is admitted without a word.
func TestUpdatesUnhindered(t *testing.T) {
	forced := strings.Replace(anUpdate, `"force":false`, `"force":true`, 1)
	for _, c := range []struct {
		why string
		req admission.Request
	}{
		{"forced", versioned(noUpdate, forced, "")},
		{"not forced any more", versioned(forced, anUpdate, "")},
		{"taken back", versioned(anUpdate, noUpdate, "")},
		{"taken back as null", versioned(anUpdate, `{"desiredUpdate":null}`, "")},
		{"the same again, written in another way", versioned(anUpdate, strings.ReplaceAll(anUpdate, ":", ": "), "")},
		{"back to what runs", versioned(anUpdate, aRollback, "")},
		{"another field", versioned(anUpdate, strings.Replace(anUpdate, "stable", "fast", 1), "")},
		{"by CVO", by(policy.VersionOperator, versioned(noUpdate, anUpdate, ""))},
		{"by CVO until 4.21", by(policy.FormerVersionOperator, versioned(noUpdate, anUpdate, ""))},
		{"of the status", of("status", versioned(noUpdate, anUpdate, ""))},
		{"a creation", as(admissionv1.Create, versioned(noUpdate, anUpdate, ""))},
		{"a deletion", as(admissionv1.Delete, versioned(noUpdate, anUpdate, ""))},
		{"labels without number", labelled(2*maxLabels, versioned(noUpdate, strings.Replace(noUpdate, "stable", "fast", 1), ""))},
	} {
		u := &updateReviews{settings: denying, release: lacking}
		h := &Handler{Options: Options{Reviewer: &records{}, Updates: u}}
		if got := h.Handle(quiet(t), c.req); !got.Allowed || len(got.Warnings) != 0 || got.AuditAnnotations != nil || len(u.asked) != 0 {
			t.Errorf("%s: allowed %t, %v, %q, reviewed %d times", c.why, got.Allowed, got.Result, got.Warnings, len(u.asked))
		}
	}
	h := &Handler{Options: Options{Reviewer: &records{}}}
	if got := h.Handle(quiet(t), versioned(noUpdate, anUpdate, "")); !got.Allowed || len(got.Warnings) != 0 {
		t.Errorf("without a reviewer of updates: %v, %q", got.Result, got.Warnings)
	}
}

func by(user string, req admission.Request) admission.Request {
	req.UserInfo.Username = user
	return req
}

func of(subresource string, req admission.Request) admission.Request {
	req.SubResource = subresource
	return req
}

func as(op admissionv1.Operation, req admission.Request) admission.Request {
	req.Operation = op
	return req
}

func labelled(n int, req admission.Request) admission.Request {
	labels := map[string]string{}
	for i := range n {
		labels[fmt.Sprint("l", i)] = ""
	}
	list, _ := json.Marshal(labels)
	req.Object.Raw = []byte(strings.Replace(string(req.Object.Raw), `"metadata":{`, `"metadata":{"labels":`+string(list)+",", 1))
	return req
}

// TestOtherFields: whatever is changed of a ClusterVersion, and to whatever, but its desired update is admitted without a
// word. A third of the changes has the very update of another, to which the same must not apply.
func TestOtherFields(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		u := &updateReviews{settings: denying, release: lacking}
		h := &Handler{Options: Options{Reviewer: &records{}, Updates: u}}
		before, after := randomSpec(random), randomSpec(random)
		desired := []any{nil, map[string]any{}, map[string]any{"version": "4.21.3"}, map[string]any{"image": "quay.io/x:1", "force": true}, []any{"no update"}, "text"}[random.IntN(6)]
		if desired != nil {
			before["desiredUpdate"], after["desiredUpdate"] = desired, desired
		}
		req := versioned(asText(t, before), asText(t, after), "")
		if got := h.Handle(quiet(t), req); !got.Allowed || len(got.Warnings) != 0 || len(u.asked) != 0 {
			t.Fatalf("seed %d: allowed %t, %v, %q\n%s\n%s", seed, got.Allowed, got.Result, got.Warnings, req.OldObject.Raw, req.Object.Raw)
		}
		after["desiredUpdate"] = map[string]any{"version": "4.22.5"}
		if got := h.Handle(quiet(t), versioned(asText(t, before), asText(t, after), "")); got.Allowed || len(u.asked) != 1 {
			t.Fatalf("seed %d: another update is not reviewed: %v", seed, got.Warnings)
		}
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// randomSpec has any fields that there are, and some that there are not, with values of any type.
func randomSpec(random *rand.Rand) map[string]any {
	spec := map[string]any{}
	for _, field := range []string{"clusterID", "upstream", "channel", "capabilities", "signatureStores", "overrides", "desiredUpdates", "DesiredUpdate", "version", "image", "force"} {
		if random.IntN(2) == 0 {
			spec[field] = randomValue(random, 3)
		}
	}
	return spec
}

func randomValue(random *rand.Rand, depth int) any {
	switch n := random.IntN(7); {
	case n == 0:
		return nil
	case n == 1:
		return random.IntN(2) == 0
	case n == 2:
		return random.IntN(100)
	case n < 5 || depth == 0:
		return []string{"", "4.21.3", "stable-4.21", `"`, "\\", "}", "desiredUpdate"}[random.IntN(7)]
	case n == 5:
		return []any{randomValue(random, depth-1), randomValue(random, depth-1)}
	default:
		return map[string]any{"desiredUpdate": randomValue(random, depth-1), "url": randomValue(random, depth-1)}
	}
}

// TestUpdateModes: modes treat updates as they do changes of mirrors.
func TestUpdateModes(t *testing.T) {
	for mode, warned := range map[policy.Mode]bool{policy.ModeWarn: true, policy.ModeAudit: false} {
		u := &updateReviews{settings: denying, release: lacking}
		u.settings.Mode = mode
		h := &Handler{Options: Options{Reviewer: &records{}, Updates: u, Mode: func() policy.Mode { return mode }}}
		got := h.Handle(quiet(t), versioned(noUpdate, anUpdate, ""))
		if !got.Allowed || len(got.Warnings) > 0 != warned || got.AuditAnnotations["verdict"] != "waived" || got.AuditAnnotations["rules"] != policy.ReleaseNotReady {
			t.Errorf("mode %s: allowed %t, %q, %v", mode, got.Allowed, got.Warnings, got.AuditAnnotations)
		}
	}
}

// TestUpdateOverride: a refused update is admitted by an override with its code, for this update alone, and reported
// once it is in force with its annotation.
func TestUpdateOverride(t *testing.T) {
	u := &updateReviews{settings: denying, release: lacking}
	var told []Override
	h := &Handler{Options: Options{Reviewer: &records{}, Updates: u, Authorizer: permits("kube:admin"), Overridden: func(o Override) { told = append(told, o) }}}
	refused := h.Handle(quiet(t), versioned(noUpdate, anUpdate, ""))
	value := codeIn(t, refused.Result.Message) + ": the mirror follows tonight"
	annotation := fmt.Sprintf("%q:%q", OverrideAnnotation, value)
	if got := h.Handle(quiet(t), by("bob", versioned(noUpdate, anUpdate, annotation))); got.Allowed {
		t.Error("another user may use the code")
	}
	if got := h.Handle(quiet(t), versioned(noUpdate, strings.Replace(anUpdate, "4.21.3", "4.21.4", 1), annotation)); got.Allowed {
		t.Error("the code is good for another release")
	}
	got := h.Handle(quiet(t), versioned(noUpdate, anUpdate, annotation))
	if !got.Allowed || !strings.HasPrefix(got.Warnings[0], "OVERRIDDEN by kube:admin") || len(told) != 0 || u.await == nil {
		t.Fatalf("allowed %t, %q, told %v", got.Allowed, got.Warnings, told)
	}
	in := new(configv1.ClusterVersion)
	in.UID = "u"
	if u.await(in) {
		t.Error("an update without the annotation counts as the one that was overridden")
	}
	in.Annotations = map[string]string{OverrideAnnotation: value}
	if in.UID = "other"; u.await(in) {
		t.Error("another object counts as the one that was overridden")
	}
	if in.UID = types.UID("u"); !u.await(in) {
		t.Error("the update does not count")
	}
	if u.done(true); len(told) != 1 || told[0].Reason != "the mirror follows tonight" || told[0].Kind != versionKind {
		t.Errorf("told %+v", told)
	}
}

// decisionsKept is an AuditLog.
type decisionsKept []auditv1alpha1.Decision

func (*decisionsKept) Detail() audit.Detail                 { return audit.Detail{Changes: true} }
func (d *decisionsKept) Record(a auditv1alpha1.Decision)    { *d = append(*d, a) }
func (*decisionsKept) Confirm(_ auditv1alpha1.Confirmation) {}

// TestUpdateRecord: the record of a decision has both specs, and what is known of the images.
func TestUpdateRecord(t *testing.T) {
	var kept decisionsKept
	h := &Handler{Options: Options{Reviewer: &records{}, Updates: &updateReviews{settings: denying, release: lacking}, Audit: &kept}}
	h.Handle(quiet(t), versioned(noUpdate, anUpdate, ""))
	if len(kept) != 1 {
		t.Fatalf("%d records", len(kept))
	}
	d := kept[0]
	if d.Verdict != "denied" || d.Object.Kind != "ClusterVersion" || d.Images.Total != 191 || len(d.Findings) != 1 || d.Findings[0].Rule != policy.ReleaseNotReady {
		t.Errorf("got %+v", d)
	}
	if d.Change == nil || !strings.Contains(string(d.Change.New), `"version":"4.21.3"`) || strings.Contains(string(d.Change.New), "status") || d.OldSpecHash == d.NewSpecHash {
		t.Errorf("got the change %+v", d.Change)
	}
}

// TestForgedUpdates: what is too large or of other types than an API server sends is not decoded, and answered.
func TestForgedUpdates(t *testing.T) {
	many := func(n int, entry string) string { return "[" + strings.Repeat(entry+",", n) + entry + "]" }
	for why, c := range map[string]struct {
		spec, status string
		allowed      bool
	}{
		"an update of another type":      {`{"desiredUpdate":"4.21.3"}`, `{}`, false},
		"an update that is a bomb":       {`{"desiredUpdate":{"version":"4.21.3","acceptRisks":` + many(500_000, "{}") + `}}`, `{}`, false},
		"a status that is a bomb":        {anUpdate, `{"history":` + many(1_000_000, "{}") + `}`, true},
		"a status of another type":       {anUpdate, `{"availableUpdates":"all"}`, true},
		"a status that is no object":     {anUpdate, `"none"`, true},
		"overrides that are a bomb, too": {strings.Replace(anUpdate, `"channel"`, `"overrides":`+many(500_000, "{}")+`,"channel"`, 1), `{}`, true},
	} {
		u := &updateReviews{}
		h := &Handler{Options: Options{Reviewer: &records{}, Updates: u}}
		req := versioned(noUpdate, c.spec, "")
		at := strings.Index(string(req.OldObject.Raw), `"status":`)
		req.OldObject.Raw = append(slices.Clone(req.OldObject.Raw[:at]), []byte(`"status":`+c.status+`}`)...)
		got := h.Handle(quiet(t), req)
		if got.Allowed != c.allowed {
			t.Errorf("%s: allowed %t, %v", why, got.Allowed, got.Result)
		}
		if bad := c.status != `{}`; c.allowed && (len(u.asked) != 1 || (u.asked[0].Unread != nil) != bad) {
			t.Errorf("%s: asked %d times, %+v", why, len(u.asked), u.asked)
		}
	}
}
