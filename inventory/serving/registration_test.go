package serving

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

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

// registration follows what is registered of the manifests, and returns a function that waits until it differs like that.
func (w world) registration() (*following, *admissionregistrationv1.ValidatingWebhookConfiguration, func(differences string)) {
	w.Helper()
	installed, err := manifests.WebhookConfiguration()
	if err != nil {
		w.Fatal(err)
	}
	f := &following{t: w.T}
	if f.Follower, err = Follow(rest.CopyConfig(w.cluster.Config), Options{WebhookConfiguration: configurationName, Installed: installed}); err != nil {
		w.Fatal(err)
	}
	if r, _ := f.Registration(); r.Known || r.String() != "" {
		w.Errorf("before anything has been read: %+v", r)
	}
	go f.Run(w.Context()) //nolint:errcheck // it returns nil
	return f, installed, func(differences string) {
		w.Helper()
		f.eventually(differences, func() bool {
			r, _ := f.Registration()
			return r.Known && strings.Join(r.Differences, "; ") == differences && (r.Since.IsZero() == (differences == ""))
		})
	}
}

// TestRegistration: what a real API server makes of the manifests is as they were installed.
func TestRegistration(t *testing.T) {
	w := world{t, cluster.New(t)}
	f, installed, registered := w.registration()
	text, err := yaml.Marshal(installed)
	if err != nil {
		t.Fatal(err)
	}
	registered("there is no validatingwebhookconfiguration/mirrorset-guard, nor one of OLM")
	w.apply(string(text))
	registered("")
	w.kubectl("patch", "validatingwebhookconfiguration", configurationName, "--type=json", "-p", patched[0].patch)
	registered(patched[0].differences)
	if r, _ := f.Registration(); !f.hasNote(r.String()) || !strings.Contains(r.String(), "changes may have passed unseen since 2") {
		t.Errorf("no note says so: %q", f.Notes())
	}
	w.kubectl("delete", "validatingwebhookconfiguration", configurationName)
	registered("there is no validatingwebhookconfiguration/mirrorset-guard, nor one of OLM")
}

// TestRegistrationByOLM: OLM makes a configuration for each webhook, chooses its name, sets a selector by
// namespaces, and has a Service of its own. All of that is as good, and what is weaker is still told.
func TestRegistrationByOLM(t *testing.T) {
	w := world{t, cluster.New(t)}
	f, installed, registered := w.registration()
	registered("there is no validatingwebhookconfiguration/mirrorset-guard, nor one of OLM")

	bundle, err := base64.StdEncoding.DecodeString(aCertificate)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(installed.Webhooks))
	for i, hook := range installed.Webhooks {
		hook.ClientConfig.Service = hook.ClientConfig.Service.DeepCopy()
		hook.ClientConfig.Service.Name += "-service"
		hook.ClientConfig.CABundle = bundle
		hook.NamespaceSelector, hook.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
		c := admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: []admissionregistrationv1.ValidatingWebhook{hook}}
		c.GenerateName = hook.Name + "-"
		names[i] = w.create(&c)
		if i == 0 {
			registered(installed.Webhooks[1].Name + " is missing")
		}
	}
	registered("")
	if called := f.Webhooks(); len(called) != len(names) || called[0].Host != "mirrorset-guard-service.mirrorset-guard.svc" || len(called[1].CABundle) == 0 {
		t.Errorf("the certificate is verified by %+v", called)
	}

	w.kubectl("patch", "validatingwebhookconfiguration", names[0], "--type=json", "-p", `[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]`)
	registered("mirrorsets.mirrorset-guard.io: failurePolicy is Ignore, not Fail: changes are admitted if the guard does not answer")
	second := *installed
	second.Name = "another"
	w.create(&second)
	registered("") // this one fails closed
	w.kubectl(append([]string{"delete", "validatingwebhookconfiguration", "another"}, names...)...)
	registered("there is no validatingwebhookconfiguration/mirrorset-guard, nor one of OLM")
}

// create makes a configuration, and returns its name.
func (w world) create(c *admissionregistrationv1.ValidatingWebhookConfiguration) string {
	w.Helper()
	kube, err := kubernetes.NewForConfig(w.cluster.Config)
	if err != nil {
		w.Fatal(err)
	}
	made, err := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(w.Context(), c, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return made.Name
}
