package connection

import (
	"context"
	"crypto/fips140"
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

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

const maxQuote = 80 // runes of words that are not the guard's own

// Describe returns the cause for which host gave no answer, and the detail of a Fact about it. Timeout is the time limit that was in force.
func Describe(host string, err error, timeout time.Duration) (policy.Cause, string) {
	var refusal *addressError
	var redirect RedirectError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return policy.BehindProxy, fmt.Sprintf("the proxy on the way to %s cannot be used; check the cluster's proxy settings", host)
	case errors.As(err, &refusal):
		return policy.NeverAsked, fmt.Sprintf("%s is not asked: %v", host, refusal)
	case errors.As(err, &redirect):
		return policy.Redirecting, fmt.Sprintf("%s %v", host, redirect)
	case errors.As(err, &dns):
		return policy.Nameless, describeDNS(host, dns)
	}
	if cause, described := describeTLS(host, err); described != "" {
		return cause, described
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return policy.Silent, fmt.Sprintf("%s refuses connections; check that the registry runs and listens there", host)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return policy.Silent, fmt.Sprintf("there is no route to %s; check the network and its firewalls", host)
	case IsTimeout(err):
		return policy.Silent, fmt.Sprintf("%s did not answer within %s; check the registry, the network and its firewalls", host, timeout)
	case IsReset(err):
		return policy.Silent, fmt.Sprintf("%s closed the connection; check the registry and what is in front of it, and try again", host)
	default:
		return policy.Silent, fmt.Sprintf("%s gives no usable answer: %s; check the registry", host, text.Quote(Innermost(err).Error(), maxQuote))
	}
}

func describeDNS(host string, err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return fmt.Sprintf("%s: there is no host named %s; check the spelling and the DNS", host, text.Quote(err.Name, maxQuote))
	case err.IsTimeout:
		return fmt.Sprintf("%s: the DNS did not answer in time for %s; check the DNS", host, text.Quote(err.Name, maxQuote))
	default:
		return fmt.Sprintf("%s: the DNS could not resolve %s; check the DNS", host, text.Quote(err.Name, maxQuote))
	}
}

// notApproved is in crypto/tls' error for a chain with a key that FIPS 140-3 does not approve, which has no
// type of its own (fipsAllowedChains).
const notApproved = "no FIPS compatible certificate chains"

// describeTLS returns "" if err does not come from the TLS handshake.
func describeTLS(host string, err error) (policy.Cause, string) {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &unknown):
		return policy.UnknownAuthority, fmt.Sprintf("%s has a certificate of an unknown authority; add its CA to additionalTrustedCA of image.config", host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return policy.BadCertificate, fmt.Sprintf("%s has a certificate that is expired or not yet valid; renew it", host)
	case errors.As(err, &name):
		return policy.BadCertificate, fmt.Sprintf("%s has a certificate for another name; give it one that names the host", host)
	case fips140.Enabled() && strings.Contains(err.Error(), notApproved):
		return policy.BadCertificate, fmt.Sprintf("%s has a certificate that FIPS 140-3 does not approve, for its key or one above it; give it RSA of 2048 bits, ECDSA or Ed25519", host)
	case errors.As(err, &verification):
		return policy.BadCertificate, fmt.Sprintf("%s has a certificate that cannot be verified; replace it", host)
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return policy.PlainHTTP, fmt.Sprintf("%s does not speak TLS there; if that is meant, list it in insecureRegistries of image.config", host)
	case fips140.Enabled() && (errors.As(err, &alert) || strings.Contains(err.Error(), "tls: ")):
		return policy.BadHandshake, fmt.Sprintf("%s does not negotiate TLS 1.2 or later with what FIPS 140-3 approves (%s); check its ciphers, groups and key", host, text.Quote(Innermost(err).Error(), maxQuote))
	case errors.As(err, &alert), strings.Contains(err.Error(), "tls: "):
		return policy.BadHandshake, fmt.Sprintf("%s does not negotiate TLS 1.2 or later (%s); check its TLS settings", host, text.Quote(Innermost(err).Error(), maxQuote))
	}
	return policy.Silent, ""
}

// IsTimeout reports whether there was no answer in time.
func IsTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// IsReset recognises a connection that was cut while it was in use.
func IsReset(err error) bool {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	message := err.Error() // net/http's copy of HTTP/2 does not export its errors
	return strings.Contains(message, "http2: ") || strings.Contains(message, "stream error") ||
		strings.Contains(message, "server closed idle connection") || strings.Contains(message, "GOAWAY")
}

// Innermost strips the layers that repeat the URL and the addresses.
func Innermost(err error) error {
	for {
		outer, ok := errors.AsType[*url.Error](err)
		if !ok {
			break
		}
		err = outer.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err
	}
	return err
}

// A RedirectError is the refusal to follow a redirect.
type RedirectError string

// Error implements error.
func (e RedirectError) Error() string { return string(e) }
