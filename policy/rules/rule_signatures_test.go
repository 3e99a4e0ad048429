package rules

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

const release = signer.Key("release")

// signedBy is a ClusterImagePolicy for scopes; namespaced, one for the pods of a namespace.
func signedBy(key signer.Key, scopes ...configv1.ImageScope) mirrors.Object {
	o := &configv1.ClusterImagePolicy{}
	o.Name, o.Spec.Scopes, o.Spec.Policy = "signed", scopes, byKey(key)
	return o
}

func signedIn(namespace string, key signer.Key, scopes ...configv1.ImageScope) mirrors.Object {
	o := &configv1.ImagePolicy{}
	o.Namespace, o.Name, o.Spec.Scopes, o.Spec.Policy = namespace, "own", scopes, byKey(key)
	return o
}

func byKey(key signer.Key) configv1.ImageSigstoreVerificationPolicy {
	return configv1.ImageSigstoreVerificationPolicy{RootOfTrust: configv1.PolicyRootOfTrust{
		PolicyType: configv1.PublicKeyRootOfTrust, PublicKey: &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: key.PEM()},
	}}
}

// withPolicies is a set of mirror objects and policies.
func withPolicies(objects ...mirrors.Object) mirrors.Set {
	s := mirrors.Set{}
	for _, o := range objects {
		s = mirrors.Put(o).Apply(s)
	}
	return s
}

const sumA, sumB = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

// shop is a registry, as far as a fact can tell: each line says what it has.
//
//	m.local/x:1 present             the image, a single manifest with the digest sumA
//	m.local/x:1 index               an index of sumA for amd64, sumB for arm64; sparse: without sumA
//	m.local/x sumA signed REF       a signature by the key release
//	m.local/x sumA WORD             signatures: absent, denied, unreachable, mismatch
//	m.local/x sumA referrer         a signature that nodes do not know
func shop(lines ...string) policy.Facts {
	f := policy.Facts{}
	for _, line := range lines {
		words := strings.Fields(line)
		at := mirrors.Location{Ref: words[0]}
		if len(words) == 2 {
			fact := &policy.Fact{Presence: policy.Present, Digest: sumA, MediaType: signer.MediaType, AsNodes: true}
			switch words[1] {
			case "present":
			case "index", "sparse":
				fact.MediaType, fact.Children = policy.IndexTypes[0], []string{sumA, sumB}
				fact.Serves, fact.Instances = twoPlatforms, []policy.Instance{{Platform: "linux/amd64", Digest: sumA}, {Platform: "linux/arm64", Digest: sumB}}
				if words[1] == "sparse" {
					fact.Serves, fact.Instances, fact.Missing = twoPlatforms[1:], fact.Instances[1:], twoPlatforms[:1]
				}
			default:
				fact = facts(line)[at]
			}
			f[at] = fact
			continue
		}
		sum := map[string]string{"sumA": sumA, "sumB": sumB}[words[1]]
		at.Ref += ":1"
		l, _ := at.Signatures(sum)
		fact := &policy.Fact{Presence: policy.Present, AsNodes: true}
		switch words[2] {
		case "signed":
			fact.Signatures = &signing.Signatures{All: []signing.Signature{release.Sign(words[3], sum)}}
		case "referrer":
			l, fact.Detail = at.Referrers(sum), "a referrer of type application/vnd.dev.sigstore.bundle.v0.3+json"
		default:
			fact.Presence = facts("x " + words[2])[mirrors.Location{Ref: "x"}].Presence
		}
		f[l] = fact
	}
	return f
}

// TestSignaturesDecide: what becomes of one image under a policy.
func TestSignaturesDecide(t *testing.T) {
	mirror := itms("a", "quay.io", allow, "m.local")
	two := itms("a", "quay.io", allow, "m.local", "n.local")
	signed := signedBy(release, "quay.io/x")
	bare, mirrored := withPolicies(signed), withPolicies(signed, mirror)
	good := []string{"m.local/x:1 present", "quay.io/x:1 present", "quay.io/x sumA signed quay.io/x:1"}
	with := func(lines ...string) []string { return append(lines, good...) }
	for _, tc := range []struct {
		name          string
		before, after mirrors.Set
		facts         []string
		want          string
	}{
		{"the mirror has the signature", bare, mirrored, with("m.local/x sumA signed quay.io/x:1"), ""},
		{"the mirror has none: nodes ask no other place", bare, mirrored, with("m.local/x sumA absent"), "deny SignatureMissing"},
		{"nor where the second mirror has one", bare, withPolicies(signed, two), with("m.local/x sumA absent", "n.local/x:1 present", "n.local/x sumA signed quay.io/x:1"), "deny SignatureMissing"},
		{"a mirror without the image is better than one without its signature", bare, withPolicies(signed, two), with("m.local/x:1 absent", "n.local/x:1 present", "n.local/x sumA signed quay.io/x:1")[:3], ""},
		{"it names the mirror", bare, mirrored, with("m.local/x sumA signed m.local/x:1"), "deny SignatureRejected"},
		{"it names another tag", bare, mirrored, with("m.local/x sumA signed quay.io/x:2"), "deny SignatureRejected"},
		{"it names no tag", bare, mirrored, with("m.local/x sumA signed quay.io/x"), "deny SignatureRejected"},
		{"by another key", withPolicies(signedBy("other", "quay.io/x")), withPolicies(signedBy("other", "quay.io/x"), mirror), []string{"m.local/x:1 present", "m.local/x sumA signed quay.io/x:1", "quay.io/x:1 present", "quay.io/x sumA signed quay.io/x:1"}, "warn SignatureRejected"},
		{"something else stands there", bare, mirrored, with("m.local/x sumA mismatch"), "deny SignatureRejected"},
		{"its content is missing", bare, mirrored, with("m.local/x sumA incomplete"), "deny SignatureRejected"},
		{"nodes may not read it", bare, mirrored, with("m.local/x sumA denied"), "deny SignatureUnreadable"},
		{"it could not be read", bare, mirrored, with("m.local/x sumA unreachable"), "deny SignatureUnreadable"},
		{"it was not looked up in time", bare, mirrored, good, "deny SignatureUnreadable"},
		{"of an index, that of every instance is wanted", bare, mirrored, []string{"m.local/x:1 index", "m.local/x sumA signed quay.io/x:1", "m.local/x sumB absent", "quay.io/x:1 index", "quay.io/x sumA signed quay.io/x:1", "quay.io/x sumB signed quay.io/x:1"}, "deny SignatureMissing"},
		{"and none else", bare, mirrored, []string{"m.local/x:1 index", "m.local/x sumA signed quay.io/x:1", "m.local/x sumB signed quay.io/x:1"}, ""},
		{"it is missing today as well", bare, mirrored, []string{"m.local/x:1 present", "m.local/x sumA absent", "quay.io/x:1 present", "quay.io/x sumA absent"}, "warn SignatureMissing"},
		{"today's could not be read, which proves nothing", bare, mirrored, []string{"m.local/x:1 present", "m.local/x sumA absent", "quay.io/x:1 present", "quay.io/x sumA unreachable"}, "deny SignatureMissing"},
		{"nor does something else in its place", bare, mirrored, []string{"m.local/x:1 present", "m.local/x sumA absent", "quay.io/x:1 present", "quay.io/x sumA mismatch"}, "deny SignatureMissing"},
		{"one part is missing today, and the other as well afterwards", bare, mirrored, []string{"m.local/x:1 index", "m.local/x sumA absent", "m.local/x sumB absent", "quay.io/x:1 index", "quay.io/x sumA signed quay.io/x:1", "quay.io/x sumB absent"}, "deny SignatureMissing"},
		{"the same part is missing today", bare, mirrored, []string{"m.local/x:1 index", "m.local/x sumA signed quay.io/x:1", "m.local/x sumB absent", "quay.io/x:1 index", "quay.io/x sumA signed quay.io/x:1", "quay.io/x sumB absent"}, "warn SignatureMissing"},
		{"and the mirror lacks the other part", bare, mirrored, []string{"m.local/x:1 sparse", "m.local/x sumB absent", "quay.io/x:1 index", "quay.io/x sumA signed quay.io/x:1", "quay.io/x sumB absent"}, "deny SignatureMissing"},
		{"that of today's could not be read", bare, mirrored, []string{"m.local/x:1 index", "m.local/x sumA signed quay.io/x:1", "m.local/x sumB absent", "quay.io/x:1 index", "quay.io/x sumA signed quay.io/x:1", "quay.io/x sumB unreachable"}, "deny SignatureMissing"},
		{"one part is missing today, and it is not known whether the other is", bare, mirrored, []string{"m.local/x:1 index", "m.local/x sumA absent", "m.local/x sumB absent", "quay.io/x:1 index", "quay.io/x sumA absent", "quay.io/x sumB unreachable"}, "deny SignatureMissing"},
		{"a place in front of today's could not be asked", withPolicies(signed, itms("a", "quay.io", allow, "n.local")), withPolicies(signed, itms("a", "quay.io", allow, "n.local", "m.local")), []string{"n.local/x:1 unreachable", "m.local/x:1 index", "m.local/x sumA signed quay.io/x:1", "m.local/x sumB absent", "quay.io/x:1 index", "quay.io/x sumA signed quay.io/x:1", "quay.io/x sumB absent"}, "deny Unverified"},
		{"a policy comes for the mirror's name, and the mirror does not let nodes in, today as well", withPolicies(mirror), withPolicies(mirror, signedBy(release, "m.local/x")), []string{"m.local/x:1 denied", "quay.io/x:1 present"}, "deny CredentialsMissing, warn NoEffect"},
		{"the same, and the mirror does not have it, today as well", withPolicies(mirror), withPolicies(mirror, signedBy(release, "m.local/x")), []string{"m.local/x:1 absent", "quay.io/x:1 present"}, "warn ImageMissing, warn NoEffect"},
		{"a policy comes while the mirror denies, which may have it without a signature", set(mirror), mirrored, []string{"m.local/x:1 denied", "quay.io/x:1 present", "quay.io/x sumA signed quay.io/x:1"}, "deny CredentialsMissing"},
		{"another repository's policy", withPolicies(signedBy(release, "quay.io/y")), withPolicies(signedBy(release, "quay.io/y"), mirror), []string{"m.local/x:1 present"}, ""},

		{"the policy comes, and the source is signed", set(), bare, good, ""},
		{"the policy comes, and it is not", set(), bare, []string{"quay.io/x:1 present", "quay.io/x sumA absent"}, "deny SignatureMissing"},
		{"the policy comes over a mirror without signatures", set(mirror), mirrored, with("m.local/x sumA absent"), "deny SignatureMissing"},
		{"the policy goes", mirrored, set(mirror), nil, "nothing"},
		{"a key that fits comes for one that does not", withPolicies(signedBy("other", "quay.io/x")), bare, good, ""},
		{"a key that fits goes for one that does not", bare, withPolicies(signedBy("other", "quay.io/x")), good, "deny SignatureRejected"},
		{"a key that is none", set(), withPolicies(func() mirrors.Object {
			o := signedBy(release, "quay.io/x").(*configv1.ClusterImagePolicy)
			o.Spec.Policy.RootOfTrust.PublicKey.KeyData = []byte("no PEM")
			return o
		}()), good, "deny SignatureRejected"},
		{"a policy for the mirror's own name asks for nothing of what is pulled by another", withPolicies(mirror), withPolicies(mirror, signedBy(release, "m.local/x")), []string{"m.local/x:1 present", "m.local/x sumA absent"}, "warn NoEffect"},
		{"but has nodes look there, and stop where they may not", withPolicies(mirror), withPolicies(mirror, signedBy(release, "m.local/x")), []string{"m.local/x:1 present", "m.local/x sumA denied"}, "deny SignatureUnreadable, warn NoEffect"},
		{"a policy of another namespace has nodes look there, too", withPolicies(mirror), withPolicies(mirror, signedIn("bank", release, "quay.io/x")), []string{"m.local/x:1 present", "m.local/x sumA mismatch"}, "deny SignatureRejected, warn NoEffect"},
		{"and asks for nothing", withPolicies(mirror), withPolicies(mirror, signedIn("bank", release, "quay.io/x")), []string{"m.local/x:1 present", "m.local/x sumA absent"}, "warn NoEffect"},
		{"a policy of this namespace does", withPolicies(mirror), withPolicies(mirror, signedIn("shop", release, "quay.io/x")), []string{"m.local/x:1 present", "m.local/x sumA absent"}, "deny SignatureMissing"},
		{"inside that of the cluster it is skipped", mirrored, withPolicies(signed, mirror, signedIn("shop", "other", "quay.io/x")), nil, "nothing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan := shallow(policy.Change{Before: tc.before, After: tc.after}, []policy.Image{{Ref: tag, Consumers: consumers()}}, settings.Settings{})
			if tc.want == "nothing" {
				if len(plan.Reroutes) > 0 {
					t.Errorf("there is something to look up: %+v", plan.Reroutes)
				}
				return
			}
			if len(plan.Reroutes) != 1 {
				t.Fatalf("%d reroutes", len(plan.Reroutes))
			}
			if got := summary(Decide(plan, shop(tc.facts...))); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	at, _ := mirrors.Location{Ref: "m.local/x:1"}.Signatures(sumA)
	known := shop(with()...)
	known[at] = &policy.Fact{Presence: policy.Present, AsNodes: true, Signatures: &signing.Signatures{All: []signing.Signature{release.Sign("quay.io/x:1", "sha512:"+strings.Repeat("a", 128))}}}
	for want, uses := range map[string][]policy.Consumer{"warn SignatureUnreadable": consumers(), "deny SignatureUnreadable": consumers(isRouter)} {
		if got := summary(Decide(shallow(policy.Change{Before: bare, After: mirrored}, []policy.Image{{Ref: tag, Consumers: uses}}, settings.Settings{}), known)); got != want {
			t.Errorf("one that cannot be judged here: got %q, want %q", got, want)
		}
	}
}

// TestSignatureLookups: the signatures of each instance are looked up once the place that nodes
// take is known, and there only, as long as they are good.
func TestSignatureLookups(t *testing.T) {
	signed := signedBy(release, "quay.io/x")
	change := policy.Change{Before: withPolicies(signed), After: withPolicies(signed, itms("a", "quay.io", allow, "m.local", "n.local"))}
	for _, tc := range []struct {
		name  string
		world []string
		want  []string // refs, in order
	}{
		{
			"all is there",
			[]string{"m.local/x:1 index", "n.local/x:1 index", "m.local/x sumA signed quay.io/x:1", "m.local/x sumB signed quay.io/x:1"},
			[]string{"m.local/x:1", "n.local/x:1", "m.local/x:" + signer.Tag(sumA), "m.local/x:" + signer.Tag(sumB)},
		},
		{
			"one is missing: who has it?",
			[]string{"m.local/x:1 present", "n.local/x:1 present", "m.local/x sumA absent", "n.local/x sumA absent", "quay.io/x:1 present", "quay.io/x sumA signed quay.io/x:1"},
			[]string{"m.local/x:1", "n.local/x:1", "m.local/x:" + signer.Tag(sumA), "quay.io/x:1", "n.local/x:" + signer.Tag(sumA), "m.local/x@" + sumA, "quay.io/x:" + signer.Tag(sumA)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan, world := shallow(change, []policy.Image{{Ref: tag, Consumers: consumers()}}, settings.Settings{}), shop(tc.world...)
			known := policy.Facts{}
			var asked []string
			for lookups := plan.Lookups(known); len(lookups) > 0; lookups = plan.Lookups(known) {
				for _, l := range lookups {
					asked = append(asked, l.Ref)
					known[l] = world.At(l)
				}
			}
			if diff := cmp.Diff(tc.want, asked); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestNamespacesAreJudgedApart: of one image, only those of its consumers are held up whose
// namespace asks for signatures.
func TestNamespacesAreJudgedApart(t *testing.T) {
	mirror := itms("a", "quay.io", allow, "m.local")
	change := policy.Change{Before: withPolicies(signedIn("shop", release, "quay.io/x")), After: withPolicies(signedIn("shop", release, "quay.io/x"), mirror)}
	images := []policy.Image{{Ref: tag, Consumers: append(consumers(), policy.Consumer{Kind: "Deployment", Namespace: "bank", Name: "till", Container: "app"})}}
	plan := shallow(change, images, settings.Settings{})
	v := Decide(plan, shop("m.local/x:1 present", "m.local/x sumA absent", "quay.io/x:1 present", "quay.io/x sumA signed quay.io/x:1"))
	if got := summary(v); got != "deny SignatureMissing" {
		t.Fatalf("got %q", got)
	}
	if got := v.Findings[0].Image.ConsumerNames(9); got != "Deployment shop/cart (app)" {
		t.Errorf("it is held up by %s", got)
	}
	if v.Counts.Rerouted != 1 {
		t.Errorf("%d images are rerouted, want 1", v.Counts.Rerouted)
	}
}

// TestSignatureElsewhere: a signature that nodes do not look for is named, and so is the tag under which they do.
func TestSignatureElsewhere(t *testing.T) {
	signed := signedBy(release, "quay.io/x")
	v := Decide(shallow(policy.Change{Before: set(), After: withPolicies(signed)}, []policy.Image{{Ref: tag, Consumers: consumers()}}, settings.Settings{}), shop("quay.io/x:1 present", "quay.io/x sumA absent", "quay.io/x sumA referrer"))
	f := v.Findings[0]
	if summary(v) != "deny SignatureMissing" || !strings.Contains(strings.Join(f.Detail, "\n"), "application/vnd.dev.sigstore.bundle.v0.3+json") || !strings.Contains(strings.Join(f.Remedy, "\n"), signer.Tag(sumA)) {
		t.Errorf("%s: %+v", summary(v), f)
	}
}

// TestSignedIndexes: which signatures nodes look for is known of an index by its content alone, which is asked for where the
// image is not protected as well, by a tag or a digest, at each place.
func TestSignedIndexes(t *testing.T) {
	const index = "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
	signed := signedBy(release, "quay.io/x")
	change := policy.Change{Before: withPolicies(signed), After: withPolicies(signed, idms("digests", "quay.io", allow, "m.local"), itms("tags", "quay.io", allow, "m.local"))}
	for _, ref := range []string{"quay.io/x:1", "quay.io/x@" + index} {
		for _, row := range []struct{ mirror, source, unsigned, want string }{
			{mirror: "m.local", source: "quay.io", want: ""},
			{mirror: "m.local", source: "quay.io", unsigned: "m.local", want: "deny SignatureMissing"},
			{source: "quay.io", want: "deny ImageMissing"},
			{source: "quay.io", unsigned: "quay.io", want: "warn SignatureMissing"},
			{mirror: "m.local", unsigned: "m.local", want: "warn SignatureMissing"}, // it cannot be pulled today
		} {
			plan := newPlan(change, plan.Cluster{Images: policy.NewImages(policy.Image{Ref: ref, Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: "cart", Container: "app"}}}), Nodes: nodesOf(twoPlatforms)}, settings.Settings{})
			answer := func(l mirrors.Location) *policy.Fact {
				at := l.Host()
				f := &policy.Fact{Presence: policy.Present, AsNodes: true}
				switch {
				case at != row.mirror && at != row.source, l.Depth == mirrors.DepthReferrers:
					f.Presence = policy.Absent
				case l.Depth == mirrors.DepthSignatures && at == row.unsigned:
					f.Presence = policy.Absent
				case l.Depth == mirrors.DepthSignatures:
					for _, sum := range []string{sumA, sumB} {
						if strings.Contains(l.Ref, strings.TrimPrefix(sum, "sha256:")) {
							f.Signatures = &signing.Signatures{All: []signing.Signature{release.Sign("quay.io/x:1", sum)}}
						}
					}
				default:
					f.Digest, f.MediaType = index, policy.IndexTypes[0]
					if l.Depth > mirrors.DepthExists {
						f.Children, f.Serves, f.Instances = []string{sumA, sumB}, twoPlatforms, []policy.Instance{{Platform: "linux/amd64", Digest: sumA}, {Platform: "linux/arm64", Digest: sumB}}
					}
				}
				return f
			}
			found := policy.Facts{}
			for lookups := plan.Lookups(found); len(lookups) > 0; lookups = plan.Lookups(found) {
				for _, l := range lookups {
					found[l] = answer(l)
				}
			}
			var got []string
			for _, f := range Decide(plan, found).Findings {
				if f.Image.Ref != "" {
					got = append(got, f.Severity.String()+" "+string(f.Rule))
				}
			}
			if strings.Join(got, ", ") != row.want {
				t.Errorf("%s, %+v: %q", ref, row, got)
			}
			for _, place := range plan.Reroutes[0].After.Sources {
				want := map[string]string{row.mirror: "accepted", row.source: "accepted"}
				want[row.unsigned] = "missing"
				for _, s := range evidence.SignaturesAt(place, found) {
					if at := place.Host(); s.State != want[at] {
						t.Errorf("%s, %+v: signatures at %s are %s: %s", ref, row, at, s.State, s.Detail)
					}
				}
			}
		}
	}
}

// TestIdlePolicies: of a policy that is said to require nothing, no image in use needs a signature that it does not need without, in
// its namespace.
func TestIdlePolicies(t *testing.T) {
	rng := rand.New(rand.NewPCG(45, 4))
	scopes := []configv1.ImageScope{"quay.io", "*.io", "quay.io/x", "quay.io/x/y", "quay.io/x/y:1", "quay.io/z", "docker.io/library/nginx", "docker.io/nginx", "m.local/x"}
	refs := []string{"quay.io/x/y:1", "quay.io/x/y@" + sumA, "quay.io/x:1", "other.io/x:1", "nginx:1"}
	several := func() (some []configv1.ImageScope) {
		for range rng.IntN(4) {
			some = append(some, scopes[rng.IntN(len(scopes))])
		}
		return some
	}
	idle, useful := 0, 0
	for range campaign.Times(1_500, 30_000) {
		policyOf := func(name string) mirrors.Object {
			o := signedBy([]signer.Key{release, "other"}[rng.IntN(2)], several()...)
			if rng.IntN(2) == 0 {
				o = signedIn([]string{"shop", "bank"}[rng.IntN(2)], release, several()...)
			}
			o.SetName(name)
			return o
		}
		var before mirrors.Set
		for _, name := range []string{"a", "b"}[:rng.IntN(3)] {
			before = mirrors.Put(policyOf(name)).Apply(before)
		}
		if rng.IntN(3) == 0 {
			before.Registries.AllowedRegistries = []string{"quay.io", "docker.io", "other.io", "m.local", "*.io", "quay.io/x/y"}
		}
		added := policyOf("new")
		after := mirrors.Put(added).Apply(before)
		var images []policy.Image
		for _, ref := range refs[:1+rng.IntN(len(refs))] {
			images = append(images, policy.Image{Ref: ref, Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: []string{"shop", "bank"}[rng.IntN(2)], Name: "cart", Container: "app"}}})
		}
		p := shallow(policy.Change{Before: before, After: after}, images, settings.Settings{})
		was, errWas := mirrors.Resolve(before)
		is, errIs := mirrors.Resolve(after)
		if errWas != nil || errIs != nil {
			continue
		}
		more := false
		for _, img := range images {
			namespace := img.Consumers[0].Namespace
			candidates, _ := is.Candidates(img.Ref)
			for _, ref := range candidates {
				old, _ := was.Requirement(ref, namespace)
				now, _ := is.Requirement(ref, namespace)
				more = more || !now.IsMetBy(old)
			}
		}
		uses := scopeUses(p)[added]
		requires := slices.ContainsFunc(uses, func(u *scopeUse) bool { return u.requires })
		if requires {
			useful++
			continue
		}
		if idle++; more || len(idlePolicies(p)) == 0 {
			t.Fatalf("%v of %s over %v: more is required: %t\n%v", uses, mirrors.NameOf(added), images, more, idlePolicies(p))
		}
	}
	if idle < 500 || useful < 500 {
		t.Errorf("%d policies require nothing, and %d something", idle, useful)
	}
}
