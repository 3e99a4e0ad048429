package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// An endpoint speaks HTTP for a handler. It takes the place of
// controller-runtime's admission.Webhook, which ends at 7 MiB, answers v1beta1
// as if it were v1, and answers what it cannot read with a review that has no
// uid, in which the API server reads nothing but "invalid webhook response".
type endpoint struct {
	handler admission.Handler
	ready   func() error
	log     logr.Logger
	metrics *metrics
}

// maxBody is a little more than the largest review: two objects of 3 MiB at most
// (MaxRequestBodyBytes in k8s.io/apiserver, pkg/server/config.go), and what the
// request says about itself.
const maxBody = 8 << 20

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, refusal := e.read(w, r)
	if refusal != nil {
		e.refuse(w, refusal)
		return
	}
	ctx := log.IntoContext(r.Context(), e.log)
	resp := e.handler.Handle(ctx, admission.Request{AdmissionRequest: *req})
	resp.UID = req.UID
	review := admissionv1.AdmissionReview{Response: &resp.AdmissionResponse}
	review.SetGroupVersionKind(reviewKind)
	e.write(w, http.StatusOK, review)
}

var reviewKind = admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")

// read returns the request that r holds, or why there will be no answer to it.
// The body is read in any case: where it is not, the server hangs up, and the
// API server may fail to send before it reads what was answered.
func (e *endpoint) read(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, *refusal) {
	body, refused := readBody(w, r)
	if refused != nil {
		return nil, refused
	}
	if err := e.ready(); err != nil {
		return nil, notReady(err)
	}
	return decodeReview(r.Header.Get("Content-Type"), body)
}

// readBody reads the body of r by the time its context ends.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	setReadDeadline(w, r)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, refusef(http.StatusRequestEntityTooLarge, tooLarge,
			"the review has more than %d bytes, which is the limit", maxBody)
	}
	if err != nil {
		return nil, refusef(http.StatusBadRequest, unreadable, "reading the review: %v", err)
	}
	// Left in place it would pass while the server listens for a client that hangs
	// up, and be taken for one.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// setReadDeadline ends the reading of r with its context. A ResponseWriter that
// has no deadlines is no server's.
func setReadDeadline(w http.ResponseWriter, r *http.Request) {
	if deadline, ok := r.Context().Deadline(); ok {
		_ = http.NewResponseController(w).SetReadDeadline(deadline)
	}
}

func decodeReview(contentType string, body []byte) (*admissionv1.AdmissionRequest, *refusal) {
	if media, _, _ := mime.ParseMediaType(contentType); media != runtime.ContentTypeJSON {
		return nil, refusef(http.StatusUnsupportedMediaType, badType,
			"Content-Type is %q, want %q", text.Cut(contentType, maxNameRunes), runtime.ContentTypeJSON)
	}
	var review admissionv1.AdmissionReview
	if err := utiljson.Unmarshal(body, &review); err != nil {
		return nil, refusef(http.StatusBadRequest, noReview, "the body is not an AdmissionReview: %v", explain(err))
	}
	if gvk := review.GroupVersionKind(); gvk != reviewKind {
		return nil, refusef(http.StatusBadRequest, badVersion,
			"the body is %q of %q, want %q of %q: admissionReviewVersions of the webhook configuration has to be [v1]",
			text.Cut(gvk.Kind, maxNameRunes), text.Cut(gvk.GroupVersion().String(), maxNameRunes), reviewKind.Kind, reviewKind.GroupVersion())
	}
	if review.Request == nil {
		return nil, refusef(http.StatusBadRequest, noReview, "the AdmissionReview holds no request")
	}
	if review.Request.UID == "" {
		return nil, refusef(http.StatusBadRequest, noReview, "the request of the AdmissionReview has no uid")
	}
	return review.Request, nil
}

// A refusal is why a request is not answered with an AdmissionReview. The API
// server then does as failurePolicy says.
type refusal struct {
	code    int
	reason  string // for metrics
	message string
	// retry is whether to ask the API server to try again.
	retry bool
}

// The reasons of refusals.
const (
	tooLarge   = "too_large"
	unreadable = "unreadable"
	unready    = "not_ready"
	badType    = "content_type"
	noReview   = "malformed"
	badVersion = "version"
)

// refusals are all reasons there are.
var refusals = []string{tooLarge, unreadable, unready, badType, noReview, badVersion}

func refusef(code int, reason, format string, args ...any) *refusal {
	return &refusal{code: code, reason: reason, message: fmt.Sprintf(format, args...)}
}

// notReady asks the API server to try again, which it does up to ten times in
// its timeout if, and only if, told after how many seconds (k8s.io/client-go,
// rest/with_retry.go). It announces the whole timeout each time.
func notReady(err error) *refusal {
	r := refusef(http.StatusServiceUnavailable, unready,
		"mirrorset-guard is not ready to review changes: %v", err)
	r.retry = true
	return r
}

// retryAfter is in seconds: the shortest wait there is, since 0 would be none.
const retryAfter = "1"

// refuse writes r as a Status, whose message the API server's client passes on.
func (e *endpoint) refuse(w http.ResponseWriter, r *refusal) {
	message := text.Cut(text.Line(r.message), maxErrorRunes)
	e.log.Info("Refused request", "code", r.code, "reason", r.reason, "message", message)
	e.metrics.refusedRequest(r.reason)
	if r.retry {
		w.Header().Set("Retry-After", retryAfter)
		// A new connection may lead to a replica that is ready.
		w.Header().Set("Connection", "close")
	}
	e.write(w, r.code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     int32(r.code), //nolint:gosec // an HTTP status
		Message:  message,
	})
}

func (e *endpoint) write(w http.ResponseWriter, code int, answer any) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		e.log.Error(err, "Could not write answer")
	}
}
