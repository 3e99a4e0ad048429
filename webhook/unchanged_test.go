package webhook

import (
	"context"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

var everyKind = []schema.GroupVersionKind{
	mirrors.TagMirrorSetGVK, mirrors.DigestMirrorSetGVK, mirrors.ContentPolicyGVK,
	mirrors.ImageConfigGVK, mirrors.ClusterPolicyGVK, mirrors.NamespacePolicyGVK,
}

// TestUnchanged: an update that leaves the spec alone is admitted at once, whatever else it
// changes, of every kind. Neither a Reviewer nor an Authorizer is asked. But labels of a PinnedImageSet choose its pools.
func TestUnchanged(t *testing.T) {
	const going = `"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0,`
	specs := map[string]string{
		mirrors.TagMirrorSetGVK.Kind:    `{"imageTagMirrors":[{"source":"quay.io","mirrors":["m.example.com"]}]}`,
		mirrors.DigestMirrorSetGVK.Kind: `{"imageDigestMirrors":[{"source":"quay.io","mirrors":["m.example.com"],"mirrorSourcePolicy":"NeverContactSource"}]}`,
		mirrors.ContentPolicyGVK.Kind:   `{"repositoryDigestMirrors":[{"source":"quay.io","mirrors":["m.example.com"]}]}`,
		mirrors.ImageConfigGVK.Kind:     `{"registrySources":{"blockedRegistries":["x.io"]},"additionalTrustedCA":{"name":"cas"}}`,
		mirrors.ClusterPolicyGVK.Kind:   `{"scopes":["quay.io"],"policy":{"rootOfTrust":{"policyType":"PublicKey","publicKey":{"keyData":"Zm9v"}}}}`,
		mirrors.NamespacePolicyGVK.Kind: `{"scopes":["quay.io"],"policy":{"rootOfTrust":{"policyType":"PublicKey","publicKey":{"keyData":"Zm9v"}}}}`,
		mirrors.PinnedSetGVK.Kind:       `{"pinnedImages":[{"name":"quay.io/a@sha256:aaaa"}]}`,
	}
	asked := 0
	h := &Handler{Options: Options{Authorizer: permits("nobody"), Reviewer: ReviewerFunc(func(context.Context, mirrors.Edit) (review.Record, error) {
		asked++
		return review.Record{}, nil
	})}}
	for _, gvk := range append(everyKind, mirrors.PinnedSetGVK) {
		object := func(metadata string) string {
			return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{%s"name":"cluster"},"spec":%s}`, gvk.GroupVersion(), gvk.Kind, metadata, specs[gvk.Kind])
		}
		for what, metadata := range map[string][2]string{
			"labels":                     {``, `"labels":{"a":"b"},`},
			"annotations":                {`"annotations":{"a":"b"},`, ``},
			"an override":                {``, `"annotations":{"mirrorset-guard.io/override":"01234567: why"},`},
			"a finalizer":                {``, `"finalizers":["a/b"],`},
			"the last finalizer":         {`"finalizers":["a/b"],`, ``},
			"one of two, under deletion": {going + `"finalizers":["a/b","c/d"],`, going + `"finalizers":["a/b"],`},
			"owner references":           {``, `"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"u"}],`},
			"managed fields":             {`"managedFields":[{"manager":"a","operation":"Apply"}],`, `"managedFields":[{"manager":"b","operation":"Update"}],`},
			"the version":                {`"resourceVersion":"1","generation":1,`, `"resourceVersion":"2","generation":1,`},
			"nothing":                    {``, ``},
			"the generation":             {``, `"generation":2,`},
		} {
			req := requestTo(admissionv1.Update, gvk, "cluster")
			req.OldObject, req.Object = rawText(object(metadata[0])), rawText(object(metadata[1]))
			got := h.Handle(quiet(t), req)
			if chooses := gvk == mirrors.PinnedSetGVK && what == "labels"; (asked != 0) != chooses || !chooses && (!got.Allowed || got.AuditAnnotations != nil || len(got.Warnings) != 0) {
				t.Errorf("%s, %s: %d reviews, allowed %t, %v, %v", gvk.Kind, what, asked, got.Allowed, got.Result, got.Warnings)
			}
			asked = 0
		}
		// What makes the table above mean something: the same with another spec is reviewed.
		req := requestTo(admissionv1.Update, gvk, "cluster")
		req.OldObject, req.Object = rawText(object("")), rawText(fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"cluster"}}`, gvk.GroupVersion(), gvk.Kind))
		if h.Handle(quiet(t), req); asked != 1 {
			t.Errorf("%s: another spec is not reviewed", gvk.Kind)
		}
		asked = 0
	}
}
