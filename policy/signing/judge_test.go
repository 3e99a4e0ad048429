package signing_test

import (
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

const (
	release = signer.Key("release")
	sum     = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// byRelease requires a signature by release, of an image that id names.
func byRelease(id *signing.Identity) signing.Requirement {
	return signing.Requirement{Type: signing.SigstoreSigned, KeyData: release.PEM(), SignedIdentity: id}
}

func signed(all ...signing.Signature) *signing.Signatures { return &signing.Signatures{All: all} }

// TestIdentities: which image a good signature has to name. Where it names another, the identity that is proposed accepts it.
func TestIdentities(t *testing.T) {
	const tagged, digested, copied = "quay.io/team/app:v1", "quay.io/team/app@" + sum, "m.local/team/app:v1"
	repository := func(name string) *signing.Identity {
		return &signing.Identity{Type: "exactRepository", DockerRepository: name}
	}
	reference := func(name string) *signing.Identity {
		return &signing.Identity{Type: "exactReference", DockerReference: name}
	}
	remap := func(prefix, signed string) *signing.Identity {
		return &signing.Identity{Type: "remapIdentity", Prefix: prefix, SignedPrefix: signed}
	}
	whole, repo, exact := &signing.Identity{Type: "matchRepoDigestOrExact"}, &signing.Identity{Type: "matchRepository"}, &signing.Identity{Type: "matchExact"}
	for _, tt := range []struct {
		id           *signing.Identity
		image, names string
		ok           bool
	}{
		{nil, tagged, tagged, true},
		{nil, tagged, "quay.io/team/app:v2", false},
		{nil, tagged, copied, false},
		{whole, tagged, tagged, true},
		{whole, tagged, "quay.io/team/app:v2", false},
		{whole, tagged, "quay.io/team/app", false},
		{whole, tagged, digested, false},
		{whole, digested, "quay.io/team/app:v2", true},
		{whole, digested, digested, true},
		{whole, digested, "quay.io/team/app", false},
		{whole, "quay.io/team/app", tagged, false},
		{repo, tagged, "quay.io/team/app:v2", true},
		{repo, tagged, "quay.io/team/app", true},
		{repo, tagged, "quay.io/team/app2:v1", false},
		{repo, digested, copied, false},
		{exact, tagged, tagged, true},
		{exact, tagged, digested, false},
		{exact, digested, digested, true},
		{exact, digested, tagged, false},
		{exact, "quay.io/team/app", "quay.io/team/app", false},
		{repository("m.local/team/app"), tagged, copied, true},
		{repository("m.local/team/app"), tagged, "m.local/team/app", true},
		{repository("m.local/team/app"), tagged, tagged, false},
		{repository("//"), tagged, copied, false},
		{reference(copied), tagged, copied, true},
		{reference(copied), tagged, "m.local/team/app:v2", false},
		{reference("m.local/team/app"), tagged, "m.local/team/app", false},
		{remap("quay.io", "m.local"), tagged, copied, true},
		{remap("quay.io", "m.local"), tagged, tagged, false},
		{remap("quay.io", "m.local"), digested, "m.local/team/app:v7", true},
		{remap("quay.io/team/app", "m.local/app"), tagged, "m.local/app:v1", true},
		{remap("quay.io/te", "m.local"), tagged, copied, false},
		{remap("quay.io/te", "m.local"), tagged, tagged, true},
		{remap("other.io", "m.local"), tagged, tagged, true},
		{remap("quay.io", "M"), tagged, copied, false},
		{&signing.Identity{Type: "matchNothing"}, tagged, tagged, false},
		{whole, "docker.io/library/nginx:1", "nginx:1", true},
		{whole, "::", tagged, false},
		{repo, tagged, "::", false},
	} {
		image := signing.Image{Reference: tt.image, Digest: sum}
		got := signed(release.Sign(tt.names, sum)).Judge(signing.NewRequirements(byRelease(tt.id)), image)
		want := signing.Judgement{Outcome: signing.Accepted}
		if !tt.ok {
			want = signing.Judgement{Outcome: signing.Rejected, Reason: got.Reason, SignedAs: tt.names}
		}
		if got != want {
			t.Errorf("%+v: %s for %s: %+v", tt.id, tt.names, tt.image, got)
		}
		proposed := signing.IdentityFor(tt.image, tt.names)
		if proposed == "" {
			if tt.image != "::" && tt.names != "::" {
				t.Errorf("nothing is proposed for %s of %s", tt.names, tt.image)
			}
			continue
		}
		var policy configv1.ImageSigstoreVerificationPolicy
		if err := yaml.UnmarshalStrict(fmt.Appendf(nil, "{signedIdentity: %s, rootOfTrust: {policyType: PublicKey}}", proposed), &policy); err != nil {
			t.Fatal(err)
		}
		policy.RootOfTrust.PublicKey = &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: release.PEM()}
		r, err := signing.FromSpec(policy)
		if err != nil {
			t.Fatal(err)
		}
		if got := signed(release.Sign(tt.names, sum)).Judge(signing.NewRequirements(r), image); got.Outcome != signing.Accepted {
			t.Errorf("proposed for %s of %s: %s: %+v", tt.names, tt.image, proposed, got)
		}
	}
}

// TestAllAndOne: all requirements have to be met, each by one signature.
func TestAllAndOne(t *testing.T) {
	const name = "quay.io/team/app:v1"
	good, bad, elsewhere := release.Sign(name, sum), signer.Key("other").Sign(name, sum), release.Sign("m.local/app:v1", sum)
	other := good
	other.MediaType = "application/vnd.dsse.envelope.v1+json"
	key, any, none, gpg := byRelease(nil), signing.Requirement{Type: signing.AcceptAnything}, signing.Requirement{Type: signing.Reject}, signing.Requirement{Type: "signedBy"}
	type list = []signing.Requirement
	for _, tt := range []struct {
		reason   string
		required list
		found    *signing.Signatures
		want     signing.Outcome
	}{
		{"no requirement is none that is met", nil, signed(good), signing.Rejected},
		{"anything goes", list{any}, nil, signing.Accepted},
		{"nothing goes", list{none}, signed(good), signing.Rejected},
		{"no attachment", list{key}, nil, signing.Missing},
		{"an empty one", list{key}, signed(), signing.Missing},
		{"an attestation alone", list{key}, signed(other), signing.Missing},
		{"one of three is good", list{key}, signed(other, bad, good), signing.Accepted},
		{"none is", list{key}, signed(bad, elsewhere), signing.Rejected},
		{"one requirement of two is not met", list{any, none}, signed(good), signing.Rejected},
		{"one is not known to be", list{key, gpg}, signed(good), signing.Undecided},
		{"what is not known does not hide what is rejected", list{gpg, none}, signed(good), signing.Rejected},
		{"nor what is missing", list{gpg, key}, nil, signing.Missing},
	} {
		for range 2 { // the second time it is remembered
			if got := tt.found.Judge(signing.NewRequirements(tt.required...), signing.Image{Reference: name, Digest: sum}); got.Outcome != tt.want || (got.Reason == "") != (tt.want == signing.Accepted) {
				t.Errorf("%s: %+v", tt.reason, got)
			}
		}
	}
	all := signed(good)
	for i := range 200 { // more questions than are remembered
		image := signing.Image{Reference: fmt.Sprint("quay.io/team/app:v", i%3), Digest: sum}
		if got := all.Judge(signing.NewRequirements(key), image); (got.Outcome == signing.Accepted) != (image.Reference == name) {
			t.Fatalf("question %d: %+v", i, got)
		}
		all.Judge(signing.NewRequirements(key), signing.Image{Reference: fmt.Sprint(i), Digest: sum})
	}
}

// TestFromSpec: what MCO makes of an image policy, and what it rejects.
func TestFromSpec(t *testing.T) {
	const key, fulcio = "publicKey: {keyData: a2V5}", "fulcioCAWithRekor: {fulcioCAData: Y2E=, rekorKeyData: a2V5, fulcioSubject: {oidcIssuer: 'https://i', signedEmail: a@b}}"
	const pki = "pki: {caRootsData: Y2E=, pkiCertificateSubject: {hostname: h}}"
	for _, tt := range []struct{ root, identity, want string }{
		{"{policyType: PublicKey, " + key + "}", "", "{type: sigstoreSigned, keyData: a2V5, signedIdentity: {type: matchRepoDigestOrExact}}"},
		{"{policyType: PublicKey, publicKey: {keyData: a2V5, rekorKeyData: bG9n}}", "{matchPolicy: MatchRepository}", "{type: sigstoreSigned, keyData: a2V5, rekorPublicKeyData: bG9n, signedIdentity: {type: matchRepository}}"},
		{"{policyType: FulcioCAWithRekor, " + fulcio + "}", "{matchPolicy: MatchRepoDigestOrExact}", "{type: sigstoreSigned, fulcio: {caData: Y2E=, oidcIssuer: 'https://i', subjectEmail: a@b}, rekorPublicKeyData: a2V5, signedIdentity: {type: matchRepoDigestOrExact}}"},
		{"{policyType: PKI, " + pki + "}", "{matchPolicy: ExactRepository, exactRepository: {repository: m.io/x}}", "{type: sigstoreSigned, pki: {caRootsData: Y2E=, subjectHostname: h}, signedIdentity: {type: exactRepository, dockerRepository: m.io/x}}"},
		{"{policyType: PublicKey, " + key + "}", "{matchPolicy: RemapIdentity, remapIdentity: {prefix: quay.io, signedPrefix: m.io:5000/x}}", "{type: sigstoreSigned, keyData: a2V5, signedIdentity: {type: remapIdentity, prefix: quay.io, signedPrefix: 'm.io:5000/x'}}"},
		{"{policyType: PKI, " + key + "}", "", ""},
		{"{policyType: PublicKey}", "", ""},
		{"{policyType: FulcioCAWithRekor, fulcioCAWithRekor: {rekorKeyData: a2V5, fulcioSubject: {oidcIssuer: i, signedEmail: e}}}", "", ""},
		{"{policyType: FulcioCAWithRekor, fulcioCAWithRekor: {fulcioCAData: Y2E=, fulcioSubject: {oidcIssuer: i, signedEmail: e}}}", "", ""},
		{"{policyType: FulcioCAWithRekor, fulcioCAWithRekor: {fulcioCAData: Y2E=, rekorKeyData: a2V5, fulcioSubject: {signedEmail: e}}}", "", ""},
		{"{policyType: FulcioCAWithRekor, fulcioCAWithRekor: {fulcioCAData: Y2E=, rekorKeyData: a2V5, fulcioSubject: {oidcIssuer: i}}}", "", ""},
		{"{policyType: PKI, pki: {pkiCertificateSubject: {hostname: h}}}", "", ""},
		{"{policyType: PKI, pki: {caRootsData: Y2E=}}", "", ""},
		{"{policyType: PublicKey, " + key + "}", "{matchPolicy: Some}", ""},
		{"{policyType: PublicKey, " + key + "}", "{matchPolicy: ExactRepository}", ""},
		{"{policyType: PublicKey, " + key + "}", "{matchPolicy: ExactRepository, exactRepository: {repository: '//'}}", ""},
		{"{policyType: PublicKey, " + key + "}", "{matchPolicy: RemapIdentity}", ""},
		{"{policyType: PublicKey, " + key + "}", "{matchPolicy: RemapIdentity, remapIdentity: {prefix: quay.io/, signedPrefix: m.io}}", ""},
	} {
		var policy configv1.ImageSigstoreVerificationPolicy
		spec := "rootOfTrust: " + tt.root
		if tt.identity != "" {
			spec += "\nsignedIdentity: " + tt.identity
		}
		if err := yaml.UnmarshalStrict([]byte(spec), &policy); err != nil {
			t.Fatal(spec, err)
		}
		got, err := signing.FromSpec(policy)
		var want signing.Requirement
		if err := yaml.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if (err != nil) != (tt.want == "") || err == nil && !signing.NewRequirements(got).Equal(signing.NewRequirements(want)) {
			t.Errorf("%s\n%+v, %v", spec, got, err)
		}
	}
}

// TestComparison: requirements are equal by what they ask for, and more of them are met only by whoever meets all.
func TestComparison(t *testing.T) {
	a, b := byRelease(nil), byRelease(&signing.Identity{Type: "matchRepository"})
	one, same, both, turned := signing.NewRequirements(a), signing.NewRequirements(byRelease(nil)), signing.NewRequirements(a, b), signing.NewRequirements(b, a)
	if !one.Equal(same) || one.Equal(both) || !one.IsMetBy(both) || both.IsMetBy(one) || !both.IsMetBy(turned) || len(both.List()) != 2 {
		t.Error("they are compared by something else")
	}
	if a.String() == b.String() || a.String() == (&signing.Requirement{Type: a.Type, KeyData: signer.Key("other").PEM(), SignedIdentity: a.SignedIdentity}).String() {
		t.Errorf("another key, or identity, has the same words: %s", a.String())
	}
}
