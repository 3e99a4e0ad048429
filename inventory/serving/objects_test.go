package serving

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mirrorset-guard/mirrorset-guard/certs/tlsprofile"
	"github.com/mirrorset-guard/mirrorset-guard/manifests"
)

const aCertificate = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJlVENDQVIrZ0F3SUJBZ0lCQURBS0JnZ3Foa2pPUFFRREFqQWtNU0l3SUFZRFZRUUREQmxzYjJOaGJDMW0=" // base64, as is all that is asked of it

const first, second = "mirrorsets.mirrorset-guard.io", "mirrorset-deletions.mirrorset-guard.io"

// patched are JSON patches of the installed webhook configuration, and what they take away.
var patched = []struct{ what, patch, differences string }{
	{"less time", `[{"op": "remove", "path": "/webhooks/0/timeoutSeconds"}]`, first + ": timeoutSeconds is 10, not 15"},
	{"open", `[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]`, first + ": failurePolicy is Ignore, not Fail: changes are admitted if the guard does not answer"},
	{"labels and the CA", `[{"op": "add", "path": "/metadata/labels/a", "value": "b"}, {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "` + aCertificate + `"}]`, ""},
	{"more time", `[{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 30}]`, ""},
	{"dry runs", `[{"op": "replace", "path": "/webhooks/0/sideEffects", "value": "None"}]`, ""},
	{"in other words", `[{"op": "replace", "path": "/webhooks/0/rules", "value": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}]`, ""},
	{"in another order", `[{"op": "move", "from": "/webhooks/0", "path": "/webhooks/1"}]`, ""},
	{"another webhook", `[{"op": "copy", "from": "/webhooks/0", "path": "/webhooks/2"}, {"op": "replace", "path": "/webhooks/2/name", "value": "third.example.com"}]`, ""},
	{"closed", `[{"op": "replace", "path": "/webhooks/1/failurePolicy", "value": "Fail"}]`, second + ": failurePolicy is Fail, not Ignore: changes are refused if the guard does not answer"},
	{"one less", `[{"op": "remove", "path": "/webhooks/1"}]`, second + " is missing"},
	{"a kind less", `[{"op": "remove", "path": "/webhooks/0/rules/0/resources/0"}]`, first + ": rules leave out CREATE of imagetagmirrorsets.config.openshift.io, UPDATE of imagetagmirrorsets.config.openshift.io"},
	{"another scope", `[{"op": "replace", "path": "/webhooks/1/rules/2/scope", "value": "Cluster"}]`, second + ": rules leave out DELETE of imagepolicies.config.openshift.io"},
	{"conditions", `[{"op": "add", "path": "/webhooks/0/matchConditions", "value": [{"name": "never", "expression": "false"}]}]`, first + ": matchConditions may leave out any change: never"},
	{"by labels", `[{"op": "add", "path": "/webhooks/0/objectSelector", "value": {"matchLabels": {"a": "b"}}}]`, first + ": objectSelector leaves out objects by their labels"},
	{"by namespaces", `[{"op": "add", "path": "/webhooks/0/namespaceSelector", "value": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["shop"]}]}}]`, first + ": namespaceSelector leaves out namespaces: imagepolicies"},
	{"no other versions", `[{"op": "replace", "path": "/webhooks/0/matchPolicy", "value": "Exact"}]`, first + ": matchPolicy is Exact, not Equivalent"},
	{"an older review", `[{"op": "replace", "path": "/webhooks/0/admissionReviewVersions", "value": ["v1beta1", "v1"]}]`, first + ": admissionReviewVersions begin with v1beta1, which the guard does not answer"},
	{"a newer review", `[{"op": "replace", "path": "/webhooks/0/admissionReviewVersions", "value": ["v2", "v1"]}]`, ""},
	{"another service", `[{"op": "replace", "path": "/webhooks/0/clientConfig/service/name", "value": "yes-man"}]`, first + ": clientConfig.service is mirrorset-guard/yes-man:443/validate, not mirrorset-guard/mirrorset-guard:443/validate"},
	{"another path", `[{"op": "remove", "path": "/webhooks/0/clientConfig/service/path"}]`, first + ": clientConfig.service is mirrorset-guard/mirrorset-guard:443, not mirrorset-guard/mirrorset-guard:443/validate"},
	{"another program", `[{"op": "remove", "path": "/webhooks/0/clientConfig/service"}, {"op": "add", "path": "/webhooks/0/clientConfig/url", "value": "https://example.com/yes"}]`, first + ": clientConfig.url is https://example.com/yes, not the service mirrorset-guard/mirrorset-guard:443/validate"},
}

func TestDifferences(t *testing.T) {
	installed, err := manifests.WebhookConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range patched {
		var registered admissionregistrationv1.ValidatingWebhookConfiguration
		text, err := json.Marshal(installed)
		patch, invalid := jsonpatch.DecodePatch([]byte(c.patch))
		if err := errors.Join(err, invalid); err != nil {
			t.Fatal(err)
		}
		if text, err = patch.Apply(text); err != nil || json.Unmarshal(text, &registered) != nil {
			t.Fatalf("%s: %v\n%s", c.what, err, text)
		}
		if got := strings.Join(differences(installed, []*admissionregistrationv1.ValidatingWebhookConfiguration{&registered}), "; "); got != c.differences {
			t.Errorf("%s: got %q, want %q", c.what, got, c.differences)
		}
	}
}

// TestUnreadable: an object of other types than the API's says nothing that could be relied
// on, so it does not turn the profile off.
func TestUnreadable(t *testing.T) {
	for _, spec := range []any{
		map[string]any{"tlsSecurityProfile": "Modern", "tlsAdherence": "StrictAllComponents"},
		map[string]any{"tlsAdherence": int64(1)},
		map[string]any{"tlsSecurityProfile": map[string]any{"type": "Custom", "custom": map[string]any{"ciphers": "ROT13"}}},
		"spec",
	} {
		p := profileOf(&unstructured.Unstructured{Object: map[string]any{"spec": spec}})
		if p.Name != "Intermediate" || len(p.Problems) != 1 || !strings.HasPrefix(p.Problems[0], "spec cannot be read: Intermediate is followed: ") {
			t.Errorf("%v: got %s, %q", spec, p.Name, p.Problems)
		}
	}
	for _, spec := range []any{nil, map[string]any{}, map[string]any{"audit": "garbage"}} {
		if p := profileOf(&unstructured.Unstructured{Object: map[string]any{"spec": spec}}); !p.Equal(tlsprofile.Default()) {
			t.Errorf("%v: got %+v", spec, p)
		}
	}
}
