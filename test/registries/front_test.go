package registries

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestFront: two hosts of one front each have their own content, and each behaviour
// answers as its name says.
func TestFront(t *testing.T) {
	Need(t)
	p, err := StartProcess(t.TempDir(), "", "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	f, err := NewFront(p)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := Image("app")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Push("quay.io/team/app:v1", img); err != nil {
		t.Fatal(err)
	}
	f.Set("quay.io/team/denied:v1", Denied)
	f.Set("quay.io/team/odd:v1", Mismatch)
	f.Set("ill.example.com", Unavailable)
	f.Set("gone.example.com", Down)

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(f.CA)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(addr)
			return new(net.Dialer).DialContext(ctx, network, f.Addr(host))
		},
	}}
	tests := []struct {
		host, path string
		want       int // 0: no connection
	}{
		{"quay.io", "team/app/manifests/v1", 200},
		{"mirror.example.com", "team/app/manifests/v1", 404},
		{"quay.io", "team/denied/manifests/v1", 401},
		{"quay.io", "team/odd/manifests/v1", 200},
		{"ill.example.com", "", 503},
		{"gone.example.com", "", 0},
	}
	for _, tt := range tests {
		resp, err := client.Get("https://" + tt.host + "/v2/" + tt.path)
		got := 0
		if err == nil {
			resp.Body.Close()
			got = resp.StatusCode
		}
		if got != tt.want {
			t.Errorf("%s %s: status %d (%v), want %d", tt.host, tt.path, got, err, tt.want)
		}
	}
}
