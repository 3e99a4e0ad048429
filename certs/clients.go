package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/internal/mounted"
)

// Clients recognize callers with a client certificate of a CA in a file. The file is read
// repeatedly, as the serving certificate is: an unusable one changes nothing. They are safe for
// concurrent use.
type Clients struct {
	kept[*x509.CertPool]
}

// LoadClients returns Clients by the CAs in a file, which must have one now.
func LoadClients(path string) (*Clients, error) {
	file := mounted.New(path, maxFile)
	c := new(Clients)
	c.what, c.read = "the CAs of clients", func() ([][]byte, *x509.CertPool, error) {
		data, err := file.Read()
		if err != nil {
			return nil, nil, fmt.Errorf("reading the CAs of clients: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return nil, nil, fmt.Errorf("reading the CAs of clients: %s holds no certificate", path)
		}
		return [][]byte{data}, pool, nil
	}
	_, err := c.Reload()
	return c, err
}

// TLSConfig returns a configuration like another one, by which clients are asked for a certificate of
// these CAs. Clients with none, or another, are connected all the same, and left to Verify: so they can
// be told why they are turned away, and counted.
func (c *Clients) TLSConfig(of *tls.Config) *tls.Config {
	config, inner := of.Clone(), of.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		one, err := inner(hello)
		if err == nil {
			one.ClientAuth, one.ClientCAs = tls.RequestClientCert, c.current()
		}
		return one, err
	}
	return config
}

// ErrNoClientCertificate is returned by Verify. Test with errors.Is.
var ErrNoClientCertificate = errors.New("no client certificate signed by the CA of the API servers")

// Verify returns ErrNoClientCertificate unless the client of a connection has shown a certificate of
// these CAs, for clients, that is good now.
func (c *Clients) Verify(of *tls.ConnectionState) error {
	if of == nil || len(of.PeerCertificates) == 0 {
		return ErrNoClientCertificate
	}
	options := x509.VerifyOptions{Roots: c.current(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, other := range of.PeerCertificates[1:] {
		options.Intermediates.AddCert(other)
	}
	if _, err := of.PeerCertificates[0].Verify(options); err != nil {
		return fmt.Errorf("%w: %w", ErrNoClientCertificate, err)
	}
	return nil
}
