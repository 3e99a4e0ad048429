package tlsprofile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
)

const strict = configv1.TLSAdherencePolicyStrictAllComponents

func named(name configv1.TLSProfileType) *configv1.TLSSecurityProfile {
	return &configv1.TLSSecurityProfile{Type: name}
}

func custom(least configv1.TLSProtocolVersion, groups []configv1.TLSGroup, ciphers ...string) *configv1.TLSSecurityProfile {
	return &configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType, Custom: &configv1.CustomTLSProfile{
		TLSProfileSpec: configv1.TLSProfileSpec{MinTLSVersion: least, Ciphers: ciphers, Groups: groups},
	}}
}

// What is not said in the object is left to Go: what Default is.
func TestAdherence(t *testing.T) {
	for _, tt := range []struct {
		adherence configv1.TLSAdherencePolicy
		follows   bool
		problem   string
	}{
		{"", false, ""},
		{configv1.TLSAdherencePolicyLegacyAdheringComponentsOnly, false, ""},
		{strict, true, ""},
		{"StrictestOfAll", true, `spec.tlsAdherence "StrictestOfAll" is not known here: the profile is followed, as with StrictAllComponents`},
	} {
		p := Of(tt.adherence, named(configv1.TLSProfileModernType))
		want := Default()
		if tt.follows {
			want = Of(strict, named(configv1.TLSProfileModernType))
			if want.MinVersion != tls.VersionTLS13 {
				t.Errorf("Modern begins with %s", tls.VersionName(want.MinVersion))
			}
		}
		if tt.problem != "" {
			want.Problems = []string{tt.problem}
		}
		if diff := cmp.Diff(want, p); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.adherence, diff)
		}
	}
}

// A profile that cannot be followed as it is: what is followed is never weaker, and it is said.
func TestWhatCannotBeFollowed(t *testing.T) {
	const (
		good   = "ECDHE-RSA-AES128-GCM-SHA256"
		prefix = "spec.tlsSecurityProfile.custom"
	)
	modern := []uint16{}
	for _, tt := range []struct {
		reason  string
		profile *configv1.TLSSecurityProfile
		name    string
		least   uint16
		suites  []uint16 // nil: those of Intermediate
		problem string
	}{
		{"no profile is the default one", nil, "Intermediate", tls.VersionTLS12, nil, ""},
		{"no type either", named(""), "Intermediate", tls.VersionTLS12, nil, ""},
		{"a type of a later API", named("Quantum"), "Intermediate", tls.VersionTLS12, nil, `spec.tlsSecurityProfile.type "Quantum" is not known here: Intermediate is followed`},
		{"custom without a profile", named(configv1.TLSProfileCustomType), "Intermediate", tls.VersionTLS12, nil, prefix + ` is missing: Intermediate is followed`},
		{
			"a version of a later API", custom("VersionTLS14", nil, good), "Custom", tls.VersionTLS13,
			[]uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
			prefix + `.minTLSVersion "VersionTLS14" is not known here: TLS 1.3 is the least version`,
		},
		{
			"no version", custom("", nil, good), "Custom", tls.VersionTLS12,
			[]uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
			prefix + `.minTLSVersion is missing: TLS 1.2 is the least version`,
		},
		{
			"one unknown cipher, one that Go lacks, and one twice", custom(configv1.VersionTLS12, nil, "ROT13", good, "AES256-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), "Custom", tls.VersionTLS12,
			[]uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
			prefix + `.ciphers: left out, as Go does not support them: "ROT13", "AES256-SHA256"`,
		},
		{
			"no known cipher", custom(configv1.VersionTLS10, nil, "ROT13"), "Custom", tls.VersionTLS13, modern,
			prefix + `.ciphers: left out, as Go does not support them: "ROT13"` + "\n" + prefix + `.ciphers has no cipher for TLS 1.2 or before that can be offered: only TLS 1.3 is`,
		},
		{
			"only ciphers of TLS 1.3", custom(configv1.VersionTLS12, nil, "TLS_AES_128_GCM_SHA256"), "Custom", tls.VersionTLS13, modern,
			prefix + `.ciphers has no cipher for TLS 1.2 or before that can be offered: only TLS 1.3 is`,
		},
		{"only TLS 1.3 is what was asked for", custom(configv1.VersionTLS13, nil, "TLS_AES_128_GCM_SHA256"), "Custom", tls.VersionTLS13, modern, ""},
		{
			"an unknown group", custom(configv1.VersionTLS12, []configv1.TLSGroup{"X448", configv1.TLSGroupX25519}, good), "Custom", tls.VersionTLS12,
			[]uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
			prefix + `.groups: left out, as Go does not support them: "X448"`,
		},
		{
			"only unknown groups", custom(configv1.VersionTLS12, []configv1.TLSGroup{"X448"}, good), "Custom", tls.VersionTLS12,
			[]uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
			prefix + `.groups: left out, as Go does not support them: "X448"` + "\n" + prefix + `.groups has no group that can be offered: all groups that Go supports are`,
		},
	} {
		p := Of(strict, tt.profile)
		suites := tt.suites
		if suites == nil {
			suites = Of(strict, named(configv1.TLSProfileIntermediateType)).CipherSuites
		}
		if p.Name != tt.name || p.MinVersion != tt.least || !slices.Equal(p.CipherSuites, suites) || p.CipherSuites == nil {
			t.Errorf("%s: got %s from %s with %v, want %s from %s with %v", tt.reason, p.Name, tls.VersionName(p.MinVersion), p.CipherSuites, tt.name, tls.VersionName(tt.least), suites)
		}
		if diff := cmp.Diff(tt.problem, strings.Join(p.Problems, "\n")); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", tt.reason, diff)
		}
	}
}

func TestUnreadable(t *testing.T) {
	p := Unreadable(errors.New("spec is\na string"))
	if diff := cmp.Diff([]string{"spec cannot be read: Intermediate is followed: spec is a string"}, p.Problems); diff != "" || p.Name != "Intermediate" {
		t.Errorf("got %s; problems (-want +got):\n%s", p.Name, diff)
	}
}

// Whoever may write the object may write anything in it; the problem stays one short line.
func TestHostileNames(t *testing.T) {
	names := []string{"\x1b[31mred", strings.Repeat("x", 1<<20)}
	for i := range 5000 {
		names = append(names, fmt.Sprint("cipher", i))
	}
	p := Of(strict, custom(configv1.VersionTLS12, nil, names...))
	if len(p.Problems) != 2 {
		t.Fatalf("problems %q", p.Problems)
	}
	want := `spec.tlsSecurityProfile.custom.ciphers: left out, as Go does not support them: "\x1b[31mred", "` + strings.Repeat("x", 39) + `…", ` +
		`"cipher0", "cipher1", "cipher2", "cipher3", "cipher4", "cipher5", "cipher6", "cipher7" and 4,992 more`
	if diff := cmp.Diff(want, p.Problems[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// goLacks are the ciphers of the API's profiles that Go does not have.
var goLacks = []string{"AES256-SHA256", "ECDHE-ECDSA-AES256-SHA384", "ECDHE-RSA-AES256-SHA384"}

// Every name of the API is known, or known to be missing: a new API or a new Go shows here.
func TestNamesOfTheAPI(t *testing.T) {
	lacking := map[string]bool{}
	for name, spec := range configv1.TLSProfiles {
		if versions[spec.MinTLSVersion] == 0 {
			t.Errorf("%s: version %q is not known", name, spec.MinTLSVersion)
		}
		if _, unknown := groupsOf(spec.Groups); len(unknown) > 0 {
			t.Errorf("%s: groups %q are not known", name, unknown)
		}
		_, unknown := suitesOf(spec.Ciphers)
		for _, name := range unknown {
			lacking[name] = true
		}
	}
	for _, name := range goLacks {
		if !lacking[name] {
			t.Errorf("%s is known now", name)
		}
		delete(lacking, name)
	}
	if len(lacking) > 0 {
		t.Errorf("not known: %v", lacking)
	}
	for openssl, iana := range ianaNames {
		if s := suite(openssl); s == nil || s.Name != iana {
			t.Errorf("%s: Go has no %s", openssl, iana)
		}
	}
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if got := suite(s.Name); got == nil || got.ID != s.ID {
			t.Errorf("%s is not known by that name", s.Name)
		}
	}
}

func TestEqual(t *testing.T) {
	intermediate := Of(strict, named(configv1.TLSProfileIntermediateType))
	for _, other := range []Profile{Default(), Unread(), Of("Unknown", nil), Of(strict, custom(configv1.VersionTLS12, nil)), Of(strict, named(configv1.TLSProfileOldType))} {
		if intermediate.Equal(other) || !other.Equal(other) {
			t.Errorf("%+v", other)
		}
	}
}

// ianaNames has every cipher of OpenSSL that Go has.
var ianaNames = map[string]string{
	"ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
	"ECDHE-RSA-AES128-GCM-SHA256":   "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"ECDHE-ECDSA-AES256-GCM-SHA384": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
	"ECDHE-RSA-AES256-GCM-SHA384":   "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-RSA-CHACHA20-POLY1305":   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-ECDSA-AES128-SHA256":     "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
	"ECDHE-RSA-AES128-SHA256":       "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
	"ECDHE-ECDSA-AES128-SHA":        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
	"ECDHE-RSA-AES128-SHA":          "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
	"ECDHE-ECDSA-AES256-SHA":        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
	"ECDHE-RSA-AES256-SHA":          "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
	"ECDHE-RSA-DES-CBC3-SHA":        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
	"ECDHE-ECDSA-RC4-SHA":           "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
	"ECDHE-RSA-RC4-SHA":             "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
	"AES128-GCM-SHA256":             "TLS_RSA_WITH_AES_128_GCM_SHA256",
	"AES256-GCM-SHA384":             "TLS_RSA_WITH_AES_256_GCM_SHA384",
	"AES128-SHA256":                 "TLS_RSA_WITH_AES_128_CBC_SHA256",
	"AES128-SHA":                    "TLS_RSA_WITH_AES_128_CBC_SHA",
	"AES256-SHA":                    "TLS_RSA_WITH_AES_256_CBC_SHA",
	"DES-CBC3-SHA":                  "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
	"RC4-SHA":                       "TLS_RSA_WITH_RC4_128_SHA",
	// Names that Kubernetes takes as well.
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305":   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}
