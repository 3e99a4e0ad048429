package webhook

import (
	"context"
	"net/http"
	"time"
)

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
