//go:build integration

package serving

import (
	"encoding/base64"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

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
