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
		for _, addresses := range []int{1, 40} {
			t.Run(fmt.Sprintf("%s, from %d", attack.what, addresses), func(t *testing.T) {
				resident := watch(t, g)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				meanwhile := make(chan *sample, 1)
				go func() { meanwhile <- s.others(ctx, t, "alice") }()
				var all sync.WaitGroup
				for i := range attack.n / campaign.Times(8, 1) {
					all.Go(func() { occupy(t, attack.port, 500+i%addresses, attack.overTLS, attack.sent) })
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

// occupy connects as a stranger, sends a text, and waits until the guard hangs up.
func occupy(t *testing.T, port string, stranger int, overTLS bool, sent string) {
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
	if _, err = io.WriteString(c, sent); err == nil {
		_, err = io.Copy(io.Discard, c)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection without a request is still open: %v", err)
	}
}
