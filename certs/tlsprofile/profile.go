// Package tlsprofile works out what a server offers to TLS clients under the TLS security
// profile of an OpenShift cluster.
//
//	profile := tlsprofile.Of(spec.TLSAdherence, spec.TLSSecurityProfile) // apiservers.config.openshift.io/cluster
//	profile.Apply(config)
//
// Whether the profile is followed at all is for spec.tlsAdherence to say. Where it is not,
// and in a cluster that has no such object, a server keeps a default of its own (Default).
// Demands of the object that a Go program cannot meet are in Profile.Problems; the rest is followed,
// and no omission leads to something weaker than was asked for.
//
// The rules are those of OpenShift's own library (github.com/openshift/library-go,
// pkg/crypto/crypto.go and tls_adherence.go), which has no releases. Go chooses the suites of
// TLS 1.3 by itself (https://go.dev/issue/29349), as the API documents: a profile cannot name
// some of them and leave out others.
package tlsprofile

import (
	"crypto/tls"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
)

// Names of profiles that are not in the API, besides those of configv1.TLSProfileType.
const (
	// NameDefault is what a server offers that does not follow a profile.
	NameDefault = "Default"
	// NameUnread is what it offers until it is known whether it follows one.
	NameUnread = "Unread"
)

// A Profile holds the TLS versions, ciphers and groups that a server offers. The zero value is none.
type Profile struct {
	// Name is one of the type's in the API ("Intermediate"), NameDefault or NameUnread.
	Name string
	// MinVersion is the least version, as crypto/tls has it.
	MinVersion uint16
	// CipherSuites are for TLS 1.2 and before. Nil means those that Go considers secure.
	CipherSuites []uint16
	// Groups are those of the key exchange, in no order. Nil means all that Go has.
	Groups []tls.CurveID
	// Problems say what of the object is not followed, each in one line.
	Problems []string
}

// Default returns what a server offers that does not follow a profile: TLS 1.2, which is what
// the API server asks of its own clients by default, and what Go considers secure.
func Default() Profile { return Profile{Name: NameDefault, MinVersion: tls.VersionTLS12} }

// Unread returns what a server offers while it does not know the profile yet: only TLS 1.3,
// which every profile permits and every API server speaks.
func Unread() Profile { return Profile{Name: NameUnread, MinVersion: tls.VersionTLS13} }

// Of returns the Profile that spec.tlsAdherence and spec.tlsSecurityProfile of APIServer
// cluster ask for. If there is no such object, Default applies.
func Of(adherence configv1.TLSAdherencePolicy, p *configv1.TLSSecurityProfile) Profile {
	r := reader{}
	if !r.follows(adherence) {
		return Default()
	}
	r.read(p)
	return r.profile
}

// Unreadable returns what holds for an object that cannot be decoded, because of err. It may
// ask for a profile to be followed, so the one that is followed by default is.
func Unreadable(err error) Profile {
	r := reader{}
	r.problem("spec cannot be read: %s is followed: %v", fallback, err)
	r.builtIn(fallback)
	return r.profile
}

// Apply makes c offer what p says.
func (p Profile) Apply(c *tls.Config) {
	c.MinVersion = p.MinVersion
	c.CipherSuites = p.CipherSuites
	c.CurvePreferences = p.Groups
}

// Equal reports whether p and q are the same, problems included.
func (p Profile) Equal(q Profile) bool {
	return p.Name == q.Name && p.MinVersion == q.MinVersion &&
		(p.CipherSuites == nil) == (q.CipherSuites == nil) && slices.Equal(p.CipherSuites, q.CipherSuites) &&
		(p.Groups == nil) == (q.Groups == nil) && slices.Equal(p.Groups, q.Groups) &&
		slices.Equal(p.Problems, q.Problems)
}
