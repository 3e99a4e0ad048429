package rollout

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// random makes worlds of few words, which collide and nest.
type random struct{ *rand.Rand }

// newRandom returns the same worlds for the same seed: a failure names it.
func newRandom(seed int) random { return random{rand.New(rand.NewPCG(uint64(seed), 12))} }

func pick[T any](r random, from ...T) T { return from[r.IntN(len(from))] }

func (r random) chance(percent int) bool { return r.IntN(100) < percent }

// ifWhole is how many of what a sample is without are told if nobody says so.
func ifWhole(n int) int {
	if whole() {
		return n
	}
	return 0
}

// times reads from the environment how many worlds to try.
func times(t *testing.T, variable string, usual int) int {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		return usual
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

const (
	digest         = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	releaseImages  = "quay.io/openshift-release-dev/ocp-release"
	releaseContent = "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
)

func (r random) host() string {
	return pick(r, "quay.io", "quay.io:443", "reg.local", "reg.local:5000", "a.b.example.com", "b.example.com", "example.com",
		"localhost:5000", "registry", "docker.io", "Quay.io", "x-y.example.com")
}

func (r random) path() string {
	return pick(r, "", "", "/team", "/team/app", "/team/app/deep", "/te", "/openshift-release-dev", "/openshift-release-dev/ocp-release", "/library/nginx")
}

// scope is a source, or an entry of a list, that is well formed.
func (r random) scope() string {
	if r.chance(12) {
		return pick(r, "*.example.com", "*.b.example.com", "*.io", "*.local")
	}
	if r.chance(12) {
		return pick(r, releaseImages, releaseContent, "quay.io", "quay.io/openshift-release-dev")
	}
	return r.host() + r.path()
}

// source is at times not well formed: MCO checks again what the CRDs check, and ICSPs have
// no such check.
func (r random) source() string {
	if r.chance(3) {
		return pick(r, "", "*", "quay.io/", "quay.io//x", "https://quay.io", "quay.io/Team", "quay.io:tag", "quay.io/team:v1", "*.example.com/x", "*.", "-.io")
	}
	return r.scope()
}

func (r random) mirror() string {
	switch {
	case r.chance(2):
		return pick(r, "", "m.local/", "http://m.local", "m.local/X", "*.local", "m.local:x")
	case r.chance(6):
		return r.scope()
	default:
		return pick(r, "m.local", "m.local:8443", "mirror", "other.local") + pick(r, "", "/x", "/team", "/team/app")
	}
}

func (r random) mirrors() []configv1.ImageMirror {
	var out []configv1.ImageMirror
	for range r.IntN(4) {
		out = append(out, configv1.ImageMirror(r.mirror()))
	}
	return out
}

func (r random) sourcePolicy() configv1.MirrorSourcePolicy {
	if r.chance(15) {
		return configv1.NeverContactSource
	}
	return pick(r, configv1.AllowContactingSource, "")
}

// set is everything that the generated files are made of.
func (r random) set() mirrors.Set {
	s := mirrors.Set{Payload: releaseImages + "@" + digest}
	for i := range r.IntN(3) {
		s.Objects = append(s.Objects, r.tagSet(i))
	}
	for i := range r.IntN(3) {
		s.Objects = append(s.Objects, r.digestSet(i))
	}
	if r.chance(20) {
		s.Objects = append(s.Objects, r.legacy())
	}
	s.Registries = r.registries()
	if r.chance(30) {
		s.Policies = r.imagePolicies()
	}
	return s
}

// signaturePolicy is what MCO does not look into.
var signaturePolicy = configv1.ImageSigstoreVerificationPolicy{RootOfTrust: configv1.PolicyRootOfTrust{
	PolicyType: configv1.PublicKeyRootOfTrust,
	PublicKey:  &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: []byte("a key")},
}}

// required is what a policy requires, by any kind of root and identity.
func (r random) required() configv1.ImageSigstoreVerificationPolicy {
	p := *signaturePolicy.DeepCopy()
	switch r.IntN(4) {
	case 0:
		p.RootOfTrust = configv1.PolicyRootOfTrust{PolicyType: configv1.FulcioCAWithRekorRootOfTrust, FulcioCAWithRekor: &configv1.ImagePolicyFulcioCAWithRekorRootOfTrust{
			FulcioCAData: []byte("an authority"), RekorKeyData: []byte("a key"),
			FulcioSubject: configv1.PolicyFulcioSubject{OIDCIssuer: "https://issuer.example.com", SignedEmail: "ann@example.com"},
		}}
	case 1:
		p.RootOfTrust = configv1.PolicyRootOfTrust{PolicyType: configv1.PKIRootOfTrust, PKI: &configv1.ImagePolicyPKIRootOfTrust{
			CertificateAuthorityRootsData: []byte("an authority"), PKICertificateSubject: configv1.PKICertificateSubject{Email: pick(r, "", "ann@example.com"), Hostname: "signer.example.com"},
		}}
		if r.chance(50) {
			p.RootOfTrust.PKI.CertificateAuthorityIntermediatesData = []byte("another")
		}
	case 2:
		p.RootOfTrust.PublicKey.RekorKeyData = []byte("a log")
	}
	switch r.IntN(5) {
	case 0:
		p.SignedIdentity = &configv1.PolicyIdentity{MatchPolicy: configv1.IdentityMatchPolicyMatchRepository}
	case 1:
		p.SignedIdentity = &configv1.PolicyIdentity{MatchPolicy: configv1.IdentityMatchPolicyExactRepository, PolicyMatchExactRepository: &configv1.PolicyMatchExactRepository{Repository: "reg.local/team/app"}}
	case 2:
		p.SignedIdentity = &configv1.PolicyIdentity{MatchPolicy: configv1.IdentityMatchPolicyRemapIdentity, PolicyMatchRemapIdentity: &configv1.PolicyMatchRemapIdentity{Prefix: "quay.io/team", SignedPrefix: "reg.local/team"}}
	}
	return p
}

// imagePolicies ask for signatures, of one scope or two each.
func (r random) imagePolicies() []mirrors.Object {
	var policies []mirrors.Object
	for i := range r.IntN(2) {
		o := &configv1.ClusterImagePolicy{}
		o.Name = fmt.Sprint("cluster-", i)
		o.Spec.Policy, o.Spec.Scopes = r.required(), []configv1.ImageScope{configv1.ImageScope(r.scope())}
		policies = append(policies, o)
	}
	for i := range 1 + r.IntN(2) {
		o := &configv1.ImagePolicy{}
		o.Name, o.Namespace = fmt.Sprint("team-", i), "team"
		o.Spec.Policy, o.Spec.Scopes = r.required(), []configv1.ImageScope{configv1.ImageScope(r.scope()), configv1.ImageScope(r.scope())}
		policies = append(policies, o)
	}
	return policies
}

func (r random) tagSet(i int) *configv1.ImageTagMirrorSet {
	o := &configv1.ImageTagMirrorSet{}
	o.Name = fmt.Sprint("tags-", i)
	for range 1 + r.IntN(3) {
		o.Spec.ImageTagMirrors = append(o.Spec.ImageTagMirrors, configv1.ImageTagMirrors{Source: r.source(), Mirrors: r.mirrors(), MirrorSourcePolicy: r.sourcePolicy()})
	}
	return o
}

func (r random) digestSet(i int) *configv1.ImageDigestMirrorSet {
	o := &configv1.ImageDigestMirrorSet{}
	o.Name = fmt.Sprint("digests-", i)
	for range 1 + r.IntN(3) {
		o.Spec.ImageDigestMirrors = append(o.Spec.ImageDigestMirrors, configv1.ImageDigestMirrors{Source: r.source(), Mirrors: r.mirrors(), MirrorSourcePolicy: r.sourcePolicy()})
	}
	return o
}

func (r random) legacy() *operatorv1alpha1.ImageContentSourcePolicy {
	o := &operatorv1alpha1.ImageContentSourcePolicy{}
	o.Name = "legacy"
	for range 1 + r.IntN(2) {
		o.Spec.RepositoryDigestMirrors = append(o.Spec.RepositoryDigestMirrors, operatorv1alpha1.RepositoryDigestMirrors{Source: r.source(), Mirrors: []string{r.mirror()}})
	}
	return o
}

// registries has blocked and allowed lists at once only now and then: MCO refuses that.
func (r random) registries() configv1.RegistrySources {
	var s configv1.RegistrySources
	some := func(percent int) []string {
		var list []string
		for r.chance(percent) && len(list) < 4 {
			list = append(list, r.listed())
		}
		return list
	}
	s.InsecureRegistries = some(35)
	switch r.IntN(8) {
	case 0, 1, 2:
		s.BlockedRegistries = some(70)
	case 3, 4:
		s.AllowedRegistries = some(70)
	case 5:
		s.BlockedRegistries, s.AllowedRegistries = some(70), some(70)
	}
	if r.chance(15) {
		s.ContainerRuntimeSearchRegistries = pick(r, []string{"quay.io"}, []string{"quay.io", "example.com:5000"}, []string{"docker.io", "registry.access.redhat.com"})
	}
	return s
}

// listed is an entry of a list, whose CRD checks nothing.
func (r random) listed() string {
	switch {
	case r.chance(4):
		return pick(r, "", "quay.io/", "https://quay.io", "*.example.com/x", "*", "quay.io/team:v1", "quay.io@"+digest, "QUAY.IO/x")
	case r.chance(20):
		return pick(r, "m.local", "m.local:8443", "m.local/team", "other.local")
	case r.chance(15):
		return releaseImages
	default:
		return r.scope()
	}
}

// image is most often one below a source or a list's entry of s.
func (r random) image(s mirrors.Set) string {
	var scopes []string
	for _, e := range s.Entries() {
		scopes = append(scopes, e.Source)
	}
	for _, list := range [][]string{s.Registries.BlockedRegistries, s.Registries.InsecureRegistries, s.Registries.AllowedRegistries} {
		scopes = append(scopes, list...)
	}
	version := pick(r, "", ":v1", "@"+digest, ":v1@"+digest)
	if len(scopes) == 0 || r.chance(20) {
		return pick(r, "nginx", "team/app", releaseImages, r.host()+"/team/app") + version
	}
	scope := strings.Replace(pick(r, scopes...), "*.", pick(r, "x.", "x.y.", ""), 1)
	return scope + pick(r, "", "/app", "/x/y", "er/app") + version
}
