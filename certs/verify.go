package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// A Webhook is the way in which an API server calls this server, and verifies the certificate
// that it is presented.
type Webhook struct {
	// Name is that of the webhook in its configuration.
	Name string
	// Host is the name or address that the certificate has to be for.
	Host string
	// CABundle holds the authorities that the API server trusts, as PEM. If it is empty,
	// these are the ones of the API server's own system.
	CABundle []byte
	// ByURL is set if the webhook is called by URL instead of by Service. Something between
	// the API server and this server may then present another certificate.
	ByURL bool
}

// A Failure is the reason why an API server does not accept the certificate for a webhook.
type Failure struct {
	Webhook string
	Err     error
	// Proven is set if no replica with this certificate can be called, independently of the API
	// server's clock and of the authorities that its system trusts.
	Proven bool
}

// Error implements error.
func (r *Failure) Error() string {
	return fmt.Sprintf("the API server does not accept the serving certificate for webhook %s: %v", r.Webhook, r.Err)
}

// Unwrap returns the error of package x509.
func (r *Failure) Unwrap() error { return r.Err }

var (
	errEmptyBundle = errors.New("its caBundle is empty")
	errNoAuthority = errors.New("its caBundle holds no certificate")
)

// verify returns the reason why an API server whose clock shows now does not accept pair, nil if it
// does. It does what the API server does, which is what crypto/tls does in a client.
func (w Webhook) verify(pair *tls.Certificate, now time.Time) *Failure {
	options := x509.VerifyOptions{DNSName: w.Host, CurrentTime: now, Intermediates: x509.NewCertPool()}
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			options.Intermediates.AddCert(c)
		}
	}
	if len(w.CABundle) > 0 {
		options.Roots = x509.NewCertPool()
		if !options.Roots.AppendCertsFromPEM(w.CABundle) {
			return &Failure{Webhook: w.Name, Err: errNoAuthority} // a placeholder, to be filled in
		}
	}
	_, err := pair.Leaf.Verify(options)
	switch {
	case err == nil:
		return nil
	case len(w.CABundle) == 0:
		return &Failure{Webhook: w.Name, Err: fmt.Errorf("%w: %w", errEmptyBundle, err)}
	}
	return &Failure{Webhook: w.Name, Err: err, Proven: !w.ByURL && !isAboutTime(err)}
}

// isAboutTime reports whether err depends on the clock.
func isAboutTime(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, &invalid) && invalid.Reason == x509.Expired
}
