package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// own is of a key that signs several times as fast as that of httptest.
var own = sync.OnceValue(func() *tls.Certificate {
	hosts := []string{"example.com", "*.example.com", "127.0.0.1", "::1"} // as httptest's, and as long: campaigns take hours, and clocks may be a test's
	cert, key, err := issue(leafTemplate(time.Unix(0, 0), 100*365*24*time.Hour, hosts, x509.ExtKeyUsageServerAuth), nil, nil, newECKey)
	if err != nil {
		panic(err) // there is random data
	}
	return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
})

// StartTLS starts s, which needs a certificate.
func StartTLS(s *httptest.Server) {
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*own()}}
	s.StartTLS()
}

// OfHTTPTest returns a new pool that the certificates of httptest's servers verify against, and that of StartTLS.
func OfHTTPTest() *x509.CertPool {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	pool.AddCert(own().Leaf)
	return pool
}
