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
			review.Status.Authenticated, review.Status.User.Username = token == "reader" || token == "stranger" || token == "browser", token
			if token == "expired" {
				review.Status.Error = "token has expired"
			}
			answer = review
		} else {
			var review authorizationv1.SubjectAccessReview
			_ = json.NewDecoder(r.Body).Decode(&review)
			switch of, path := review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes; {
			case of != nil: // as of a token whose scope is limited to a namespace
				review.Status.Allowed = review.Spec.User == "browser" && of.Namespace == "guard" && of.Group == "example.com" && of.Resource == "pages" && of.Verb == "get"
			default:
				review.Status.Allowed = review.Spec.User == "reader" && path.Path == "/metrics" && path.Verb == "get"
			}
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
			h, err := New(apiServer(t, tt.code), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil, logr.Discard())
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

// TestForwarded: a token that a proxy passes on is judged like any other, and no header names a user. The
// right to get a resource opens its path alone.
func TestForwarded(t *testing.T) {
	resources := map[string]Resource{"/metrics": {Namespace: "guard", Group: "example.com", Resource: "pages"}}
	for _, tt := range []struct {
		reason, path string
		headers      map[string]string
		want         int
	}{
		{"by the path", "/metrics", map[string]string{ForwardedToken: "reader"}, http.StatusOK},
		{"by the resource", "/metrics", map[string]string{ForwardedToken: "browser"}, http.StatusOK},
		{"by the resource, without a proxy", "/metrics", map[string]string{"Authorization": "Bearer browser"}, http.StatusOK},
		{"it opens no other path", "/inventory", map[string]string{ForwardedToken: "browser"}, http.StatusForbidden},
		{"nor what is below", "/metrics/x", map[string]string{ForwardedToken: "browser"}, http.StatusForbidden},
		{"neither right", "/metrics", map[string]string{ForwardedToken: "stranger"}, http.StatusForbidden},
		{"a token of nobody", "/metrics", map[string]string{ForwardedToken: "x"}, http.StatusUnauthorized},
		{"what the client says itself counts", "/metrics", map[string]string{ForwardedToken: "reader", "Authorization": "Bearer stranger"}, http.StatusForbidden},
		{"another scheme does not fall back", "/metrics", map[string]string{ForwardedToken: "reader", "Authorization": "Basic cmVhZGVyOng="}, http.StatusUnauthorized},
		{"a name is no token", "/metrics", map[string]string{"X-Forwarded-User": "reader", "X-Remote-User": "reader"}, http.StatusUnauthorized},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			h, err := New(apiServer(t, http.StatusCreated), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Header.Get(ForwardedToken) != "" || r.Header.Get("Authorization") != "" {
					t.Errorf("the token goes on: %v", r.Header)
				}
			}), resources, logr.Discard())
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, tt.path, nil)
			for name, value := range tt.headers {
				r.Header.Set(name, value)
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
	h, err := New(&rest.Config{Host: server.URL}, http.NotFoundHandler(), nil, logr.Discard())
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
