package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// connectionFailure says what it means that host gave no answer. The error is not
// quoted as a whole: it can hold the query of a URL, or a proxy's password.
func connectionFailure(host string, err error, timeout time.Duration) *failure {
	f := unreachable("%s", describeConnection(host, err, timeout))
	f.load = broken
	f.timedOut = isTimeout(err)
	var refusal *addressError
	var redirect *redirectError
	switch {
	case errors.As(err, &refusal), errors.As(err, &redirect):
		f.load, f.refused = fine, true // that says nothing about the registry's strength
	case isReset(err):
		f.load, f.again = overloaded, true
	}
	return f
}

func describeConnection(host string, err error, timeout time.Duration) string {
	var refusal *addressError
	var redirect *redirectError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return fmt.Sprintf("the proxy on the way to %s cannot be used; check the cluster's proxy settings", host)
	case errors.As(err, &refusal):
		return fmt.Sprintf("%s is not asked: %v", host, refusal)
	case errors.As(err, &redirect):
		return fmt.Sprintf("%s %v", host, redirect)
	case errors.As(err, &dns):
		return describeDNS(host, dns)
	}
	if described := describeTLS(host, err); described != "" {
		return described
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("%s refuses connections; check that the registry runs and listens there", host)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Sprintf("there is no route to %s; check the network and its firewalls", host)
	case isTimeout(err):
		return fmt.Sprintf("%s did not answer within %s; check the registry, the network and its firewalls", host, timeout)
	case isReset(err):
		return fmt.Sprintf("%s broke the connection off; check the registry and what is in front of it, and try again", host)
	default:
		return fmt.Sprintf("%s gives no usable answer: %s; check the registry", host, quote(innermost(err).Error()))
	}
}

func describeDNS(host string, err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return fmt.Sprintf("%s: there is no host of the name %s; check the spelling and the DNS", host, quote(err.Name))
	case err.IsTimeout:
		return fmt.Sprintf("%s: the DNS did not answer in time for %s; check the DNS", host, quote(err.Name))
	default:
		return fmt.Sprintf("%s: the DNS could not resolve %s; check the DNS", host, quote(err.Name))
	}
}

// describeTLS returns "" if err does not come from the TLS handshake.
func describeTLS(host string, err error) string {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &unknown):
		return fmt.Sprintf("%s has a certificate of an unknown authority; add its CA to additionalTrustedCA of image.config", host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("%s has a certificate that is expired or not yet valid; renew it", host)
	case errors.As(err, &name):
		return fmt.Sprintf("%s has a certificate for another name; give it one that names the host", host)
	case errors.As(err, &verification):
		return fmt.Sprintf("%s has a certificate that cannot be verified; replace it", host)
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Sprintf("%s does not speak TLS there; if that is meant, list it in insecureRegistries of image.config", host)
	case errors.As(err, &alert), strings.Contains(err.Error(), "tls: "):
		return fmt.Sprintf("%s and TLS 1.2 or later do not come together (%s); check its TLS settings", host, quote(innermost(err).Error()))
	}
	return ""
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// isReset recognises a connection that was cut while it was in use.
func isReset(err error) bool {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	message := err.Error() // net/http's copy of HTTP/2 does not export its errors
	return strings.Contains(message, "http2: ") || strings.Contains(message, "stream error") ||
		strings.Contains(message, "server closed idle connection") || strings.Contains(message, "GOAWAY")
}

// innermost leaves the layers away that repeat the URL and the addresses.
func innermost(err error) error {
	for {
		var outer *url.Error
		if !errors.As(err, &outer) {
			break
		}
		err = outer.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

// A redirectError is the refusal to follow a redirect.
type redirectError struct{ reason string }

func (e *redirectError) Error() string { return e.reason }
