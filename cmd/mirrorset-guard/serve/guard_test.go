package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// askGuard puts the creation of a mirror object to g, as an API server does that waits
// for so long.
func askGuard(t *testing.T, g *guard, object string, timeout time.Duration, as ...func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionResponse {
	t.Helper()
	answer := sendReview(t, g, object, timeout, as...)
	var reply admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &reply); err != nil || reply.Response == nil {
		t.Fatalf("status %d, %v: %s", answer.Code, err, answer.Body)
	}
	return reply.Response
}

// dryRun makes a dry run of a request.
func dryRun(r *admissionv1.AdmissionRequest) { r.DryRun = new(true) }

// sendReview is askGuard where the answer may be none of a review.
func sendReview(t *testing.T, g *guard, object string, timeout time.Duration, as ...func(*admissionv1.AdmissionRequest)) *httptest.ResponseRecorder {
	t.Helper()
	o, err := mirrors.Parse([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	var question admissionv1.AdmissionReview
	question.APIVersion, question.Kind = "admission.k8s.io/v1", "AdmissionReview"
	question.Request = &admissionv1.AdmissionRequest{
		UID: "u", Operation: admissionv1.Create, Name: o.GetName(), Object: runtime.RawExtension{Raw: []byte(object)},
	}
	question.Request.Kind.Group, question.Request.Kind.Version, question.Request.Kind.Kind = "config.openshift.io", "v1", mirrors.KindOf(o)
	for _, change := range as {
		change(question.Request)
	}
	body, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodPost, fmt.Sprintf("%s?timeout=%s", webhook.Path, timeout), bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	g.mux.ServeHTTP(answer, req)
	return answer
}

// guardOf returns the webhook of the command serve around a dump, a List of items that
// are separated by commas. What it logs goes to logs.
func guardOf(t *testing.T, items string, logs io.Writer, flags ...string) *guard {
	t.Helper()
	log, err := newLogger("debug", logs)
	if err != nil {
		t.Fatal(err)
	}
	var w cli.WorldFlags
	set := pflag.NewFlagSet("check", pflag.ContinueOnError)
	w.AddFlags(set)
	dump := clitest.Written(t, "dump.json", `{"apiVersion":"v1","kind":"List","items":[`+items+`]}`)
	if err := set.Parse(append(flags, "--from", dump)); err != nil {
		t.Fatal(err)
	}
	open, err := w.Open(t.Context(), cli.Streams{Err: logs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(open.Close)
	g := &guard{world: open, registries: open.Registries, registry: prometheus.NewRegistry()}
	g.mux, err = webhook.NewServeMux(webhook.Options{
		Reviewer: &review.Reviewer{Inventory: open.Cluster, Registries: open.Registries, Limiter: review.NewLimiter(2), InForce: new(review.InForce)},
		Log:      log, Metrics: g.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
