package diagnosis

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

func TestEvictionOf(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	budget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget cart needs 1"}}
	webhook := apierrors.NewForbidden(pods, "a", nil)
	webhook.ErrStatus.Message = `admission webhook "vm.example.com" denied the request: it runs`
	for _, tt := range []struct {
		reason string
		err    error
		want   status.Eviction
		fails  bool
	}{
		{"it would be evicted", nil, status.Eviction{Allowed: true}, false},
		{"it is gone", apierrors.NewNotFound(pods, "a"), status.Eviction{Allowed: true}, false},
		{"a budget", budget, status.Eviction{Budgets: true, Words: "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget cart needs 1"}, false},
		{"several budgets", apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")), status.Eviction{
			Budgets: true, Words: "Internal error occurred: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}, false},
		{"a webhook", webhook, status.Eviction{Words: `admission webhook "vm.example.com" denied the request: it runs`}, false},
		{"too many requests of ours", apierrors.NewTooManyRequests("try again", 1), status.Eviction{}, true},
		{"no right", apierrors.NewForbidden(pods, "a", errors.New(`User "x" cannot create resource "pods/eviction"`)), status.Eviction{}, true},
		{"no answer", context.DeadlineExceeded, status.Eviction{}, true},
	} {
		got, err := evictionOf(tt.err)
		if got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: got %+v, %v", tt.reason, got, err)
		}
	}
}

func TestAnswerOf(t *testing.T) {
	for _, tt := range []struct {
		fact *policy.Fact
		want status.Answer
	}{
		{nil, status.Answer{}},
		{&policy.Fact{}, status.Answer{}},
		{&policy.Fact{Presence: policy.Present}, status.Answer{Presence: policy.Present}},
		{&policy.Fact{Presence: policy.Present, Serves: []string{"linux/amd64"}, Lacks: []string{"linux/arm64"}}, status.Answer{Presence: policy.Present, Words: "without linux/arm64", Without: []string{"linux/arm64"}}},
		{&policy.Fact{Presence: policy.Present, Serves: []string{"linux/amd64"}, Missing: []string{"linux/arm64/v8"}}, status.Answer{Presence: policy.Present, Words: "without linux/arm64/v8", Without: []string{"linux/arm64"}}},
		{&policy.Fact{Presence: policy.Present, Serves: []string{"linux/amd64"}, Missing: []string{"linux/arm64/v8"}, Guessed: true}, status.Answer{Presence: policy.Present, Words: "without linux/arm64/v8", Without: []string{"linux/arm64/v8"}}},
		{&policy.Fact{Presence: policy.Denied, Detail: "a\nb"}, status.Answer{Presence: policy.Denied, Words: "a b"}},
	} {
		place := mirrors.PullSource{Location: mirrors.Location{Ref: "m.local/x:1"}}
		if got := answerOf(place, policy.Facts{place.Location: tt.fact}, []string{"linux/amd64", "linux/arm64"}); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%+v: got %+v, want %+v", tt.fact, got, tt.want)
		}
	}
}

// TestPendingRequests: which nodes wait for a certificate, the latest request of each.
func TestPendingRequests(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := func(name, commonName, signer string, minute int, decided bool) certificatesv1.CertificateSigningRequest {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName}}, key)
		if err != nil {
			t.Fatal(err)
		}
		r := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(60*minute), 0))}}
		r.Spec.SignerName, r.Spec.Request = signer, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		if decided {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		}
		return r
	}
	const kubelet, other = certificatesv1.KubeletServingSignerName, "example.com/other"
	garbage := request("garbage", "system:node:e", kubelet, 9, false)
	garbage.Spec.Request = []byte("garbage")
	got := pendingRequests([]certificatesv1.CertificateSigningRequest{
		request("old", "system:node:a", kubelet, 1, false), request("new", "system:node:a", kubelet, 2, false), request("denied", "system:node:b", kubelet, 1, true),
		request("other", "system:node:c", other, 1, false), request("person", "alice", kubelet, 1, false), garbage,
	})
	if want := []status.CertificateRequest{{Name: "new", Node: "a"}}; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
