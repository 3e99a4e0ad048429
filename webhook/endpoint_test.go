package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
)

func reviewOf(req admissionv1.AdmissionRequest) []byte {
	r := admissionv1.AdmissionReview{Request: &req}
	r.SetGroupVersionKind(reviewKind)
	return raw(r).Raw
}

func muxFor(t testing.TB, o Options) *http.ServeMux {
	t.Helper()
	mux, err := NewServeMux(o)
	if err != nil {
		t.Fatal(err)
	}
	return mux
}

func post(mux http.Handler, contentType string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, Path+"?timeout=15s", bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func TestEndpointAnswers(t *testing.T) {
	r := &records{verdict: policy.Verdict{Allowed: true}, notes: []string{"mind the gap"}}
	mux := muxFor(t, Options{Reviewer: r})
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8"} {
		w := post(mux, contentType, reviewOf(creation(tagMirrorSet("apps", "quay.io"))))
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("got %d %q", w.Code, w.Header().Get("Content-Type"))
		}
		if got.GroupVersionKind() != reviewKind || got.Request != nil {
			t.Errorf("got %v with request %v, want a response only", got.GroupVersionKind(), got.Request)
		}
		if got.Response == nil || got.Response.UID != "b7f3a1c2" || !got.Response.Allowed || len(got.Response.Warnings) == 0 {
			t.Errorf("got response %+v", got.Response)
		}
	}
	if !r.deadline {
		t.Error("the reviewer has no deadline")
	}
}

func TestEndpointRefuses(t *testing.T) {
	valid := reviewOf(creation(tagMirrorSet("apps", "quay.io")))
	anonymous := creation(tagMirrorSet("apps", "quay.io"))
	anonymous.UID = ""
	for _, tc := range []struct {
		name        string
		contentType string
		body        []byte
		code        int32
		want        string
	}{
		{"no content type", "", valid, 415, `Content-Type is "", want "application/json"`},
		{"another content type", "text/plain", valid, 415, `Content-Type is "text/plain", want "application/json"`},
		{"no body", "application/json", nil, 400, "the body is not an AdmissionReview: unexpected end of JSON input"},
		{"no JSON", "application/json", []byte("{"), 400, "the body is not an AdmissionReview: unexpected end of JSON input"},
		{
			"the version before", "application/json", bytes.Replace(valid, []byte("k8s.io/v1"), []byte("k8s.io/v1beta1"), 1), 400,
			`the body is "AdmissionReview" of "admission.k8s.io/v1beta1", want "AdmissionReview" of "admission.k8s.io/v1": ` +
				"admissionReviewVersions of the webhook configuration has to be [v1]",
		},
		{
			"no version", "application/json", []byte(`{}`), 400,
			`the body is "" of "", want "AdmissionReview" of "admission.k8s.io/v1": ` +
				"admissionReviewVersions of the webhook configuration has to be [v1]",
		},
		{
			"no request", "application/json", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), 400,
			"the AdmissionReview holds no request",
		},
		{"no uid", "application/json", reviewOf(anonymous), 400, "the request of the AdmissionReview has no uid"},
		{
			"too much", "application/json", append(valid, bytes.Repeat([]byte(" "), maxBody)...), 413,
			"the review has more than 8388608 bytes, which is the limit",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &records{verdict: policy.Verdict{Allowed: true}}
			w := post(muxFor(t, Options{Reviewer: r}), tc.contentType, tc.body)
			var got metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			want := metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status:   "Failure", Code: tc.code, Message: tc.want,
			}
			if diff := cmp.Diff(want, got); diff != "" || w.Code != int(tc.code) {
				t.Errorf("got code %d and (-want +got):\n%s", w.Code, diff)
			}
			if len(r.subjects) > 0 {
				t.Errorf("reviewed %q", r.subjects)
			}
			if got := w.Header().Get("Retry-After"); got != "" {
				t.Errorf("asked to retry after %q what will not get better", got)
			}
		})
	}
}

func TestEndpointAnswersOnlyPostsToItsPath(t *testing.T) {
	mux := muxFor(t, Options{Reviewer: &records{verdict: policy.Verdict{Allowed: true}}})
	for _, tc := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, Path, http.StatusMethodNotAllowed},
		{http.MethodPut, Path, http.StatusMethodNotAllowed},
		{http.MethodPost, "/", http.StatusNotFound},
		{http.MethodPost, Path + "/more", http.StatusNotFound},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, nil))
		if w.Code != tc.want {
			t.Errorf("%s %s: got %d, want %d", tc.method, tc.path, w.Code, tc.want)
		}
	}
}

func TestEndpointNotReady(t *testing.T) {
	logged, ctx := logs(t)
	r := &records{verdict: policy.Verdict{Allowed: true}}
	mux := muxFor(t, Options{
		Reviewer: r,
		Ready:    func() error { return errors.New("pods have not been listed yet") },
		Log:      logr.FromContextOrDiscard(ctx),
	})
	for _, req := range []admissionv1.AdmissionRequest{
		creation(tagMirrorSet("apps", "a")),
		update(tagMirrorSet("apps", "a"), tagMirrorSet("apps", "b")),
		deletion(tagMirrorSet("apps", "a")),
	} {
		w := post(mux, "application/json", reviewOf(req))
		if w.Code != 503 || w.Header().Get("Retry-After") != "1" || w.Header().Get("Connection") != "close" {
			t.Errorf("%s: got %d %v", req.Operation, w.Code, w.Header())
		}
		const want = `"message":"mirrorset-guard is not ready to review changes: pods have not been listed yet"`
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %s, want %s in it", req.Operation, w.Body, want)
		}
	}
	const line = `"level"=0 "msg"="Refused request" "code"=503 "reason"="not_ready" ` +
		`"message"="mirrorset-guard is not ready to review changes: pods have not been listed yet"`
	if diff := cmp.Diff([]string{line, line, line}, *logged); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if len(r.subjects) > 0 {
		t.Errorf("reviewed %q", r.subjects)
	}
}

// serve serves mux over TLS as in production until the test ends, and returns
// its URL and the CA that vouches for it.
func serve(t *testing.T, mux http.Handler) (url string, ca []byte) {
	t.Helper()
	return serveWith(t, mux, certificates.SelfSigned, func(*http.Server) {})
}

// serveWith serves by HTTPPort as changed, with a certificate by issue.
func serveWith(t testing.TB, mux http.Handler, issue func(string, []string, time.Duration) ([]byte, error), change func(*http.Server)) (url string, ca []byte) {
	t.Helper()
	dir := t.TempDir()
	ca, err := issue(dir, []string{"127.0.0.1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	reloader, err := certs.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := HTTPPort(mux, reloader.TLSConfig(nil), nil, logr.Discard())
	change(srv.Server)
	served := make(chan error, 1)
	go func() { served <- srv.ServeTLS(srv.Listener(listener), "", "") }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving ended with %v", err)
		}
	})
	return "https://" + listener.Addr().String(), ca
}

// apiServer returns the client that the API server would use (hookClientConfig in
// k8s.io/apiserver, pkg/util/webhook/client.go).
func apiServer(t testing.TB, url string, ca []byte) *rest.RESTClient {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := admissionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codec := serializer.NewCodecFactory(scheme).LegacyCodec(admissionv1.SchemeGroupVersion)
	client, err := rest.UnversionedRESTClientFor(&rest.Config{
		Host:    url,
		APIPath: Path,
		QPS:     -1,
		ContentConfig: rest.ContentConfig{
			ContentType:          runtime.ContentTypeJSON,
			NegotiatedSerializer: serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{Serializer: codec}),
		},
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func call(client *rest.RESTClient, timeout time.Duration, req admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	var answer admissionv1.AdmissionReview
	err := client.Post().Timeout(timeout).
		Body(&admissionv1.AdmissionReview{Request: &req}).
		Do(context.Background()).Into(&answer)
	return answer.Response, err
}

// The API server's client tries again where it is told after how long, so that a
// guard that is starting delays a change instead of refusing it.
func TestAPIServerRetriesUntilReady(t *testing.T) {
	var calls atomic.Int32
	url, ca := serve(t, muxFor(t, Options{
		Reviewer: &records{verdict: policy.Verdict{Allowed: true}},
		Ready: func() error {
			if calls.Add(1) == 1 {
				return errors.New("starting")
			}
			return nil
		},
	}))
	resp, err := call(apiServer(t, url, ca), 15*time.Second, creation(tagMirrorSet("apps", "quay.io")))
	if err != nil || !resp.Allowed || calls.Load() != 2 {
		t.Errorf("got %+v, %v after %d calls, want an admission by the second", resp, err, calls.Load())
	}
}

// A body that does not arrive costs a connection no longer than the API server
// would wait.
func TestBodyThatDoesNotArrive(t *testing.T) {
	url, ca := serve(t, muxFor(t, Options{Reviewer: &records{}}))
	body, w := io.Pipe()
	defer w.Close() //nolint:errcheck // a pipe closes without an error
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+Path+"?timeout=1s", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := clientFor(t, ca).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("got %s, want 400", resp.Status)
	}
}

func TestHTTPServerSpeaksHTTP1Only(t *testing.T) {
	url, ca := serve(t, muxFor(t, Options{Reviewer: &records{}}))
	client := clientFor(t, ca)
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	resp, err := client.Get(url + Path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 1 {
		t.Errorf("got %s", resp.Proto)
	}
}

// TestOwnConnections: no review is sent on a connection that a replica could be closing.
func TestOwnConnections(t *testing.T) {
	var mu sync.Mutex
	from := map[string]int{}
	mux := muxFor(t, Options{Reviewer: &records{verdict: policy.Verdict{Allowed: true}}})
	url, ca := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		from[r.RemoteAddr]++
		mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	client := apiServer(t, url, ca)
	for range 5 {
		if _, err := call(client, 15*time.Second, creation(tagMirrorSet("apps", "quay.io"))); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(from) != 5 {
		t.Errorf("5 reviews came on %d connections", len(from))
	}
}

// BenchmarkConnections measures a review on a connection of its own beside one on a connection
// that is kept, with a key as the service CA makes them. The reviewer has nothing to do.
func BenchmarkConnections(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%t", kept), func(b *testing.B) {
			mux := muxFor(b, Options{Reviewer: &records{verdict: policy.Verdict{Allowed: true}}})
			url, ca := serveWith(b, mux, certificates.SelfSignedRSA, func(s *http.Server) { s.SetKeepAlivesEnabled(kept) })
			client, change := apiServer(b, url, ca), creation(tagMirrorSet("apps", "quay.io"))
			for b.Loop() {
				if _, err := call(client, 15*time.Second, change); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func clientFor(t *testing.T, ca []byte) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("no CA")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	mux := muxFor(t, Options{Reviewer: &records{verdict: policy.Verdict{Allowed: true}}, Metrics: registry})
	foreign := creation(tagMirrorSet("apps", "a"))
	foreign.Kind.Kind, foreign.Operation = "Stranger", "WRITE"
	for _, req := range []admissionv1.AdmissionRequest{
		creation(tagMirrorSet("apps", "a")), creation(tagMirrorSet("more", "b")),
		deletion(tagMirrorSet("apps", "a")),
		update(tagMirrorSet("apps", "a"), tagMirrorSet("apps", "a")),
		foreign,
	} {
		post(mux, "application/json", reviewOf(req))
	}
	post(mux, "text/plain", nil)
	want := map[string]uint64{
		`mirrorset_guard_reviews_total{kind=ImageTagMirrorSet,operation=CREATE,verdict=allowed}`: 2,
		`mirrorset_guard_reviews_total{kind=ImageTagMirrorSet,operation=DELETE,verdict=allowed}`: 1,
		`mirrorset_guard_reviews_total{kind=ImageTagMirrorSet,operation=UPDATE,verdict=skipped}`: 1,
		`mirrorset_guard_reviews_total{kind=other,operation=other,verdict=malformed}`:            1,
		`mirrorset_guard_review_duration_seconds{verdict=allowed}`:                               3,
		`mirrorset_guard_review_duration_seconds{verdict=skipped}`:                               1,
		`mirrorset_guard_review_duration_seconds{verdict=malformed}`:                             1,
		`mirrorset_guard_requests_refused_total{reason=content_type}`:                            1,
		`mirrorset_guard_review_deadline_ratio{}`:                                                3, // what needs no review does not count
	}
	if diff := cmp.Diff(want, counted(t, registry)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// counted returns the value of each counter, and the count of each histogram, that is not 0.
func counted(t *testing.T, g prometheus.Gatherer) map[string]uint64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if n := uint64(m.GetCounter().GetValue()) + m.GetHistogram().GetSampleCount(); n > 0 {
				out[f.GetName()+labels(m)] = n
			}
		}
	}
	return out
}

func labels(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.GetLabel() {
		pairs = append(pairs, l.GetName()+"="+l.GetValue())
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

func TestNewServeMuxErrors(t *testing.T) {
	if _, err := NewServeMux(Options{}); err == nil || err.Error() != "webhook: no Reviewer" {
		t.Errorf("without a Reviewer: got %v", err)
	}
	registry := prometheus.NewRegistry()
	o := Options{Reviewer: &records{}, Metrics: registry}
	muxFor(t, o)
	_, err := NewServeMux(o)
	if !errors.As(err, new(prometheus.AlreadyRegisteredError)) || !strings.HasPrefix(err.Error(), "webhook: registering metrics: ") {
		t.Errorf("with the metrics registered: got %v", err)
	}
}

// Whatever is posted, nothing is admitted that the reviewer did not admit, other
// than what there is nothing to review about.
func FuzzEndpoint(f *testing.F) {
	for _, req := range []admissionv1.AdmissionRequest{
		creation(tagMirrorSet("apps", "quay.io")),
		update(tagMirrorSet("apps", "a"), tagMirrorSet("apps", "b")),
		deletion(tagMirrorSet("apps", "a")),
		requestTo(admissionv1.Connect, mirrors.ImageConfigGVK, "cluster"),
	} {
		f.Add(reviewOf(req))
	}
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","object":null}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := post(muxFor(t, Options{Reviewer: &records{}}), "application/json", body)
		var answer, asked admissionv1.AdmissionReview
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%v in %q", err, w.Body)
		}
		if w.Code != http.StatusOK || answer.Response == nil || !answer.Response.Allowed {
			return
		}
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Fatalf("admitted %q", body)
		}
		req := asked.Request
		if req.Operation != admissionv1.Connect && req.SubResource == "" && req.Operation != admissionv1.Update {
			t.Errorf("admitted %s of %s", req.Operation, fmt.Sprint(req.Kind))
		}
	})
}
