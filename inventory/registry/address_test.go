package registry

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

func TestCheckAddress(t *testing.T) {
	for _, tc := range []struct {
		address string
		refused bool
	}{
		{"127.0.0.1", true},
		{"127.1.2.3", true},
		{"::1", true},
		{"0.0.0.0", true},
		{"0.1.2.3", true},
		{"::", true},
		{"169.254.169.254", true},
		{"169.254.1.1", true},
		{"fe80::1", true},
		{"fe80::1%eth0", true},
		{"224.0.0.1", true},
		{"ff02::1", true},
		{"255.255.255.255", true},
		{"fd00:ec2::254", true},
		{"fd20:ce::254", true},
		{"100.100.100.200", true},
		{"168.63.129.16", true},
		{"192.0.0.192", true},
		{"::ffff:127.0.0.1", true},
		{"::ffff:169.254.169.254", true},
		{"::127.0.0.1", true},
		{"64:ff9b::7f00:1", true},
		{"64:ff9b::a9fe:a9fe", true},
		{"64:ff9b:1::a9fe:a9fe", true},
		{"2002:7f00:1::", true},
		{"10.0.0.1", false},
		{"172.16.0.1", false},
		{"192.168.1.1", false},
		{"100.64.0.1", false},
		{"fd00::1", false},
		{"::ffff:10.0.0.1", false},
		{"64:ff9b::a00:1", false},
		{"8.8.8.8", false},
		{"2001:4860:4860::8888", false},
	} {
		if err := checkAddress(netip.MustParseAddr(tc.address), false); (err != nil) != tc.refused {
			t.Errorf("%s: %v, want refused: %v", tc.address, err, tc.refused)
		}
	}
}

func TestCheckHost(t *testing.T) {
	for _, tc := range []struct {
		host    string
		refused bool
	}{
		{"2130706433", true},
		{"0x7f000001", true},
		{"0X7F.1", true},
		{"0177.0.0.1", true},
		{"127.1", true},
		{"017700000001", true},
		{"0xa9fea9fe", true},
		{"2852039166", true},
		{"169.254.43518", true},
		{"[::1]", true},
		{"[::ffff:7f00:1]", true},
		{"[64:ff9b::a9fe:a9fe]", true},
		{"localhost", true},
		{"LOCALHOST.", true},
		{"a.localhost", true},
		{"127.0.0.1.", true},
		{"10.1", false},
		{"0x0a000001", false},
		{"1.2.3.4.5", false},
		{"1.2.3.256", false},
		{"registry.example.com", false},
		{"localhost.example.com", false},
		{"7.example.com", false},
		{"0x7f000001.example.com", false},
	} {
		if err := checkHost(tc.host, false); (err != nil) != tc.refused {
			t.Errorf("%s: %v, want refused: %v", tc.host, err, tc.refused)
		}
	}
	for _, h := range []string{"localhost", "127.0.0.1", "2130706433", "[::1]"} {
		if err := checkHost(h, true); err != nil {
			t.Errorf("%s with loopback allowed: %v", h, err)
		}
	}
	if checkHost("169.254.169.254", true) == nil {
		t.Error("loopback allowed lets metadata through")
	}
}

// TestNoPacket: a mirror at a refused address is not called at all, in whatever way
// it is spelt, by name, or through a proxy that could resolve it.
func TestNoPacket(t *testing.T) {
	called := false
	s := newTLSServer(t, func(http.ResponseWriter, *http.Request) { called = true })
	_, port, _ := net.SplitHostPort(s.address())
	proxy := newPlainServer(t, func(http.ResponseWriter, *http.Request) { called = true })
	proxyURL, _ := url.Parse(proxy.URL)
	for _, viaProxy := range []bool{false, true} {
		c := NewClient(Options{Proxy: func(*http.Request) (*url.URL, error) {
			if viaProxy {
				return proxyURL, nil
			}
			return nil, nil
		}})
		for _, name := range []string{"127.0.0.1", "localhost", "0177.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0x7f.0.0.1"} {
			for _, insecure := range []bool{false, true} {
				got := probe(t, c, mirrors.Location{Ref: name + ":" + port + "/app:1", Insecure: insecure})
				wantFact(t, got, policy.Unreachable)
			}
		}
		c.Close()
	}
	if called {
		t.Error("a refused address was called")
	}
}

// TestNameThatResolvesToLoopback is refused when it is dialled, whatever a resolver
// answered before.
func TestNameThatResolvesToLoopback(t *testing.T) {
	s := newTLSServer(t, healthy)
	o := Options{}.withDefaults()
	w := newTransport(&o, nil, false, o.DialTimeout)
	defer w.close()
	if conn, err := w.dial(context.Background(), "tcp", s.address()); err == nil {
		conn.Close() // it should not be there
		t.Error("loopback was dialled")
	}
	o.AllowLoopback = true
	conn, err := w.dial(context.Background(), "tcp", s.address())
	if err != nil {
		t.Fatalf("with loopback allowed: %v", err)
	}
	conn.Close() // enough that it was there
}

func TestProxy(t *testing.T) {
	s := newTLSServer(t, healthy)
	proxy := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != host+":443" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		tunnel(t, w, s.address())
	})
	refusing := newPlainServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProxyAuthRequired) })
	gone := newPlainServer(t, healthy)
	gone.Close()
	for _, tc := range []struct {
		reason string
		proxy  string
		want   policy.Presence
		detail string
	}{
		{"an address that no registry may have", proxy.URL, policy.Present, ""},
		{"wrong password", "http://user:canary@" + refusing.address(), policy.Unreachable, "Proxy Authentication Required"},
		{
			"not there", "http://user:canary@" + gone.address(), policy.Unreachable,
			"the proxy on the way to mirror.example.com cannot be used; check the cluster's proxy settings",
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			proxyURL, err := url.Parse(tc.proxy)
			if err != nil {
				t.Fatal(err)
			}
			c := NewClient(Options{RootCAs: trust(t), Proxy: http.ProxyURL(proxyURL)})
			defer c.Close()
			got := probe(t, c, tagged())
			wantFact(t, got, tc.want, tc.detail)
		})
	}
}
