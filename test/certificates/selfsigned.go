// Package certificates issues serving certificates for tests and for the demo. Nothing
// that a cluster relies on should come from it.
package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The files of a folder. The pair is named as in a secret of type kubernetes.io/tls,
// which is how package certs reads it; CAFile is for clients.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
	CAFile   = "ca.crt"
)

// clockSkew is by how much a client's clock may be behind ours.
const clockSkew = time.Hour

// SelfSigned writes a serving certificate for hosts (DNS names and IP addresses),
// valid from now for validity, to dir: tls.crt, tls.key, which only the
// owner can read, and CAFile. It returns what CAFile holds, which is what clients have
// to trust. The CA is new each time and its key is thrown away, so that nothing
// else can be issued by it. Files that are there are replaced.
func SelfSigned(dir string, hosts []string, validity time.Duration) (caPEM []byte, err error) {
	return selfSigned(dir, hosts, validity, newECKey, x509.ExtKeyUsageServerAuth)
}

// Client is SelfSigned for a client instead of a server.
func Client(dir, name string, validity time.Duration) (caPEM []byte, err error) {
	return selfSigned(dir, []string{name}, validity, newECKey, x509.ExtKeyUsageClientAuth)
}

func newECKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// SelfSignedRSA is SelfSigned with RSA keys, as OpenShift's service CA has them: the ciphers
// of TLS 1.2 and before are for one kind of key.
func SelfSignedRSA(dir string, hosts []string, validity time.Duration) (caPEM []byte, err error) {
	return selfSigned(dir, hosts, validity, func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) }, x509.ExtKeyUsageServerAuth)
}

func selfSigned(dir string, hosts []string, validity time.Duration, newKey func() (crypto.Signer, error), usage x509.ExtKeyUsage) (caPEM []byte, err error) {
	if len(hosts) == 0 {
		return nil, errors.New("self-signed certificate: no hosts")
	}
	if validity <= 0 {
		return nil, fmt.Errorf("self-signed certificate: validity %s is not positive", validity)
	}
	now := time.Now()
	ca, caKey, err := issue(caTemplate(now, validity), nil, nil, newKey)
	if err != nil {
		return nil, err
	}
	leaf, leafKey, err := issue(leafTemplate(now, validity, hosts, usage), ca, caKey, newKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		return nil, fmt.Errorf("self-signed certificate: %w", err)
	}
	caPEM = encode("CERTIFICATE", ca.Raw)
	return caPEM, errors.Join(
		replace(filepath.Join(dir, CAFile), caPEM, 0o644),
		replace(filepath.Join(dir, keyFile), encode("PRIVATE KEY", keyDER), 0o600),
		replace(filepath.Join(dir, certFile), encode("CERTIFICATE", leaf.Raw), 0o644),
	)
}

func caTemplate(now time.Time, validity time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: "mirrorset-guard self-signed CA"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
}

func leafTemplate(now time.Time, validity time.Duration, hosts []string, usage x509.ExtKeyUsage) *x509.Certificate {
	c := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "mirrorset-guard"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{usage},
		BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
			continue
		}
		c.DNSNames = append(c.DNSNames, host)
	}
	return c
}

// issue has template signed for a new key by parent, or by the key itself if parent is
// nil.
func issue(template, parent *x509.Certificate, parentKey crypto.Signer, newKey func() (crypto.Signer, error)) (*x509.Certificate, crypto.Signer, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, fmt.Errorf("self-signed certificate: %w", err)
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	// 128 random bits: no two certificates of one issuer may share a number.
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128)); err != nil {
		return nil, nil, fmt.Errorf("self-signed certificate: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, nil, fmt.Errorf("self-signed certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("self-signed certificate: %w", err)
	}
	return cert, key, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// replace puts a file of the given mode at path in one step: no reader sees half of it,
// and a key is never readable by others.
func replace(path string, data []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, writeErr := f.Write(data)
	if err := errors.Join(writeErr, f.Chmod(mode), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
