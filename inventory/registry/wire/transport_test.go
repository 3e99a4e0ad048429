package wire

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// TestNameThatResolvesToLoopback is refused when it is dialled, whatever a resolver
// answered before.
func TestNameThatResolvesToLoopback(t *testing.T) {
	s := newServer(t, healthy)
	o := Options{}.withDefaults()
	w := newTransport(&o, nil, false, o.DialTimeout)
	defer w.close()
	if conn, err := w.dial(context.Background(), "tcp", s.Listener.Addr().String()); err == nil {
		conn.Close() // it should not be there
		t.Error("loopback was dialled")
	}
	o.AllowLoopback = true
	conn, err := w.dial(context.Background(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatalf("with loopback allowed: %v", err)
	}
	conn.Close() // enough that it was there
}

// TestInsecureBlackHole: that two ports may have to be tried does not double the
// time, and messages say for how long one was waited for.
func TestInsecureBlackHole(t *testing.T) {
	o := Options{}.withDefaults()
	c := NewClient(Options{})
	defer c.Close()
	for name, want := range map[string]time.Duration{
		host + "/app":      o.DialTimeout / 2,
		host + ":5000/app": o.DialTimeout,
	} {
		e := c.Endpoint(Repository{Name: name, Insecure: true})
		timedOut := Unreachable("silence")
		timedOut.timedOut = true
		ports := time.Duration(1)
		if e.worthClearText(timedOut) {
			ports = 2
		}
		if got := e.transport.dialer.Timeout; got != want || ports*got > o.DialTimeout {
			t.Errorf("%s: %d times %v", name, ports, got)
		}
		if got := e.transport.timeoutFor(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}); got != want {
			t.Errorf("%s: messages say %v, after %v", name, got, want)
		}
	}
}

// TestDNS: what name servers answer, or do not, has words of its own, and a name that
// comes to mean this machine leads nowhere.
func TestDNS(t *testing.T) {
	asked := false
	here := newServer(t, func(http.ResponseWriter, *http.Request) { asked = true })
	for _, tc := range []struct {
		reason string
		code   dnsmessage.RCode
		answer string // an address, "" for none
		mute   bool
		detail string
	}{
		{"no such name", dnsmessage.RCodeNameError, "", false, `there is no host named "mirror.example.com"`},
		{"a name server that fails", dnsmessage.RCodeServerFailure, "", false, "the DNS "},
		{"a name server that is silent", dnsmessage.RCodeSuccess, "", true, "the DNS did not answer in time"},
		{"this machine", dnsmessage.RCodeSuccess, "127.0.0.1", false, "127.0.0.1 is a loopback address"},
		{"the metadata service", dnsmessage.RCodeSuccess, "169.254.169.254", false, "169.254.169.254 is a link-local address"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			server := nameServer(t, tc.code, tc.answer, tc.mute)
			_, port, _ := net.SplitHostPort(here.Listener.Addr().String())
			r := Repository{Name: host + ":" + port + "/app"}
			timeout := 30 * time.Second
			if tc.mute {
				timeout = 300 * time.Millisecond
			}
			c := NewClient(Options{DialTimeout: timeout, Timeout: 30 * time.Second, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
			defer c.Close()
			c.Endpoint(r).transport.dialer.Resolver = &net.Resolver{
				PreferGo: true,
				Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "udp", server)
				},
			}
			f := ask(t, c, r)
			if f == nil {
				t.Fatal("no failure")
			}
			fact := f.Fact(time.Now())
			if fact.Presence != policy.Unreachable || !strings.Contains(fact.Detail, tc.detail) {
				t.Errorf("%+v, want %q", fact, tc.detail)
			}
			if fact.Trouble == nil || fact.Trouble.Cause == policy.Silent {
				t.Errorf("the cause is %+v: it is not the registry that does not answer", fact.Trouble)
			}
		})
	}
	if asked {
		t.Error("this machine was asked")
	}
}

// nameServer answers every query with a code and an address, or is mute.
func nameServer(t *testing.T, code dnsmessage.RCode, address string, mute bool) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // the end of the test
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if mute || m.Unpack(buffer[:n]) != nil {
				continue
			}
			m.Response, m.RCode, m.RecursionAvailable, m.Additionals = true, code, true, nil
			if ip := net.ParseIP(address).To4(); ip != nil && m.Questions[0].Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: [4]byte(ip)},
				}}
			}
			if packed, err := m.Pack(); err == nil {
				conn.WriteTo(packed, from) //nolint:errcheck // the client would ask again
			}
		}
	}()
	return conn.LocalAddr().String()
}
