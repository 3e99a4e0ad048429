// Package certs holds the serving certificate of the webhook.
//
// The files come from the cluster's certificate issuer (OpenShift's service CA,
// cert-manager) in a mounted secret, and change while the process runs. A Reloader serves the files in
// the folder without a restart, and never less than before: if a pair is half written, does not match,
// is gone or hangs, the previous one stays in use, and that is reported.
//
//	reloader, err := certs.Load(dir)
//	go reloader.Run(ctx, logger)
//	server.TLSConfig = reloader.TLSConfig(nil)
//
// A Verification says whether the API server accepts that certificate (verification.go), and
// package tlsprofile which versions and ciphers are offered.
package certs

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/certs/tlsprofile"
	"github.com/mirrorset-guard/mirrorset-guard/internal/mounted"
)

// The files of a folder, named as in a secret of type kubernetes.io/tls.
const (
	CertFile = "tls.crt"
	KeyFile  = "tls.key"
)

// A Reloader serves the newest usable certificate of a folder. It is safe for
// concurrent use.
type Reloader struct {
	kept[*tls.Certificate]

	dir       string
	cert, key *mounted.File
}

// Load returns a Reloader for the files CertFile and KeyFile in dir. It is an
// error if there is no usable pair now.
func Load(dir string) (*Reloader, error) {
	r := &Reloader{dir: dir, cert: mounted.New(filepath.Join(dir, CertFile), maxFile), key: mounted.New(filepath.Join(dir, KeyFile), maxFile)}
	r.what, r.read = "the serving certificate", r.readPair
	_, err := r.Reload()
	return r, err
}

// attempts is how often the files are read before a pair is given up. A secret that is
// swapped between the two reads yields a pair that does not match; the next attempt finds
// the new one.
const attempts = 3

// maxFile is as much as a Secret may hold.
const maxFile = 1 << 20

func (r *Reloader) readPair() (texts [][]byte, pair *tls.Certificate, err error) {
	for range attempts {
		if texts, pair, err = r.readOnce(); err == nil {
			return texts, pair, nil
		}
	}
	return nil, nil, fmt.Errorf("reading the serving certificate: %w", err)
}

func (r *Reloader) readOnce() (texts [][]byte, pair *tls.Certificate, err error) {
	certPEM, certErr := r.cert.Read()
	keyPEM, keyErr := r.key.Read()
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, nil, err
	}
	p, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("%s and %s in %s: %w", CertFile, KeyFile, r.dir, err)
	}
	return [][]byte{certPEM, keyPEM}, &p, nil
}

// Shared returns a secret that all have who have the private key in use, and that does not give it away.
func (r *Reloader) Shared() []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	sum := hmac.New(sha256.New, r.texts[1])
	_, _ = sum.Write([]byte("mirrorset-guard: what replicas share")) // never an error
	return sum.Sum(nil)
}

// NotAfter returns when the certificate in use expires. The service CA renews it long
// before; with an expired certificate every call to the webhook fails.
func (r *Reloader) NotAfter() time.Time { return r.current().Leaf.NotAfter }

// renewal is the part of its lifetime that a certificate should have left: less, and its
// renewal is overdue. The service CA renews after half of it, cert-manager after two thirds.
const renewal = 0.1

// expiry says that the certificate has expired, or is about to; "" if all is well.
func (r *Reloader) expiry(now time.Time) string {
	leaf := r.current().Leaf
	left, lifetime := leaf.NotAfter.Sub(now), leaf.NotAfter.Sub(leaf.NotBefore)
	switch at := leaf.NotAfter.UTC().Format(time.RFC3339); {
	case now.Before(leaf.NotBefore):
		return "the serving certificate is not valid before " + leaf.NotBefore.UTC().Format(time.RFC3339)
	case left <= 0:
		return "the serving certificate expired at " + at
	case left < time.Duration(renewal*float64(lifetime)):
		return "the serving certificate expires at " + at + ", and its renewal is overdue"
	}
	return ""
}

// GetCertificate returns the certificate in use, for tls.Config.
func (r *Reloader) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return r.current(), nil
}

// TLSConfig returns the configuration of a server that presents the certificate in use and
// offers what profile returns at the time of each handshake; nil means
// tlsprofile.Default. profile must not block.
//
// It speaks HTTP/1.1 only, whatever the profile. That is what the API server's webhook client
// speaks, to spread its requests over the replicas (https://issue.k8s.io/75791). And a server
// that anybody on the network can reach is spared the resets and floods of HTTP/2
// (CVE-2023-44487, CVE-2023-39325), for which OpenShift's operators turn it off on webhooks
// and metrics.
func (r *Reloader) TLSConfig(profile func() tlsprofile.Profile) *tls.Config {
	if profile == nil {
		profile = tlsprofile.Default
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, // of no effect: each client gets a configuration of its own
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := &tls.Config{NextProtos: protocols, GetCertificate: r.GetCertificate}
			profile().Apply(c)
			return c, nil
		},
		GetCertificate: r.GetCertificate,
	}
}

var protocols = []string{"http/1.1"}
