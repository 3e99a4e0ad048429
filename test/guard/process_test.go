package guard

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
)

func TestWebhooksAt(t *testing.T) {
	base, err := manifests.WebhookConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	got, err := WebhooksAt("https://127.0.0.1:1234", []byte("a CA"))
	if err != nil {
		t.Fatal(err)
	}
	want := admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1234/validate"), CABundle: []byte("a CA")}
	for i := range got.Webhooks {
		if diff := gocmp.Diff(want, got.Webhooks[i].ClientConfig); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got.Webhooks[i].Name, diff)
		}
	}
	ignored := cmpopts.IgnoreFields(admissionregistrationv1.ValidatingWebhook{}, "ClientConfig")
	if diff := gocmp.Diff(base, got, ignored); diff != "" {
		t.Errorf("something else changed too (-base +got):\n%s", diff)
	}
}
