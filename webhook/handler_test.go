package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/forecast"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// records is a Reviewer that gives one Record and remembers what it was asked.
type records struct {
	verdict  policy.Verdict
	notes    []string
	err      error
	subjects []string
	after    mirrors.Set
	deadline bool
}

// inForce is the configuration that the records' edits are applied to.
var inForce = mirrors.Set{Objects: []mirrors.Object{stored("quay.io/old", "u", 1)}}

func (r *records) Review(ctx context.Context, edit mirrors.Edit, _ settings.Requester) (review.Record, error) {
	r.subjects = append(r.subjects, edit.Subject())
	r.after = edit.Apply(inForce)
	_, r.deadline = ctx.Deadline()
	if r.err != nil {
		return review.Record{}, r.err
	}
	return review.Record{
		Subject: edit.Subject(), Verdict: r.verdict, Refusal: words.Refusal(r.verdict, edit.Subject()), Notes: r.notes,
		Change: policy.Change{Before: inForce, After: r.after}, Read: time.Now(),
	}, nil
}

func (r *records) Renew(ctx context.Context, edit mirrors.Edit, by settings.Requester, _ review.Record) (review.Record, error) {
	return r.Review(ctx, edit, by)
}

func tagMirrorSet(name, source string) *configv1.ImageTagMirrorSet {
	return &configv1.ImageTagMirrorSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "config.openshift.io/v1", Kind: "ImageTagMirrorSet"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: []configv1.ImageTagMirrors{
			{Source: source, Mirrors: []configv1.ImageMirror{"mirror.local/quay"}},
		}},
	}
}

// raw returns o as an API server writes what is of a CustomResourceDefinition: fields are sorted.
func raw(o any) runtime.RawExtension {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var fields any
	if err := json.Unmarshal(data, &fields); err != nil {
		panic(err)
	}
	if data, err = json.Marshal(fields); err != nil {
		panic(err)
	}
	return runtime.RawExtension{Raw: data}
}

func rawText(s string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(s)} }

// requestTo returns a request as the API server makes it.
func requestTo(op admissionv1.Operation, gvk schema.GroupVersionKind, name string) admissionv1.AdmissionRequest {
	return admissionv1.AdmissionRequest{
		UID:       "b7f3a1c2",
		Kind:      metav1.GroupVersionKind(gvk),
		Operation: op,
		Name:      name,
		UserInfo:  authenticationv1.UserInfo{Username: "kube:admin", Groups: []string{"system:masters"}},
		DryRun:    new(bool),
	}
}

// Handle is handle for a request that stays as it is.
func (h *Handler) Handle(ctx context.Context, req admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
	return h.handle(ctx, req, func() {})
}

func creation(o *configv1.ImageTagMirrorSet) admissionv1.AdmissionRequest {
	req := requestTo(admissionv1.Create, mirrors.TagMirrorSetGVK, o.Name)
	req.Object = raw(o)
	return req
}

func update(from, to *configv1.ImageTagMirrorSet) admissionv1.AdmissionRequest {
	req := requestTo(admissionv1.Update, mirrors.TagMirrorSetGVK, to.Name)
	req.Object, req.OldObject = raw(to), raw(from)
	return req
}

func deletion(o *configv1.ImageTagMirrorSet) admissionv1.AdmissionRequest {
	req := requestTo(admissionv1.Delete, mirrors.TagMirrorSetGVK, o.Name)
	req.OldObject = raw(o)
	return req
}

// TestFinalizers: an object goes by the update that removes its last finalizer once it is
// under deletion, and by no other.
func TestFinalizers(t *testing.T) {
	object := func(marked bool, grace *int64, finalizers ...string) *configv1.ImageTagMirrorSet {
		o := tagMirrorSet("apps", "quay.io/old")
		o.Finalizers, o.DeletionGracePeriodSeconds = finalizers, grace
		if marked {
			o.DeletionTimestamp = new(metav1.Now())
		}
		return o
	}
	other := object(true, nil)
	other.Spec.ImageTagMirrors[0].Source = "quay.io/new"
	for _, tt := range []struct {
		name     string
		from, to *configv1.ImageTagMirrorSet
		want     []string // the subject of the review, none if there is none
	}{
		{"the last one", object(true, new(int64(0)), "a"), object(true, new(int64(0))), []string{"Deleting ImageTagMirrorSet apps"}},
		{"no grace period is none", object(true, nil, "a"), object(true, nil), []string{"Deleting ImageTagMirrorSet apps"}},
		{"of two at once", object(true, nil, "foregroundDeletion", "orphan"), object(true, nil), []string{"Deleting ImageTagMirrorSet apps"}},
		{"what else it changes does not matter", object(true, nil, "a"), other, []string{"Deleting ImageTagMirrorSet apps"}},
		{"the client leaves the timestamp out", object(true, nil, "a"), object(false, nil), []string{"Deleting ImageTagMirrorSet apps"}},
		{"one of two", object(true, nil, "a", "b"), object(true, nil, "b"), nil},
		{"not under deletion", object(false, nil, "a"), object(false, nil), nil},
		{"a grace period", object(true, new(int64(30)), "a"), object(true, new(int64(30))), nil},
		{"under deletion, and changed", object(true, nil, "a"), func() *configv1.ImageTagMirrorSet { o := other.DeepCopy(); o.Finalizers = []string{"a"}; return o }(), []string{"ImageTagMirrorSet apps"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reviewer := &records{verdict: policy.Verdict{Allowed: true}}
			h := &Handler{Options: Options{Reviewer: reviewer}}
			if got := h.Handle(quiet(t), update(tt.from, tt.to)); !got.Allowed {
				t.Fatal(got.Result)
			}
			if diff := cmp.Diff(tt.want, reviewer.subjects); diff != "" {
				t.Errorf("reviews -want +got:\n%s", diff)
			}
		})
	}
}

// sources returns the sources of s, to tell sets apart.
func sources(s mirrors.Set) []string {
	return convert.Each(s.Entries(), func(e mirrors.Entry) string { return e.Source })
}

func TestHandlerReviewsTheEdit(t *testing.T) {
	const idms = `{"apiVersion":"config.openshift.io/v1","kind":"ImageDigestMirrorSet","metadata":{"name":"release"},` +
		`"spec":{"imageDigestMirrors":[{"source":"quay.io/release","mirrors":["mirror.local/release"]}]}}`
	const icsp = `{"apiVersion":"operator.openshift.io/v1alpha1","kind":"ImageContentSourcePolicy","metadata":{"name":"old"},` +
		`"spec":{"repositoryDigestMirrors":[{"source":"quay.io/icsp","mirrors":["mirror.local/icsp"]}]}}`
	const image = `{"apiVersion":"config.openshift.io/v1","kind":"Image","metadata":{"name":"cluster"},` +
		`"spec":{"registrySources":{"blockedRegistries":["docker.io"]}}}`
	put := func(op admissionv1.Operation, gvk schema.GroupVersionKind, name, object string) admissionv1.AdmissionRequest {
		req := requestTo(op, gvk, name)
		req.Object = rawText(object)
		return req
	}
	nameless := func(req admissionv1.AdmissionRequest) admissionv1.AdmissionRequest {
		req.Name = ""
		return req
	}
	withOld := func(req admissionv1.AdmissionRequest, old string) admissionv1.AdmissionRequest {
		req.OldObject = rawText(old)
		return req
	}
	for _, tc := range []struct {
		name    string
		req     admissionv1.AdmissionRequest
		subject string
		sources []string
		blocked []string
	}{
		{
			"a new object joins the set", creation(tagMirrorSet("more", "quay.io/new")),
			"ImageTagMirrorSet more",
			[]string{"quay.io/old", "quay.io/new"},
			nil,
		},
		{
			"an update takes the place of its namesake", update(tagMirrorSet("apps", "quay.io/old"), tagMirrorSet("apps", "quay.io/new")),
			"ImageTagMirrorSet apps",
			[]string{"quay.io/new"},
			nil,
		},
		{
			"a deletion takes it away", deletion(tagMirrorSet("apps", "quay.io/old")),
			"Deleting ImageTagMirrorSet apps", nil, nil,
		},
		{
			"a digest mirror set", put(admissionv1.Create, mirrors.DigestMirrorSetGVK, "release", idms),
			"ImageDigestMirrorSet release",
			[]string{"quay.io/old", "quay.io/release"},
			nil,
		},
		{
			"an ICSP", put(admissionv1.Create, mirrors.ContentPolicyGVK, "old", icsp),
			"ImageContentSourcePolicy old",
			[]string{"quay.io/old", "quay.io/icsp"},
			nil,
		},
		{
			"the registry sources of the image configuration", put(admissionv1.Update, mirrors.ImageConfigGVK, "cluster", image),
			"Image cluster",
			[]string{"quay.io/old"},
			[]string{"docker.io"},
		},
		{
			"a generated name is in the object only", nameless(creation(tagMirrorSet("apps-x7k2p", "quay.io/new"))),
			"ImageTagMirrorSet apps-x7k2p",
			[]string{"quay.io/old", "quay.io/new"},
			nil,
		},
		{
			"a deleted collection names its objects only in them", nameless(deletion(tagMirrorSet("apps", "quay.io/old"))),
			"Deleting ImageTagMirrorSet apps", nil, nil,
		},
		{
			"an object that cannot be read can still be deleted",
			withOld(requestTo(admissionv1.Delete, mirrors.TagMirrorSetGVK, "apps"), `{"metadata":{"name":"apps"},"spec":7}`),
			"Deleting ImageTagMirrorSet apps", nil, nil,
		},
		{
			"a deletion without the old object has the name at least", requestTo(admissionv1.Delete, mirrors.TagMirrorSetGVK, "apps"),
			"Deleting ImageTagMirrorSet apps", nil, nil,
		},
		{
			"an old object that cannot be read counts as different",
			withOld(creation(tagMirrorSet("apps", "quay.io/old")), `{"spec":7}`),
			"ImageTagMirrorSet apps",
			[]string{"quay.io/old"},
			nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &records{verdict: policy.Verdict{Allowed: true}}
			resp := (&Handler{Options: Options{Reviewer: r}}).Handle(quiet(t), tc.req)
			if !resp.Allowed || resp.Result != nil {
				t.Errorf("got allowed %t, result %v; want the reviewer's admission", resp.Allowed, resp.Result)
			}
			if diff := cmp.Diff([]string{tc.subject}, r.subjects); diff != "" {
				t.Errorf("subject (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.sources, sources(r.after)); diff != "" {
				t.Errorf("sources after the edit (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.blocked, r.after.Registries.BlockedRegistries); diff != "" {
				t.Errorf("blocked registries after the edit (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHandlerReviewsImagePolicies: a namesake in another namespace is another policy.
func TestHandlerReviewsImagePolicies(t *testing.T) {
	in := func(namespace string, req admissionv1.AdmissionRequest) admissionv1.AdmissionRequest {
		req.Namespace = namespace
		return req
	}
	put := func(gvk schema.GroupVersionKind, scope string) admissionv1.AdmissionRequest {
		req := requestTo(admissionv1.Create, gvk, "signed")
		req.Object = rawText(`{"metadata":{"name":"signed"},"spec":{"scopes":["` + scope + `"]}}`)
		return req
	}
	for _, tc := range []struct {
		name     string
		req      admissionv1.AdmissionRequest
		subject  string
		policies []string
	}{
		{"one of the cluster", put(mirrors.ClusterPolicyGVK, "quay.io/x"), "ClusterImagePolicy signed", []string{"ImagePolicy shop/signed", "ClusterImagePolicy signed"}},
		{"one of another namespace", in("web", put(mirrors.NamespacePolicyGVK, "quay.io/x")), "ImagePolicy web/signed", []string{"ImagePolicy shop/signed", "ImagePolicy web/signed"}},
		{"an update of the one that is there", in("shop", put(mirrors.NamespacePolicyGVK, "quay.io/y")), "ImagePolicy shop/signed", []string{"ImagePolicy shop/signed"}},
		{"a deletion", in("shop", requestTo(admissionv1.Delete, mirrors.NamespacePolicyGVK, "signed")), "Deleting ImagePolicy shop/signed", nil},
		{"a deletion elsewhere", in("web", requestTo(admissionv1.Delete, mirrors.NamespacePolicyGVK, "signed")), "Deleting ImagePolicy web/signed", []string{"ImagePolicy shop/signed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			there := &configv1.ImagePolicy{}
			there.Namespace, there.Name = "shop", "signed"
			p, err := readRequest(tc.req).recognize()
			if err != nil {
				t.Fatal(err)
			}
			var policies []string
			for _, o := range p.edit.Apply(mirrors.Set{Policies: []mirrors.Object{there}}).Policies {
				policies = append(policies, mirrors.NameOf(o))
			}
			if diff := cmp.Diff(tc.policies, policies); diff != "" || p.subject != tc.subject {
				t.Errorf("%s: policies after the edit (-want +got):\n%s", p.subject, diff)
			}
			if after := p.edit.Apply(mirrors.Set{Policies: []mirrors.Object{there}}); !after.Holds(p.edit) {
				t.Error("the change is not seen to be in force once it is")
			}
		})
	}
}

func TestHandlerAdmitsWithoutReview(t *testing.T) {
	labelled := tagMirrorSet("apps", "quay.io/old")
	labelled.Labels = map[string]string{"team": "a"}
	labelled.Finalizers = []string{"example.com/wait"}
	empty, none := tagMirrorSet("apps", ""), tagMirrorSet("apps", "")
	empty.Spec.ImageTagMirrors, none.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{}, nil
	status := update(tagMirrorSet("apps", "quay.io/old"), tagMirrorSet("apps", "quay.io/new"))
	status.SubResource = "status"
	for _, tc := range []struct {
		name string
		req  admissionv1.AdmissionRequest
	}{
		{"a connection changes nothing", requestTo(admissionv1.Connect, mirrors.TagMirrorSetGVK, "apps")},
		{"no subresource holds mirrors", status},
		{"only metadata changed", update(tagMirrorSet("apps", "quay.io/old"), labelled)},
		{"an empty list is no list", update(empty, none)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &records{}
			logged, ctx := logs(t)
			resp := (&Handler{Options: Options{Reviewer: r}}).Handle(ctx, tc.req)
			if !resp.Allowed || len(r.subjects) > 0 {
				t.Errorf("got allowed %t after %d reviews, want an admission without one", resp.Allowed, len(r.subjects))
			}
			if resp.AuditAnnotations != nil || resp.Warnings != nil {
				t.Errorf("got annotations %v and warnings %q, want none", resp.AuditAnnotations, resp.Warnings)
			}
			if len(*logged) != 1 || !strings.Contains((*logged)[0], `"level"=1 "msg"="Admitted without review"`) {
				t.Errorf("got log %q", *logged)
			}
		})
	}
}

func TestHandlerRefusesWhatItCannotRead(t *testing.T) {
	object := func(s string) admissionv1.AdmissionRequest {
		req := requestTo(admissionv1.Create, mirrors.TagMirrorSetGVK, "apps")
		req.Object = rawText(s)
		return req
	}
	configMap := creation(tagMirrorSet("apps", "quay.io"))
	configMap.Kind = metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	kindless := creation(tagMirrorSet("apps", "quay.io"))
	kindless.Kind = metav1.GroupVersionKind{}
	patch := creation(tagMirrorSet("apps", "quay.io"))
	patch.Operation = "PATCH"
	renamed := creation(tagMirrorSet("apps", "quay.io"))
	renamed.Name = "other"
	nameless := creation(tagMirrorSet("", "quay.io"))
	configMapDeletion := deletion(tagMirrorSet("apps", "quay.io"))
	configMapDeletion.Kind = configMap.Kind
	for _, tc := range []struct {
		name string
		req  admissionv1.AdmissionRequest
		want string
	}{
		{
			"a field of the wrong type", object(`{"metadata":{"name":"apps"},"spec":{"imageTagMirrors":[{"source":"a","mirrors":"b"}]}}`),
			"ImageTagMirrorSet apps cannot be read: spec.imageTagMirrors.mirrors is of type string, want array",
		},
		{
			"a number for a text", object(`{"spec":{"imageTagMirrors":[{"source":7}]}}`),
			"ImageTagMirrorSet apps cannot be read: spec.imageTagMirrors.source is of type number, want string",
		},
		{
			"a text for the spec", object(`{"spec":"none"}`),
			"ImageTagMirrorSet apps cannot be read: spec is of type string, want object",
		},
		{
			"a text for a number", object(`{"metadata":{"generation":"1"}}`),
			"ImageTagMirrorSet apps cannot be read: metadata.generation is of type string, want number",
		},
		{
			"a list for the object", object(`[]`),
			"ImageTagMirrorSet apps cannot be read: it is of type array, want object",
		},
		{
			"half an object", object(`{"spec":`),
			"ImageTagMirrorSet apps cannot be read: unexpected end of JSON input",
		},
		{"no object", object(``), "ImageTagMirrorSet apps: the request holds no object"},
		{"null", object(` null`), "ImageTagMirrorSet apps: the request holds no object"},
		{
			"an object of another kind would be read as an empty one", object(`{"apiVersion":"config.openshift.io/v1","kind":"ImageDigestMirrorSet"}`),
			"ImageTagMirrorSet apps: the object is of another kind, config.openshift.io/v1 ImageDigestMirrorSet",
		},
		{"an object of another name", renamed, `ImageTagMirrorSet other: the object has another name, "apps"`},
		{"nobody has a name", nameless, "ImageTagMirrorSet without a name: the object has no name"},
		{"a kind that is no mirror object", configMap, "ConfigMap apps: v1 ConfigMap: not a mirror object"},
		{"a kind that is no mirror object, deleted", configMapDeletion, "ConfigMap apps: v1 ConfigMap: not a mirror object"},
		{"no kind", kindless, "object without a kind apps: (no kind): not a mirror object"},
		{"an operation there is not", patch, `ImageTagMirrorSet apps: unknown operation "PATCH"`},
		{
			"a deletion of nothing", requestTo(admissionv1.Delete, mirrors.TagMirrorSetGVK, ""),
			"ImageTagMirrorSet without a name: the request names no object to delete",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &records{verdict: policy.Verdict{Allowed: true}}
			logged, ctx := logs(t)
			resp := (&Handler{Options: Options{Reviewer: r}}).Handle(ctx, tc.req)
			want := &metav1.Status{Status: "Failure", Code: 400, Reason: "BadRequest", Message: tc.want}
			if diff := cmp.Diff(want, resp.Result); resp.Allowed || diff != "" {
				t.Errorf("allowed %t, result (-want +got):\n%s", resp.Allowed, diff)
			}
			if diff := cmp.Diff(map[string]string{"verdict": "malformed", "reason": want.Message, "uid": "b7f3a1c2", "operation": string(tc.req.Operation)}, resp.AuditAnnotations); diff != "" {
				t.Errorf("audit annotations (-want +got):\n%s", diff)
			}
			if len(r.subjects) > 0 || len(*logged) != 1 {
				t.Errorf("got %d reviews and log %q, want no review and one line", len(r.subjects), *logged)
			}
		})
	}
}

// quayHash is that of the spec of tagMirrorSet("apps", "quay.io"). It must not change: records
// are compared with older ones.
const quayHash = "sha256:ca362cd8beef89e7a628a1644149a9f359aa7db81b3efb1f251fa2b26e2a544e"

// findings are a denial and a warning, as policy sorts them.
var findings = []policy.Finding{
	{Rule: "ImageMissing", Severity: policy.Deny, Image: policy.Image{Ref: "quay.io/app:1"}, Reason: "no mirror holds it"},
	{Rule: "ImageMissing", Severity: policy.Deny, Image: policy.Image{Ref: "quay.io/app:2"}, Reason: "no mirror holds it"},
	{Rule: "MirrorHidden", Severity: policy.Warn, Image: policy.Image{Ref: "quay.io/app:3"}, Reason: "a narrower entry takes it"},
}

func TestHandlerTellsTheVerdict(t *testing.T) {
	counts := policy.Counts{Total: 9, Rerouted: 5, Verified: 3, Unverified: 1}
	for _, tc := range []struct {
		name    string
		verdict policy.Verdict
		audit   map[string]string
		log     string
	}{
		{
			"a denial",
			policy.Verdict{Judgement: policy.Judgement{Findings: findings, Counts: counts}},
			map[string]string{
				"verdict": "denied", "findings": "3", "rules": "ImageMissing,MirrorHidden",
				"rerouted": "5", "verified": "3", "unverified": "1", "uid": "b7f3a1c2", "operation": "CREATE", "dryRun": "true", "newSpecHash": quayHash,
			},
			`"level"=0 "msg"="Reviewed mirror change" "kind"="ImageTagMirrorSet" "name"="apps" "operation"="CREATE" ` +
				`"user"="kube:admin" "uid"="b7f3a1c2" "dryRun"=true "allowed"=false "verdict"="denied" "findings"=3 ` +
				`"rules"="ImageMissing,MirrorHidden" "rerouted"=5 "verified"=3 "unverified"=1 "took"=`,
		},
		{
			"an admission",
			policy.Verdict{Judgement: policy.Judgement{Findings: findings[2:], Counts: counts}, Allowed: true},
			map[string]string{
				"verdict": "allowed", "findings": "1", "rules": "MirrorHidden",
				"rerouted": "5", "verified": "3", "unverified": "1", "uid": "b7f3a1c2", "operation": "CREATE", "dryRun": "true", "newSpecHash": quayHash,
			},
			`"level"=0 "msg"="Reviewed mirror change" "kind"="ImageTagMirrorSet" "name"="apps" "operation"="CREATE" ` +
				`"user"="kube:admin" "uid"="b7f3a1c2" "dryRun"=true "allowed"=true "verdict"="allowed" "findings"=1 ` +
				`"rules"="MirrorHidden" "rerouted"=5 "verified"=3 "unverified"=1 "took"=`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &records{verdict: tc.verdict, notes: []string{"the pull secret is missing"}}
			logged, ctx := logs(t)
			req := creation(tagMirrorSet("apps", "quay.io"))
			*req.DryRun = true
			resp := (&Handler{Options: Options{Reviewer: r}}).Handle(ctx, req)

			rec := review.Record{Subject: "ImageTagMirrorSet apps", Verdict: tc.verdict, Notes: r.notes}
			if resp.Allowed != tc.verdict.Allowed {
				t.Errorf("got allowed %t, want %t", resp.Allowed, tc.verdict.Allowed)
			}
			if diff := cmp.Diff(warnings(rec.Warnings()), resp.Warnings); diff != "" || !slices.Contains(resp.Warnings, r.notes[0]) {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if !tc.verdict.Allowed {
				want := &metav1.Status{Status: "Failure", Code: 403, Reason: "Forbidden", Message: words.Refusal(tc.verdict, rec.Subject)}
				if diff := cmp.Diff(want, resp.Result); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				if reason := text.Cut(text.Line(words.Refusal(tc.verdict, rec.Subject)), maxReasonRunes); reason != "" {
					tc.audit = maps.Clone(tc.audit)
					tc.audit["reason"] = reason
				}
			}
			if diff := cmp.Diff(tc.audit, resp.AuditAnnotations); diff != "" {
				t.Errorf("audit annotations (-want +got):\n%s", diff)
			}
			if len(*logged) != 1 || !strings.HasPrefix((*logged)[0], tc.log) {
				t.Errorf("got log\n%s\nwant one line that starts with\n%s", *logged, tc.log)
			}
		})
	}
}

// TestHandlerSaysWhatComesAgain: what was refused is mended and tried again, what was
// tried as a dry run is made. What was made is over, and without a review there is
// nothing to prepare for.
func TestHandlerSaysWhatComesAgain(t *testing.T) {
	for _, tc := range []struct {
		name            string
		allowed, dryRun bool
		rank            int
		err             error
		want            []string
	}{
		{"made", true, false, recent.RankKnown, nil, nil},
		{"refused", false, false, recent.RankKnown, nil, []string{"ImageTagMirrorSet apps"}},
		{"dry run", true, true, recent.RankKnown, nil, []string{"ImageTagMirrorSet apps"}},
		{"refused dry run", false, true, recent.RankKnown, nil, []string{"ImageTagMirrorSet apps"}},
		{"dry run of a stranger", true, true, recent.RankKnown + 1, nil, nil},
		{"no verdict", false, true, recent.RankKnown, errors.New("no connection"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			h := &Handler{Options: Options{
				Reviewer:    &records{verdict: policy.Verdict{Judgement: policy.Judgement{Findings: findings}, Allowed: tc.allowed}, err: tc.err},
				ExpectRetry: func(r review.Record) { got = append(got, r.Subject) },
			}}
			req := creation(tagMirrorSet("apps", "quay.io"))
			req.DryRun = &tc.dryRun
			h.Handle(fairshare.WithClaimant(quiet(t), fairshare.Claimant{Name: "10.0.0.1", Rank: tc.rank}), req)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestHandlerRefusesWithoutVerdict(t *testing.T) {
	unreadable := errors.New("reading the mirror configuration in force: connection\nrefused")
	expired := fmt.Errorf("listing the images in use: %w", context.DeadlineExceeded)
	const see = "oc -n mirrorset-guard logs deployment/mirrorset-guard"
	for _, tc := range []struct {
		name string
		req  admissionv1.AdmissionRequest
		err  error
		want string
	}{
		{
			"a creation", creation(tagMirrorSet("apps", "quay.io")), unreadable,
			"ImageTagMirrorSet apps is refused because there is no verdict: reading the mirror configuration in force: connection refused.\n" +
				"Try again; if that does not help, see: " + see,
		},
		{
			"a deletion can do without", deletion(tagMirrorSet("apps", "quay.io")), unreadable,
			"Deleting ImageTagMirrorSet apps is refused because there is no verdict: reading the mirror configuration in force: connection refused.\n" +
				"Try again; if that does not help, see: " + see + "\n" +
				"A deletion that cannot wait is let through while the guard is stopped: oc -n mirrorset-guard scale deployment/mirrorset-guard --replicas=0",
		},
		{
			"the time ran out", creation(tagMirrorSet("apps", "quay.io")), expired,
			"ImageTagMirrorSet apps is refused because there is no verdict: listing the images in use: context deadline exceeded.\n" +
				"Time ran out; what was found so far is kept, so try again in 10 seconds; if that does not help, see: " + see,
		},
		{
			"a page in place of an answer", creation(tagMirrorSet("apps", "quay.io")), errors.New(strings.Repeat("é", 5000)),
			"ImageTagMirrorSet apps is refused because there is no verdict: " + strings.Repeat("é", 999) + "….\n" +
				"Try again; if that does not help, see: " + see,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			logged, ctx := logs(t)
			resp := (&Handler{Options: Options{Reviewer: &records{err: tc.err}}}).Handle(ctx, tc.req)
			want := &metav1.Status{Status: "Failure", Code: 500, Reason: "InternalError", Message: tc.want}
			if diff := cmp.Diff(want, resp.Result); resp.Allowed || diff != "" {
				t.Errorf("allowed %t, result (-want +got):\n%s", resp.Allowed, diff)
			}
			annotations := map[string]string{"verdict": "none", "reason": text.Cut(text.Line(tc.want), 1000), "uid": "b7f3a1c2", "operation": string(tc.req.Operation), "newSpecHash": quayHash}
			if tc.req.Operation == admissionv1.Delete {
				delete(annotations, "newSpecHash")
				annotations["oldSpecHash"] = quayHash
			}
			if diff := cmp.Diff(annotations, resp.AuditAnnotations); diff != "" {
				t.Errorf("audit annotations (-want +got):\n%s", diff)
			}
			if len(*logged) != 1 || !strings.HasPrefix((*logged)[0], `"msg"="Refused mirror change without verdict" "error"=`) {
				t.Errorf("got log %q, want one error", *logged)
			}
		})
	}
}

func TestHandlerRefusesOnPanic(t *testing.T) {
	h := &Handler{Options: Options{Reviewer: ReviewerFunc(func(context.Context, mirrors.Edit) (review.Record, error) {
		panic("index out of range")
	})}}
	logged, ctx := logs(t)
	resp := h.Handle(ctx, creation(tagMirrorSet("apps", "quay.io")))
	want := &metav1.Status{
		Status: "Failure", Code: 500, Reason: "InternalError",
		Message: "ImageTagMirrorSet apps is refused because there is no verdict: panic: index out of range.\n" +
			"Try again; if that does not help, see: oc -n mirrorset-guard logs deployment/mirrorset-guard",
	}
	if diff := cmp.Diff(want, resp.Result); resp.Allowed || diff != "" {
		t.Errorf("allowed %t, result (-want +got):\n%s", resp.Allowed, diff)
	}
	if len(*logged) != 1 || !strings.Contains((*logged)[0], "TestHandlerRefusesOnPanic") {
		t.Errorf("got log %q, want one line with the stack", *logged)
	}
}

// A denial may have lines, but nothing that drives a terminal.
func TestDenialIsPrintable(t *testing.T) {
	d := answer{request: new(request), verdict: denied, message: "first\n\tsecond \x1b[31mred\x1b[0m\rover \u202eback \xff."}
	if got, want := d.response().Result.Message, "first\n\tsecond [31mred[0m over back ."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAuditReasonIsOneLineAndCut(t *testing.T) {
	d := answer{request: new(request), verdict: denied, message: "first\n" + strings.Repeat("x", 2000)}
	if got, want := d.response().AuditAnnotations["reason"], "first "+strings.Repeat("x", 993)+"…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLogCutsWhatAStrangerWrites(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	req := creation(tagMirrorSet(long, "quay.io"))
	req.UserInfo.Username, req.Kind.Kind, req.UID = long, long, "u"
	logged, ctx := logs(t)
	(&Handler{Options: Options{Reviewer: &records{}}}).Handle(ctx, req)
	if len(*logged) != 1 || len((*logged)[0]) > 8<<10 {
		t.Errorf("got %d lines, the first of %d bytes, want one below 8 KiB", len(*logged), len((*logged)[0]))
	}
}

// logs returns a context with a logger and the lines that are logged to it.
func logs(t *testing.T) (*[]string, context.Context) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1})
	return &lines, log.IntoContext(t.Context(), logger)
}

// quiet returns a context whose logger discards.
func quiet(t *testing.T) context.Context {
	return log.IntoContext(t.Context(), logr.Discard())
}

// TestForecastIsAudited: what the change does to the nodes is in the audit log, shortened.
func TestForecastIsAudited(t *testing.T) {
	f := &forecast.Forecast{Forecast: rollout.Forecast{Pools: []rollout.Pool{{Name: "gpu", Part: rollout.Paused}}}}
	d := answer{request: new(request), verdict: allowed, record: review.Record{Forecast: f}}
	if got, want := d.response().AuditAnnotations["forecast"], "reaches no node; pool gpu is paused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.Pools[0].Name = strings.Repeat("x", 2000)
	if got := d.response().AuditAnnotations["forecast"]; len([]rune(got)) != 1000 {
		t.Errorf("got %d runes", len([]rune(got)))
	}
}

// TestDryRuns: they have a Reviewer of their own, if there is one.
func TestDryRuns(t *testing.T) {
	for _, dry := range []bool{true, false} {
		real, trial := &records{verdict: policy.Verdict{Allowed: true}}, &records{verdict: policy.Verdict{Allowed: true}}
		req := creation(tagMirrorSet("apps", "quay.io/new"))
		req.DryRun = &dry
		(&Handler{Options: Options{Reviewer: real, DryRuns: trial}}).Handle(quiet(t), req)
		if asked := len(trial.subjects) > 0; asked != dry || len(real.subjects) > 0 == dry {
			t.Errorf("dry run %v: %q, %q", dry, trial.subjects, real.subjects)
		}
		(&Handler{Options: Options{Reviewer: real}}).Handle(quiet(t), req)
		if len(real.subjects) == 0 {
			t.Error("without one, nobody is asked")
		}
	}
}

// TestDryRunsAtOnce: of dry runs that are the same one is judged, as long as it is under way, and shared as of now. Anything
// else, anybody else and whoever comes later has a review of his own.
func TestDryRunsAtOnce(t *testing.T) {
	type asked = admissionv1.AdmissionRequest
	object := func(was, is string) func(*asked) {
		return func(r *asked) { r.Object = rawText(strings.Replace(string(r.Object.Raw), was, is, 1)) }
	}
	for what, tt := range map[string]struct {
		second  func(*asked)
		after   time.Duration
		reviews int32
	}{
		"the same":                   {func(r *asked) { r.UID = "another" }, 0, 1},
		"a creation's own uid":       {object(`"name":"apps"`, `"name":"apps","uid":"another"`), 0, 1},
		"another user":               {func(r *asked) { r.UserInfo.Username = "bob" }, 0, 2},
		"another group":              {func(r *asked) { r.UserInfo.Groups = []string{"on-call"} }, 0, 2},
		"another spec":               {object("quay.io/new", "quay.io/other"), 0, 2},
		"another object":             {func(r *asked) { *r = dryRun(creation(tagMirrorSet("web", "quay.io/new"))) }, 0, 2},
		"another namespace":          {func(r *asked) { r.Namespace = "another" }, 0, 2},
		"another kind":               {func(r *asked) { object("ImageTag", "ImageDigest")(r); r.Kind.Kind = "ImageDigestMirrorSet" }, 0, 2},
		"no dry run":                 {func(r *asked) { r.DryRun = nil }, 0, 2},
		"once misses may be too old": {func(*asked) {}, DryRunMisses, 2},
		"the first gives up":         {func(*asked) {}, -1, 2},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &slowReviewer{}
				h := &Handler{Options: Options{Reviewer: slow}}
				first := dryRun(creation(tagMirrorSet("apps", "quay.io/new")))
				second := first
				tt.second(&second)
				ctx, leave := context.WithCancel(quiet(t))
				var all sync.WaitGroup
				all.Go(func() { h.Handle(ctx, first) })
				time.Sleep(tt.after)
				synctest.Wait()
				all.Go(func() {
					if !h.Handle(quiet(t), second).Allowed {
						t.Error("the second is refused")
					}
				})
				synctest.Wait()
				if tt.after < 0 {
					leave()
				}
				all.Wait()
				leave()
				if slow.reviews.Load() != tt.reviews || tt.reviews == 1 && slow.renewed.Load() != 1 || len(h.dryRuns.under) > 0 {
					t.Errorf("%d reviews, %d renewed, %d left", slow.reviews.Load(), slow.renewed.Load(), len(h.dryRuns.under))
				}
			})
		})
	}
}

// A slowReviewer admits everything, and counts.
type slowReviewer struct{ reviews, renewed atomic.Int32 }

func (s *slowReviewer) Review(ctx context.Context, _ mirrors.Edit, _ settings.Requester) (review.Record, error) {
	s.reviews.Add(1)
	select {
	case <-time.After(2 * DryRunMisses):
	case <-ctx.Done():
	}
	return review.Record{Verdict: policy.Verdict{Allowed: true}}, ctx.Err()
}

func (s *slowReviewer) Renew(_ context.Context, _ mirrors.Edit, _ settings.Requester, r review.Record) (review.Record, error) {
	s.renewed.Add(1)
	return r, nil
}
