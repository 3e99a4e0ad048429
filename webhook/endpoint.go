package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/internal/port"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// An endpoint speaks HTTP for a handler. It takes the place of
// controller-runtime's admission.Webhook, which ends at 7 MiB, answers v1beta1 as if it were v1, and
// answers unreadable requests with a review without uid, which to the API server is only an "invalid
// webhook response".
type endpoint struct {
	handler *Handler
	rank    func(sender string) int // of senders, for package fairshare
	bodies  *bodies
	ready   func() error
	log     logr.Logger
	metrics *metrics
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sender := port.AddressOf(r.RemoteAddr)
	r = r.WithContext(fairshare.WithClaimant(r.Context(), fairshare.Claimant{Name: sender, Rank: e.rank(sender)}))
	if e.handler.Authenticate != nil {
		if err := e.handler.Authenticate(r); err != nil { // its body is not even read
			e.refuse(r.Context(), w, refusef(http.StatusUnauthorized, stranger, "%v", err))
			return
		}
		e.handler.edits().Vouch(sender)
		r = r.WithContext(fairshare.WithClaimant(r.Context(), fairshare.Claimant{Name: sender, Rank: e.rank(sender)}))
	}
	answer, refused := e.answer(w, r)
	if refused != nil {
		e.refuse(r.Context(), w, refused)
		return
	}
	e.write(w, http.StatusOK, answer)
}

// answer returns the answer to r, or why there will be none. The room of r's body is free once no work
// for it is left.
func (e *endpoint) answer(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionReview, *refusal) {
	body, refused := e.bodies.read(w, r)
	if refused != nil {
		return nil, refused
	}
	if err := e.ready(); err != nil {
		body.release()
		return nil, notNow(fmt.Errorf("mirrorset-guard is not ready to review changes: %w", err))
	}
	req, refused := decodeReview(r.Header.Get("Content-Type"), body.text)
	if refused != nil {
		body.release()
		return nil, refused
	}
	resp := e.handler.handle(log.IntoContext(r.Context(), e.log), *req, body.release)
	resp.UID = req.UID
	review := &admissionv1.AdmissionReview{Response: &resp}
	review.SetGroupVersionKind(reviewKind)
	return review, nil
}

var reviewKind = admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")

// decodeReview returns the request in a body.
func decodeReview(contentType string, body []byte) (*admissionv1.AdmissionRequest, *refusal) {
	if media, _, _ := mime.ParseMediaType(contentType); media != runtime.ContentTypeJSON {
		return nil, refusef(http.StatusUnsupportedMediaType, badType,
			"Content-Type is %q, want %q", text.Cut(contentType, maxNameRunes), runtime.ContentTypeJSON)
	}
	review, req, err := readReview(body)
	if err != nil {
		return nil, refusef(http.StatusBadRequest, noReview, "the body is not an AdmissionReview: %v", err)
	}
	if gvk := review.GroupVersionKind(); gvk != reviewKind {
		return nil, refusef(http.StatusBadRequest, badVersion,
			"the body is %q of %q, want %q of %q: admissionReviewVersions of the webhook configuration has to be [v1]",
			text.Cut(gvk.Kind, maxNameRunes), text.Cut(gvk.GroupVersion().String(), maxNameRunes), reviewKind.Kind, reviewKind.GroupVersion())
	}
	if req == nil {
		return nil, refusef(http.StatusBadRequest, noReview, "the AdmissionReview holds no request")
	}
	if req.UID == "" {
		return nil, refusef(http.StatusBadRequest, noReview, "the request of the AdmissionReview has no uid")
	}
	return req, nil
}

// A refusal is the reason for not answering a request with an AdmissionReview. The API
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
	crowded    = "crowded"
	badType    = "content_type"
	noReview   = "malformed"
	badVersion = "version"
	stranger   = "unauthenticated"
)

// refusals are all reasons there are.
var refusals = []string{tooLarge, unreadable, unready, crowded, badType, noReview, badVersion, stranger}

func refusef(code int, reason, format string, args ...any) *refusal {
	return &refusal{code: code, reason: reason, message: fmt.Sprintf(format, args...)}
}

// notNow asks the API server to try again, which it does up to ten times in
// its timeout if, and only if, told after how many seconds (k8s.io/client-go,
// rest/with_retry.go). It announces the whole timeout each time.
func notNow(err error) *refusal {
	reason := unready
	if errors.Is(err, errCrowded) {
		reason = crowded
	}
	r := refusef(http.StatusServiceUnavailable, reason, "%v", err)
	r.retry = true
	return r
}

// retryAfter is in seconds: the shortest wait there is, since 0 would be none.
const retryAfter = "1"

// refuse writes r as a Status, whose message the API server's client passes on.
func (e *endpoint) refuse(ctx context.Context, w http.ResponseWriter, r *refusal) {
	message := text.Cut(text.Line(r.message), maxErrorRunes)
	if e.handler.mayWrite(ctx, leastLine) {
		e.log.Info("Refused request", "code", r.code, "reason", r.reason, "message", message)
	}
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

const (
	// defaultTimeout is what the API server waits where a webhook configuration
	// says nothing (timeoutSeconds of admissionregistration.k8s.io/v1).
	defaultTimeout = 10 * time.Second
	// maxTimeout is the most that a webhook configuration may ask for.
	maxTimeout = 30 * time.Second
	// rounding is by how much the API server may announce more than it has: it
	// rounds up to a whole second (callHook in k8s.io/apiserver,
	// pkg/admission/plugin/webhook/validating/dispatcher.go).
	rounding = time.Second
	// reserve is kept back from the announced timeout: the rounding, and half a second for what happens
	// before the handler starts and after it has decided (dialling, the TLS handshake, 7 MB of body,
	// writing the answer).
	reserve = rounding + 500*time.Millisecond
	// minBudget is what a review gets in any case: less would not even do where
	// all facts are known. With an announced timeout of less than 2 s the answer
	// may then come too late, which the API server takes for no answer.
	minBudget = 500 * time.Millisecond
)

// withDeadline limits the requests to h to the time the API server waits, as it
// announces it in the query (?timeout=15s), less the reserve.
func withDeadline(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), budget(r.URL.Query().Get("timeout")))
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// budget returns how long a review may take if timeout was announced. One that is missing, invalid or
// not positive counts as the default.
func budget(timeout string) time.Duration {
	d, err := time.ParseDuration(timeout)
	if err != nil || d <= 0 {
		d = defaultTimeout
	}
	return max(min(d, maxTimeout)-reserve, minBudget)
}
