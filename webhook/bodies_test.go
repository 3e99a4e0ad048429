package webhook

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/webhook/recent"
)

// reviewText returns an AdmissionReview of the creation of a set, with further fields of the request.
func reviewText(request, metadata, spec string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","name":"x",` + request +
		`"kind":{"group":"config.openshift.io","version":"v1","kind":"ImageTagMirrorSet"},"object":{"metadata":{"name":"x",` + metadata + `"uid":"u"},"spec":` + spec + `}}}`
}

// much is how large the texts are: enough for tens of megabytes if it were decoded.
const much = 2 << 20

// filled returns as many copies of part as make up much, with commas between them.
func filled(part string) string { return strings.Repeat(part+",", much/(len(part)+1)) + part }

// numbered returns as many entries as filled, each of its own.
func numbered(format string) string {
	var b strings.Builder
	for i := 0; b.Len() < much; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestHugeReviews: whatever megabytes of JSON say, what is made of them takes no more than a few times as
// much, and no review.
func TestHugeReviews(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := io.Copy(w, strings.NewReader(reviewText("", "", `{"imageTagMirrors":[`+filled("{}")+`]}`))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	entries := `{"imageTagMirrors":[{"source":"quay.io"}]}`
	for _, tt := range []struct {
		reason, text string
		code         int
		want         string
	}{
		{"empty entries", reviewText("", "", `{"imageTagMirrors":[`+filled("{}")+`]}`), 200, "ImageTagMirrorSet x cannot be read: spec has more than 100,000 values, which is the limit"},
		{"short entries", reviewText("", "", `{"imageTagMirrors":[`+filled(`{"source":"a.b"}`)+`]}`), 200, "has more than 100,000 values"},
		{"mirrors", reviewText("", "", `{"imageTagMirrors":[{"source":"a.b","mirrors":[`+filled(`"a"`)+`]}]}`), 200, "spec has more than 100,000 values, which is the limit"},
		{"what is no field", reviewText("", "", `{"x":[[`+filled("{}")+`]]}`), 200, "has more than 100,000 values"},
		{"deep", reviewText("", "", `{"x":`+strings.Repeat("[", much)+strings.Repeat("]", much)+`}`), 400, "exceeded max depth"},
		{"deep enough", reviewText("", "", `{"imageTagMirrors":[`+filled(strings.Repeat("[", 9000)+strings.Repeat("]", 9000))+`]}`), 200, "has more than 100,000 values"},
		{"labels", reviewText("", `"labels":{`+numbered(`"%d":""`)+`},`, entries), 200, "metadata.labels has more than 1000 labels"},
		{"annotations", reviewText("", `"annotations":{`+numbered(`"%d":""`)+`},`, entries), 200, `"allowed":true`},
		{"finalizers", reviewText("", `"finalizers":[`+filled(`""`)+`],`, entries), 200, `"allowed":true`},
		{"managed fields", reviewText("", `"managedFields":[`+filled(`{}`)+`],`, entries), 200, `"allowed":true`},
		{"groups", reviewText(`"userInfo":{"groups":[`+filled(`""`)+`]},`, "", entries), 400, "request.userInfo is larger than the guard reads"},
		{"extra", reviewText(`"userInfo":{"extra":{`+numbered(`"%d":[]`)+`}},`, "", entries), 400, "request.userInfo is larger than the guard reads"},
		{"a uid", reviewText(`"uid":"`+strings.Repeat("x", much)+`",`, "", entries), 400, "request.uid is larger than the guard reads"},
		{"options", reviewText(`"options":{"x":[`+filled("{}")+`]},`, "", entries), 200, `"allowed":true`},
		{"beside the request", strings.Replace(reviewText("", "", entries), `{"apiVersion"`, `{"x":[`+filled("{}")+`],"apiVersion"`, 1), 200, `"allowed":true`},
		{"zipped", zipped.String(), 400, "invalid character"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			r := &records{verdict: policy.Verdict{Allowed: true}}
			mux := muxFor(t, Options{Reviewer: r, Authorizer: permits("nobody"), Audit: &recorder{}})
			text := []byte(tt.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			answer := post(mux, "application/json", text)
			runtime.ReadMemStats(&after)
			if got := answer.Body.String(); answer.Code != tt.code || !strings.Contains(got, tt.want) || len(got) > 4<<10 {
				t.Errorf("%d %.300s, want %d %s", answer.Code, got, tt.code, tt.want)
			}
			if strings.Contains(tt.want, "allowed") != (len(r.subjects) > 0) {
				t.Errorf("reviewed %q", r.subjects)
			}
			if allocated, most := after.TotalAlloc-before.TotalAlloc, uint64(4*len(text)+4<<20); allocated > most {
				t.Errorf("%d MiB were allocated for %d MiB", allocated>>20, len(text)>>20)
			}
		})
	}
}

// TestUnchangedHowever: what only alters metadata is admitted, however large the spec is; and so is
// a deletion.
func TestUnchangedHowever(t *testing.T) {
	huge := rawText(`{"metadata":{"name":"apps","uid":"u"},"spec":{"imageTagMirrors":[` + strings.Repeat("{},", 20_000) + `{}]}}`)
	labelled := rawText(strings.Replace(string(huge.Raw), `"uid"`, `"labels":{"a":"b"},"uid"`, 1))
	req := requestTo(admissionv1.Update, mirrors.TagMirrorSetGVK, "apps")
	req.OldObject, req.Object = huge, labelled
	r := &records{verdict: policy.Verdict{Allowed: true}}
	h := &Handler{Options: Options{Reviewer: r, Authorizer: permits("kube:admin")}}
	if got := h.Handle(quiet(t), req); !got.Allowed || len(r.subjects) > 0 {
		t.Errorf("allowed %t after %q: %v", got.Allowed, r.subjects, got.Result)
	}
	req = requestTo(admissionv1.Delete, mirrors.TagMirrorSetGVK, "apps")
	req.OldObject = huge
	if got := h.Handle(quiet(t), req); !got.Allowed || len(r.subjects) != 1 {
		t.Errorf("a deletion: allowed %t after %q: %v", got.Allowed, r.subjects, got.Result)
	}
}

// slow is a Reviewer that decides when it is told to, and counts who waits for that.
type slow struct {
	decide      chan struct{}
	waiting, at atomic.Int64

	mu      sync.Mutex
	senders []string // of reviews, as they began
}

func (s *slow) Review(ctx context.Context, edit mirrors.Edit, _ settings.Requester) (review.Record, error) {
	if n := s.waiting.Add(1); n > s.at.Load() {
		s.at.Store(n)
	}
	defer s.waiting.Add(-1)
	s.mu.Lock()
	s.senders = append(s.senders, fairshare.ClaimantOf(ctx).Name)
	s.mu.Unlock()
	select {
	case <-s.decide:
	case <-ctx.Done():
		return review.Record{}, ctx.Err()
	}
	return review.Record{Subject: edit.Subject(), Refusal: "no"}, nil // denied: what is admitted is looked at twice
}

func (s *slow) Renew(ctx context.Context, edit mirrors.Edit, by settings.Requester, _ review.Record) (review.Record, error) {
	return s.Review(ctx, edit, by)
}

// send posts a review from an address, by a client that waits for so long.
func send(mux http.Handler, from string, timeout time.Duration, text []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, Path+"?timeout="+timeout.String(), bytes.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = from + ":1234"
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

// large returns a review of the largest size that can be judged.
func large() []byte {
	text := reviewText("", "", `{"imageTagMirrors":[{"source":"quay.io"}]}`)
	return []byte(text + strings.Repeat(" ", maxBody-len(text)))
}

// TestBodiesAtOnce: of 16 reviews of 8 MB no more are under way than there is room for, the others
// are told in time to come again, and small ones are reviewed meanwhile.
func TestBodiesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{decide: make(chan struct{})}
		mux, text := muxFor(t, Options{Reviewer: s}), large()
		var all sync.WaitGroup
		var codes [600]atomic.Int64
		const timeout = 10 * time.Second
		start := time.Now()
		for i := range 16 {
			all.Go(func() {
				w := send(mux, fmt.Sprintf("10.0.0.%d", i%8), timeout, text)
				codes[w.Code].Add(1)
				if w.Code != http.StatusOK && (w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "too many reviews are under way")) {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		if n := s.waiting.Load(); n != maxLarge/maxBody {
			t.Errorf("%d are under way, there is room for %d", n, maxLarge/maxBody)
		}
		small := make(chan *httptest.ResponseRecorder)
		go func() {
			small <- send(mux, "10.0.1.1", timeout, reviewOf(creation(tagMirrorSet("apps", "quay.io"))))
		}()
		synctest.Wait()
		if n := s.waiting.Load(); n != maxLarge/maxBody+1 {
			t.Errorf("%d are under way, and a small one should be", n)
		}
		time.Sleep(time.Second)
		close(s.decide)
		if w := <-small; w.Code != http.StatusOK {
			t.Errorf("the small one: %d %s", w.Code, w.Body)
		}
		all.Wait()
		if took := time.Since(start); took >= timeout {
			t.Errorf("the last was answered after %s", took)
		}
		if n := codes[200].Load(); n != 16 || s.at.Load() > maxLarge/maxBody+1 {
			t.Errorf("%d were answered, up to %d at once", n, s.at.Load())
		}
	})
}

// TestRoomForKnownSenders: strangers who hold all the room there is for small bodies keep nobody waiting
// of whom a change was seen in force.
func TestRoomForKnownSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBodies()
		for rank, want := range map[int]bool{recent.RankKnown: true, recent.RankKnown + 1: false} {
			held := b.others.small
			if err := held.Acquire(t.Context(), 0, maxSmall); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(fairshare.WithClaimant(t.Context(), fairshare.Claimant{Name: "10.0.0.1", Rank: rank}), 5*time.Second)
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, Path, strings.NewReader("{}"))
			body, refused := b.read(httptest.NewRecorder(), r)
			if got := refused == nil; got != want {
				t.Errorf("rank %d: read: %t, want %t", rank, got, want)
			}
			if refused == nil {
				body.release()
			}
			held.Release(maxSmall)
			cancel()
		}
	})
}

// TestNoRoom: who finds none until its time is up is told so, in time to try again.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{decide: make(chan struct{})}
		mux, text := muxFor(t, Options{Reviewer: s}), large()
		var all sync.WaitGroup
		for range maxLarge / maxBody {
			all.Go(func() { send(mux, "10.0.0.1", 30*time.Second, text) })
		}
		synctest.Wait()
		start := time.Now()
		w := send(mux, "10.0.0.2", 10*time.Second, text)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || time.Since(start) != 10*time.Second-reserve-refusalTime {
			t.Errorf("after %s: %d %s", time.Since(start), w.Code, w.Body)
		}
		close(s.decide)
		all.Wait()
	})
}

// TestSendersTakeTurns: who sends many does not keep another waiting for all of them.
func TestSendersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{decide: make(chan struct{})}
		mux, text := muxFor(t, Options{Reviewer: s}), large()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { send(mux, "10.0.0.1", 30*time.Second, text) })
		}
		synctest.Wait()
		all.Go(func() { send(mux, "10.0.0.2", 30*time.Second, text) })
		synctest.Wait()
		for range 9 {
			s.decide <- struct{}{}
			synctest.Wait()
		}
		all.Wait()
		// One is under way, one has come, and one is before it in turn.
		if n := slices.Index(s.senders, "10.0.0.2"); n < 0 || n > maxLarge/maxBody+2 {
			t.Errorf("the other sender came after %d reviews of 9", n)
		}
	})
}

// A wire is a way to a server from addresses of the caller's choice.
type wire chan net.Conn

// A distant is a connection from an address.
type distant struct {
	net.Conn

	address net.TCPAddr
}

func (d distant) RemoteAddr() net.Addr { return &d.address }

func (w wire) Accept() (net.Conn, error) {
	if c, ok := <-w; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (w wire) Close() error { return nil }

func (w wire) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects from 10.0.0.N.
func (w wire) dial(n int) net.Conn {
	near, far := net.Pipe()
	w <- distant{far, net.TCPAddr{IP: net.IPv4(10, 0, 0, byte(n)), Port: 1234}}
	return near
}

// post posts a text as an API server does, which tries again where it is told to, and returns the last answer.
func (w wire) post(t *testing.T, n int, text []byte) (code int) {
	t.Helper()
	client := http.Client{Timeout: webhookTime, Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return w.dial(n), nil },
	}}
	for range 10 {
		resp, err := client.Post("http://guard"+Path+"?timeout="+webhookTime.String(), "application/json", bytes.NewReader(text))
		if err != nil {
			t.Logf("10.0.0.%d: %v", n, err)
			return 0
		}
		_ = resp.Body.Close()
		if code = resp.StatusCode; resp.Header.Get("Retry-After") == "" {
			break
		}
		time.Sleep(time.Second)
	}
	return code
}

// webhookTime is how long an API server waits.
const webhookTime = TimeoutSeconds * time.Second

// trickle announces a body of 8 MB, again and again, of which some comes at once, and then a byte now and then.
func (w wire) trickle(ctx context.Context, n, atOnce int) {
	for ctx.Err() == nil {
		c := w.dial(n)
		_, err := fmt.Fprintf(c, "POST %s?timeout=30s HTTP/1.1\r\nHost: guard\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", Path, maxBody, strings.Repeat(" ", atOnce))
		for err == nil && ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
			_, err = c.Write([]byte(" "))
		}
		_ = c.Close()
	}
}

// TestTrickle: bodies that are announced and do not come keep nobody else's out, even if nobody is known yet.
func TestTrickle(t *testing.T) {
	for what, atOnce := range map[string]int{"nothing comes": 0, "some comes": smallBody + 1} {
		for _, senders := range []int{1, 40} {
			t.Run(fmt.Sprint(what, ", ", senders), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					mux := muxFor(t, Options{Reviewer: &records{verdict: policy.Verdict{Allowed: true}}, Recent: knowing("10.0.0.200")})
					w := make(wire)
					server := HTTPPort(mux, nil, nil, logr.Discard())
					go func() { _ = server.Serve(server.Listener(w)) }()
					var all sync.WaitGroup
					for i := range 40 {
						all.Go(func() { w.trickle(ctx, i%senders, atOnce) })
					}
					time.Sleep(time.Second)
					silent, start := w.dial(101), time.Now()
					_, _ = fmt.Fprintf(silent, "POST %s HTTP/1.1\r\nHost: guard\r\nContent-Length: 9\r\n\r\n", Path)
					if _, err := bufio.NewReader(silent).ReadString('\n'); err != nil || time.Since(start) != firstByte {
						t.Errorf("a body that does not begin is waited for for %s: %v", time.Since(start), err)
					}
					_ = silent.Close()
					for from, most := range map[int]time.Duration{100: 10 * time.Second, 200: 10 * time.Millisecond} {
						start := time.Now()
						if code := w.post(t, from, large()[:139_000]); code != http.StatusOK || time.Since(start) > most {
							t.Errorf("10.0.0.%d is answered %d after %s", from, code, time.Since(start))
						}
					}
					cancel()
					all.Wait()
					time.Sleep(time.Minute)
					close(w)
					_ = server.Close()
				})
			})
		}
	}
}

// knowing returns edits of a replica that knows a sender.
func knowing(sender string) *recent.Edits {
	e := recent.New(recent.Options{})
	e.Vouch(sender)
	return e
}
