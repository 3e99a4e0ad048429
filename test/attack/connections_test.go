package attack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

// testConnections: however many connections strangers open, and whatever they send, a guard stays within its
// memory, and others' changes are answered meanwhile.
func testConnections(t *testing.T, s *stage) {
	g := s.guards[0]
	request := func(header, body int) string {
		return fmt.Sprintf("POST /validate?timeout=30s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX: %s\r\nContent-Length: %d\r\n\r\n", strings.Repeat("x", header), body)
	}
	for _, attack := range []struct {
		what, port string
		overTLS    bool
		n          int
		sent       string
	}{
		{"headers of 60 kB and no body", g.Listen, true, 4000, request(60<<10, 1000)},
		{"headers of 7 kB and no body", g.Listen, true, 4000, request(7<<10, 1000)},
		{"bodies of 8 MB that do not come", g.Listen, true, 40, request(0, 8_000_000) + strings.Repeat(" ", 1000)},
		{"handshakes", g.Listen, true, 6000, ""},
		{"headers without end at the probes", g.Health, false, 400, "GET /readyz HTTP/1.1\r\nX: " + strings.Repeat("x", 1<<20)},
		{"idle at the probes", g.Health, false, 8000, ""},
	} {
		from := [][]int{{1, 40}} // at once, as each waits until the guard hangs up
		if campaign.On() {
			from = [][]int{{1}, {40}}
		}
		for _, addresses := range from {
			t.Run(fmt.Sprintf("%s, from %d", attack.what, addresses), func(t *testing.T) {
				resident := watch(t, g)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				meanwhile := make(chan *sample, 1)
				go func() { meanwhile <- s.others(ctx, t, "alice") }()
				var all sync.WaitGroup
				for i := range attack.n / campaign.Times(8, 1) {
					all.Go(func() { occupy(t, attack.port, 500+i%addresses[i%len(addresses)], attack.overTLS, attack.sent, nil) })
				}
				all.Wait()
				cancel()
				during, peak := <-meanwhile, resident.read()
				t.Logf("up to %d MiB resident; small changes meanwhile: %s", peak, during)
				if peak > maxResident {
					t.Errorf("%d MiB resident, want less than %d", peak, maxResident)
				}
				if err := during.failed(); err != nil {
					t.Errorf("small changes failed: %v", err)
				}
			})
		}
	}
}

// testTrickle: bodies that trickle keep nobody else's out, though a guard has seen no change yet.
func testTrickle(t *testing.T, s *stage) {
	s.introduce(t) // to the others
	fresh, before := s.start(t, s.binary, "--leader-elect"), s.guards
	fresh.AwaitReady(t)
	s.guards = []*guard{fresh}
	defer func() { s.guards = before }()
	head := "POST /validate?timeout=30s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n\r\n" + strings.Repeat(" ", 70_000)
	large := func(source string) string {
		return strings.Replace(tagSet("large", source, "mirror.example.com/empty"), "metadata: {", "metadata: {annotations: {a: "+strings.Repeat("x", 138_000)+"}, ", 1)
	}
	for _, addresses := range []int{1, 40} {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				for ctx.Err() == nil {
					occupy(t, fresh.Listen, 500+i%addresses, true, head, func(c io.Writer) error { // a byte at a time
						time.Sleep(100 * time.Millisecond)
						_, err := c.Write([]byte(" "))
						return errors.Join(err, ctx.Err())
					})
				}
			})
		}
		time.Sleep(time.Second) // it is under way
		known, unknown, alice := new(sample), new(sample), s.as(t, "alice")
		for range campaign.Times(3, 20) {
			start := time.Now()
			err := alice.dryRun(t.Context(), large("large.example.com"))
			known.add(time.Since(start), err)
			start = time.Now()
			if answer := newStranger(t, 600).verdict(t, fresh, forged(t, "mallory", large("quay.io/shop/cart"))); answer == nil || answer.Allowed { // no suspect, as nothing is admitted
				t.Errorf("somebody else is answered %v", answer)
			}
			unknown.add(time.Since(start), nil)
		}
		cancel()
		all.Wait()
		t.Logf("from %d: large changes meanwhile: %s; of senders that are not known: %s", addresses, known, unknown)
		if err := known.failed(); err != nil {
			t.Errorf("large changes failed: %v", err)
		}
	}
}

// occupy connects as a stranger, sends a text, and more as long as that is no error, and waits until the guard hangs up.
func occupy(t *testing.T, port string, stranger int, overTLS bool, sent string, more func(io.Writer) error) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(stranger>>8+1), byte(stranger))}}
	c, err := dialer.DialContext(t.Context(), "tcp", port)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if overTLS {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		if err := c.(*tls.Conn).HandshakeContext(t.Context()); err != nil {
			return
		}
	}
	_, err = io.WriteString(c, sent)
	for err == nil && more != nil {
		if more(c) != nil {
			return
		}
	}
	if err == nil {
		_, err = io.Copy(io.Discard, c)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection without a request is still open: %v", err)
	}
}
