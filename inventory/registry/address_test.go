package registry

import (
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
)

// TestNoPacket: a mirror at a refused address is not called at all, in whatever way
// it is spelt, by name, or through a proxy that could resolve it.
func TestNoPacket(t *testing.T) {
	called := false
	s := newTLSServer(t, func(http.ResponseWriter, *http.Request) { called = true })
	_, port, _ := net.SplitHostPort(s.address())
	proxy := newPlainServer(t, func(http.ResponseWriter, *http.Request) { called = true })
	proxyURL, _ := url.Parse(proxy.URL)
	for _, viaProxy := range []bool{false, true} {
		c := NewClient(wire.Options{Proxy: func(*http.Request) (*url.URL, error) {
			if viaProxy {
				return proxyURL, nil
			}
			return nil, nil
		}}, nil)
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
			c := NewClient(wire.Options{RootCAs: certificates.OfHTTPTest(), Proxy: http.ProxyURL(proxyURL)}, nil)
			defer c.Close()
			got := probe(t, c, tagged())
			wantFact(t, got, tc.want, tc.detail)
		})
	}
}
