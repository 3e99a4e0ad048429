package tlsprofile

import (
	"crypto/tls"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A reader makes a Profile from the object.
type reader struct{ profile Profile }

// problem notes a demand that is not followed. The values in it come from the cluster.
func (r *reader) problem(format string, values ...any) {
	r.profile.Problems = append(r.profile.Problems, text.Cut(text.Line(fmt.Sprintf(format, values...)), maxProblem))
}

const (
	// maxProblem is how many characters a problem may have: a Custom profile may list anything.
	maxProblem = 600
	// maxNames is how many of the names that are left out a problem lists.
	maxNames = 10
	// maxName is how many characters of each are shown; the longest cipher has 29.
	maxName = 40
)

// follows reports whether a component that is not of OpenShift itself follows the profile. As
// the API asks for, a value that is not known counts as strict
// (library-go, ShouldHonorClusterTLSProfile).
func (r *reader) follows(adherence configv1.TLSAdherencePolicy) bool {
	switch adherence {
	case configv1.TLSAdherencePolicyNoOpinion, configv1.TLSAdherencePolicyLegacyAdheringComponentsOnly:
		return false
	case configv1.TLSAdherencePolicyStrictAllComponents:
	default:
		r.problem("spec.tlsAdherence %q is not known here: the profile is followed, as with %s", adherence, configv1.TLSAdherencePolicyStrictAllComponents)
	}
	return true
}

// fallback is the profile where the object names none, or none that can be read, as in
// library-go (getSecurityProfileCiphers).
const fallback = configv1.TLSProfileIntermediateType

func (r *reader) read(p *configv1.TLSSecurityProfile) {
	switch {
	case p == nil || p.Type == "":
		r.builtIn(fallback)
	case p.Type == configv1.TLSProfileCustomType && p.Custom == nil:
		r.problem("spec.tlsSecurityProfile.custom is missing: %s is followed", fallback)
		r.builtIn(fallback)
	case p.Type == configv1.TLSProfileCustomType:
		r.custom(&p.Custom.TLSProfileSpec)
	case configv1.TLSProfiles[p.Type] == nil:
		r.problem("spec.tlsSecurityProfile.type %q is not known here: %s is followed", p.Type, fallback)
		r.builtIn(fallback)
	default:
		r.builtIn(p.Type)
	}
}

// builtIn takes a profile of the API. Ciphers of Old that Go lacks are not a problem: the API leaves it
// to each program to reduce the list, which was not written by hand.
func (r *reader) builtIn(name configv1.TLSProfileType) {
	spec := configv1.TLSProfiles[name]
	r.profile.Name = string(name)
	r.profile.MinVersion = versions[spec.MinTLSVersion]
	r.profile.CipherSuites, _ = suitesOf(spec.Ciphers)
	r.profile.Groups, _ = groupsOf(spec.Groups)
}

func (r *reader) custom(spec *configv1.TLSProfileSpec) {
	r.profile.Name = string(configv1.TLSProfileCustomType)
	r.profile.MinVersion = r.minVersion(spec.MinTLSVersion)
	r.ciphers(spec.Ciphers)
	r.groups(spec.Groups)
}

func (r *reader) minVersion(v configv1.TLSProtocolVersion) uint16 {
	const field = "spec.tlsSecurityProfile.custom.minTLSVersion"
	if known, ok := versions[v]; ok {
		return known
	}
	if v == "" {
		r.problem("%s is missing: TLS 1.2 is the least version", field)
		return tls.VersionTLS12
	}
	r.problem("%s %q is not known here: TLS 1.3 is the least version", field, v) // it may be a later one
	return tls.VersionTLS13
}

// ciphers takes the ciphers that Go supports. If that leaves none for TLS 1.2 and before, TLS
// 1.3 remains: it is not weaker than what was asked for, and every API server speaks it. (A nil
// list would mean Go's default; that is what the operators' own library makes of it.)
func (r *reader) ciphers(names []string) {
	const field = "spec.tlsSecurityProfile.custom.ciphers"
	suites, unknown := suitesOf(names)
	r.ignore(field, unknown)
	r.profile.CipherSuites = suites
	if len(suites) == 0 && r.profile.MinVersion < tls.VersionTLS13 {
		r.profile.MinVersion = tls.VersionTLS13
		r.problem("%s has no cipher for TLS 1.2 or before that can be offered: only TLS 1.3 is", field)
	}
}

// groups takes the groups that there are. If that leaves none, all that Go has are offered:
// none of them is weak, and without any no connection could be made.
func (r *reader) groups(names []configv1.TLSGroup) {
	const field = "spec.tlsSecurityProfile.custom.groups"
	groups, unknown := groupsOf(names)
	r.ignore(field, unknown)
	r.profile.Groups = groups
	if len(groups) == 0 && len(names) > 0 {
		r.problem("%s has no group that can be offered: all groups that Go supports are", field)
	}
}

func (r *reader) ignore(field string, unknown []string) {
	if len(unknown) == 0 {
		return
	}
	shown := convert.Each(unknown, func(name string) string { return fmt.Sprintf("%q", text.Cut(name, maxName)) })
	r.problem("%s: left out, as Go does not support them: %s", field, text.Names(shown, maxNames))
}

// suitesOf returns the suites for TLS 1.2 and before, not nil, and the names that are none.
// The suites of TLS 1.3 are neither.
func suitesOf(names []string) (suites []uint16, unknown []string) {
	suites = []uint16{}
	for _, name := range names {
		switch s := suite(name); {
		case s == nil:
			unknown = append(unknown, name)
		case !isOnlyTLS13(s) && !slices.Contains(suites, s.ID):
			suites = append(suites, s.ID)
		}
	}
	return suites, unknown
}

func isOnlyTLS13(s *tls.CipherSuite) bool {
	return !slices.ContainsFunc(s.SupportedVersions, func(v uint16) bool { return v < tls.VersionTLS13 })
}

// groupsOf returns the groups, nil if there are none, and the names that are none.
func groupsOf(names []configv1.TLSGroup) (groups []tls.CurveID, unknown []string) {
	for _, name := range names {
		if id, ok := groupIDs[name]; ok {
			groups = append(groups, id)
		} else {
			unknown = append(unknown, string(name))
		}
	}
	return groups, unknown
}
