package certificates

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
)

// OfHTTPTest returns a new pool that the certificates of httptest's servers verify against.
func OfHTTPTest() *x509.CertPool {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return pool
}
