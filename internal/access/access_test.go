package access

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// apiServer answers the two questions: reader may see everything, stranger nothing, and no other
// token is known. With another code it answers nothing else.
func apiServer(t *testing.T, code int) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if code != http.StatusCreated {
			w.WriteHeader(code)
			return
		}
		w.WriteHeader(code)
		var answer any
		if r.URL.Path == "/apis/authentication.k8s.io/v1/tokenreviews" {
			var review authenticationv1.TokenReview
			_ = json.NewDecoder(r.Body).Decode(&review)
			token := review.Spec.Token
			review.Status.Authenticated, review.Status.User.Username = token == "reader" || token == "stranger", token
			if token == "expired" {
				review.Status.Error = "token has expired"
			}
			answer = review
		} else {
			var review authorizationv1.SubjectAccessReview
			_ = json.NewDecoder(r.Body).Decode(&review)
			review.Status.Allowed = review.Spec.User == "reader" && review.Spec.NonResourceAttributes.Path == "/metrics" && review.Spec.NonResourceAttributes.Verb == "get"
			answer = review
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// TestFilter: who a client is and what it may do are told apart from what could not be asked.
func TestFilter(t *testing.T) {
	for _, tt := range []struct {
		reason, authorization string
		code                  int // of the API server's answers
		want                  int
	}{
		{"may", "Bearer reader", http.StatusCreated, http.StatusOK},
		{"may not", "Bearer stranger", http.StatusCreated, http.StatusForbidden},
		{"a token of nobody", "Bearer x", http.StatusCreated, http.StatusUnauthorized},
		{"a token that has expired", "Bearer expired", http.StatusCreated, http.StatusUnauthorized},
		{"no token", "", http.StatusCreated, http.StatusUnauthorized},
		{"another scheme", "Basic cmVhZGVyOng=", http.StatusCreated, http.StatusUnauthorized},
		{"the guard may not ask", "Bearer reader", http.StatusForbidden, http.StatusServiceUnavailable},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			h, err := New(apiServer(t, tt.code), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), logr.Discard())
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			if tt.authorization != "" {
				r.Header.Set("Authorization", tt.authorization)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("got %d, want %d", w.Code, tt.want)
			}
		})
	}
}

// TestNoAPIServer: that it cannot be asked is no fault of the client.
func TestNoAPIServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	before := retry
	retry.Steps = 1
	defer func() { retry = before }()
	h, err := New(&rest.Config{Host: server.URL}, http.NotFoundHandler(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Authorization", "Bearer reader")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d", w.Code)
	}
}
