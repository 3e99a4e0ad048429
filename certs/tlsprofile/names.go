package tlsprofile

import (
	"crypto/tls"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
)

// versions are the values of minTLSVersion.
var versions = map[configv1.TLSProtocolVersion]uint16{
	configv1.VersionTLS10: tls.VersionTLS10,
	configv1.VersionTLS11: tls.VersionTLS11,
	configv1.VersionTLS12: tls.VersionTLS12,
	configv1.VersionTLS13: tls.VersionTLS13,
}

// groupIDs are the groups of the API (library-go, tlsGroupToCurveID). In FIPS mode, crypto/tls
// leaves out by itself those that are not approved.
var groupIDs = map[configv1.TLSGroup]tls.CurveID{
	configv1.TLSGroupX25519:             tls.X25519,
	configv1.TLSGroupSecP256r1:          tls.CurveP256,
	configv1.TLSGroupSecP384r1:          tls.CurveP384,
	configv1.TLSGroupSecP521r1:          tls.CurveP521,
	configv1.TLSGroupX25519MLKEM768:     tls.X25519MLKEM768,
	configv1.TLSGroupSecP256r1MLKEM768:  tls.SecP256r1MLKEM768,
	configv1.TLSGroupSecP384r1MLKEM1024: tls.SecP384r1MLKEM1024,
}

// openSSL makes the name that OpenSSL has for a cipher of the one that Go has: profiles name the ciphers of TLS 1.2 and before by it
// (library-go, openSSLToIANACiphers).
var openSSL = strings.NewReplacer("TLS_ECDHE_", "ECDHE-", "TLS_RSA_WITH_", "", "_WITH_", "-",
	"AES_128_CBC", "AES128", "AES_256_CBC", "AES256", "AES_128_GCM", "AES128-GCM", "AES_256_GCM", "AES256-GCM",
	"CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305", "3DES_EDE_CBC", "DES-CBC3", "RC4_128", "RC4", "_", "-")

// suite returns the suite of a name of OpenSSL or IANA, nil if Go does not have it. Ones that
// are considered insecure are included: Old has some. Kubernetes takes names with CHACHA20_POLY1305 at their end as well.
func suite(name string) *tls.CipherSuite {
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if s.Name == name || openSSL.Replace(s.Name) == name || strings.HasSuffix(name, "_CHACHA20_POLY1305") && s.Name == name+"_SHA256" {
			return s
		}
	}
	return nil
}
