package port

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
)

// serve serves h on loopback, and returns where.
func serve(t *testing.T, h http.HandlerFunc, l Limits, arrival time.Duration) *Port {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := New(socket.Addr().String(), h, nil, l, funcr.New(func(string, string) {}, funcr.Options{}))
	for _, of := range []*time.Duration{&p.ReadHeaderTimeout, &p.ReadTimeout} {
		*of = min(*of, arrival)
	}
	go func() { _ = p.Serve(p.Listener(socket)) }()
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// dial connects from 127.0.0.N.
func dial(t *testing.T, p *Port, n byte) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, n)}}).DialContext(t.Context(), "tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second)) // for a test that fails
	return c
}

// answers reports whether a request over c is answered, once c does not count any more.
func answers(c net.Conn) bool {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return false
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, c) // it counts until it is closed
	return err == nil && resp.Close && resp.Body.Close() == nil
}

// hold opens connections from an address that send nothing. They count before those that are opened later.
func hold(t *testing.T, p *Port, from byte, n int) (held []net.Conn) {
	t.Helper()
	for range n {
		held = append(held, dial(t, p, from))
	}
	return held
}

// TestConnections: one address has a part of all connections; where all are taken, the one that has most gives up
// some for others; and who goes first has room in any case.
func TestConnections(t *testing.T) {
	limits := Limits{Header: 4 << 10, Connections: 6, PerAddress: 4, Answer: time.Minute, First: func(a string) bool { return a == "127.0.0.9" }}
	p := serve(t, func(http.ResponseWriter, *http.Request) {}, limits, time.Minute)
	c := dial(t, p, 1)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nA: "+strings.Repeat("x", 16<<10))
	if line, err := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "431") {
		t.Errorf("the answer to a header without end: %q, %v", line, err)
	}
	_, _ = io.Copy(io.Discard, c)
	held := hold(t, p, 1, limits.PerAddress)
	if answers(dial(t, p, 1)) {
		t.Error("one address has more than its part")
	}
	second := hold(t, p, 2, 2)
	if !answers(dial(t, p, 3)) {
		t.Error("two addresses keep a third out")
	}
	if _, err := held[limits.PerAddress-1].Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("who has most gave nothing up: %v", err)
	}
	last := hold(t, p, 4, 2)
	if answers(dial(t, p, 4)) { // the others have no more
		t.Error("all are taken, and there is one more")
	}
	first := hold(t, p, 9, firstFactor*limits.PerAddress-1)
	if !answers(dial(t, p, 9)) || !answers(first[0]) || !answers(held[1]) || !answers(second[1]) || !answers(last[1]) {
		t.Error("who goes first has no room beside the others")
	}
	hold(t, p, 9, 2) // instead of the two
	if answers(dial(t, p, 9)) {
		t.Error("who goes first has no bound")
	}
}

// TestArrival: what does not arrive is given up: no request at all, a header without end, and a body that nobody
// waits for. An answer may take longer than a request, and its client may hang up.
func TestArrival(t *testing.T) {
	gone := make(chan struct{})
	p := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-r.Context().Done()
			close(gone)
		}
	}, Limits{Header: 4 << 10, Connections: 9, PerAddress: 9}, time.Second) // a busy machine sends a request within it
	for what, sent := range map[string]string{
		"nothing": "", "half a header": "GET / HTTP/1.1\r\nA: ",
		"a body that does not come": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
	} {
		c := dial(t, p, 1)
		_, _ = io.WriteString(c, sent)
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: still open: %v", what, err)
		}
	}
	c := dial(t, p, 1)
	_, _ = io.WriteString(c, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case <-gone:
		t.Error("the time for a request ends the answer")
	case <-time.After(2 * p.ReadTimeout):
	}
	_ = c.Close()
	<-gone
	if err := p.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestPanic: it is logged with its stack, and answered without a word of it.
func TestPanic(t *testing.T) {
	var logged strings.Builder
	p := New("", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret") }), nil, Limits{}, funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{}))
	w := httptest.NewRecorder()
	p.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") || !strings.Contains(logged.String(), "secret") || !strings.Contains(logged.String(), "TestPanic") {
		t.Errorf("answered %d %s, logged %s", w.Code, w.Body, logged.String())
	}
}
