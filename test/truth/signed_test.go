package truth

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// A signatures is an answer of a registry to the question for the signatures of an image.
type signatures string

const (
	unsigned      signatures = "none"
	signedWell    signatures = "as the image is called"
	signedInPart  signatures = "of the part for amd64"
	signedAsIndex signatures = "of the index"
	signedTwice   signatures = "by another key, and well"
	byOther       signatures = "by another key"
	byBoth        signatures = "by both keys"
	asMirror      signatures = "as the mirror is called"
	asRepository  signatures = "as the repository, without a tag"
	asOtherTag    signatures = "as another tag"
	asDigest      signatures = "as the digest"
	forOther      signatures = "of another digest"
	noPayload     signatures = "a payload that is none"
	tampered      signatures = "a payload that was altered"
	payloadLost   signatures = "a payload that is lost"
	attested      signatures = "an attestation alone"
	forbiddenSigs signatures = "403"
	deniedSigs    signatures = "401"
	failingSigs   signatures = "500"
	nameUnknown   signatures = "no such repository"
	bareNotFound  signatures = "404 without a word"
	typedWrong    signatures = "another media type"
	itself        signatures = "the image itself"
	htmlSigs      signatures = "HTML with 200"
	garbledSigs   signatures = "half a manifest"
	movedSigs     signatures = "well, behind a redirect"
	busySigs      signatures = "well, after 429"
)

var signatureStates = []share[signatures]{
	{unsigned, 50},
	{signedWell, 70},
	{signedInPart, 8},
	{signedAsIndex, 14},
	{signedTwice, 6},
	{byOther, 10},
	{byBoth, 6},
	{asMirror, 12},
	{asRepository, 8},
	{asOtherTag, 14},
	{asDigest, 6},
	{forOther, 4},
	{noPayload, 3},
	{tampered, 3},
	{payloadLost, 3},
	{attested, 3},
	{forbiddenSigs, 6},
	{deniedSigs, 4},
	{failingSigs, 4},
	{nameUnknown, 5},
	{bareNotFound, 5},
	{typedWrong, 5},
	{itself, 4},
	{htmlSigs, 3},
	{garbledSigs, 3},
	{movedSigs, 4},
	{busySigs, 3},
}

// The keys of policies.
const (
	releaseKey = signer.Key("release")
	secondKey  = signer.Key("second")
	otherKey   = signer.Key("other")
)

// A signedHost is the signatures of a host.
type signedHost struct {
	// places are by repository.
	places map[string]signatures
	// image is the name that the image goes by, amd64 its part for that, index the
	// digest of the whole.
	image, amd64, index string

	mu   sync.Mutex
	made map[string]signer.Attachment // by state and digest
	held map[string][]byte            // blobs by digest
	busy map[string]bool
}

// attachment returns what stands at the tag of a digest, and false for nothing.
func (s *signedHost) attachment(at signatures, place, sum string) (signer.Attachment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(at) + sum + place
	if a, ok := s.made[key]; ok {
		return a, true
	}
	signed := s.sign(at, place, sum)
	if len(signed) == 0 {
		return signer.Attachment{}, false
	}
	a := signer.Attach(signed...)
	if s.made == nil {
		s.made, s.held, s.busy = map[string]signer.Attachment{}, map[string][]byte{}, map[string]bool{}
	}
	s.made[key] = a
	for _, blob := range a.Blobs {
		id := digest.FromBytes(blob).String()
		switch {
		case at == payloadLost && string(blob) != "{}":
		case at == tampered && string(blob) != "{}":
			s.held[id] = append(slices.Clone(blob), ' ')
		default:
			s.held[id] = blob
		}
	}
	return a, true
}

func (s *signedHost) sign(at signatures, place, sum string) []signing.Signature {
	name := repositoryOf(s.image)
	tag := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(strings.Split(s.image, "@")[0], name), ":"), "v1")
	well := releaseKey.Sign(name+":"+tag, sum)
	switch at {
	case signedWell, movedSigs, busySigs, tampered, payloadLost, forbiddenSigs, deniedSigs, failingSigs, typedWrong, garbledSigs:
		return []signing.Signature{well}
	case signedInPart:
		if sum == s.amd64 {
			return []signing.Signature{well}
		}
	case signedAsIndex:
		if sum == s.index {
			return []signing.Signature{well}
		}
	case signedTwice:
		return []signing.Signature{otherKey.Sign(name+":"+tag, sum), well}
	case byOther:
		return []signing.Signature{otherKey.Sign(name+":"+tag, sum)}
	case byBoth:
		return []signing.Signature{well, secondKey.Sign(name+":"+tag, sum)}
	case asMirror:
		return []signing.Signature{releaseKey.Sign(place+":"+tag, sum)}
	case asRepository:
		return []signing.Signature{releaseKey.Sign(name, sum)}
	case asOtherTag:
		return []signing.Signature{releaseKey.Sign(name+":v9", sum)}
	case asDigest:
		return []signing.Signature{releaseKey.Sign(name+"@"+sum, sum)}
	case forOther:
		return []signing.Signature{releaseKey.Sign(name+":"+tag, digest.FromString("another").String())}
	case noPayload:
		well.Payload = []byte("no JSON")
		return []signing.Signature{well}
	case attested:
		well.MediaType = "application/vnd.dsse.envelope.v1+json"
		return []signing.Signature{well}
	}
	return nil
}

// serve answers for the tag of signatures in a repository.
func (s *signedHost) serve(h *host, w http.ResponseWriter, r *http.Request, repository, tag string) {
	at := s.places[repository]
	sum := strings.Replace(strings.TrimSuffix(tag, ".sig"), "-", ":", 1)
	a, ok := s.attachment(at, h.addr+"/"+repository, sum)
	switch at {
	case forbiddenSigs:
		writeRegistryError(w, http.StatusForbidden, "DENIED")
	case deniedSigs:
		writeRegistryError(w, http.StatusUnauthorized, "UNAUTHORIZED")
	case failingSigs:
		w.WriteHeader(http.StatusInternalServerError)
	case nameUnknown:
		writeRegistryError(w, http.StatusNotFound, "NAME_UNKNOWN")
	case bareNotFound:
		w.WriteHeader(http.StatusNotFound)
	case itself:
		h.forward(w, r, h.repository(repository), "manifests", tags[0])
	case htmlSigs:
		writeHTML(w)
	case movedSigs:
		http.Redirect(w, r, "/v2/moved-to/"+repository+"/manifests/"+tag, http.StatusTemporaryRedirect)
	case busySigs:
		s.mu.Lock()
		first := !s.busy[repository+tag]
		if s.busy != nil {
			s.busy[repository+tag] = true
		}
		s.mu.Unlock()
		interrupted(w, first, http.StatusTooManyRequests, func() { s.write(w, a, ok, at) })
	default:
		s.write(w, a, ok, at)
	}
}

func (s *signedHost) write(w http.ResponseWriter, a signer.Attachment, ok bool, at signatures) {
	if !ok {
		writeRegistryError(w, http.StatusNotFound, "MANIFEST_UNKNOWN")
		return
	}
	w.Header().Set("Content-Type", signer.MediaType)
	if at == typedWrong {
		w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
	}
	body := a.Manifest
	if at == garbledSigs {
		body = body[:len(body)/2]
	}
	_, _ = w.Write(body) // the client may leave
}

// blob returns a blob of signatures.
func (s *signedHost) blob(id string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.held[id]
	return content, ok
}

func writeRegistryError(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"errors":[{"code":"`+code+`","message":"no"}]}`) // the client may leave
}

// A signedChange is a change in a cluster with image policies: of mirrors, or of a policy.
type signedChange struct {
	*change
	ofPolicies bool
}

// The numbers of signed changes lie between those of scenarios and of changes.
const (
	firstSigned = 10_000
	usualSigned = 160
)

// telling are worlds that prove wrong readings which few others do. Where there are many, they
// are among them.
var telling = []int{342, 527, 443, 564, 448, 565, 397, 532, 432, 576, 284, 501}

// testSigned does what testChanges does, in worlds with policies that require signatures.
func (w *world) testSigned(t *testing.T) {
	count := min(campaign.Times(usualSigned, many), number(t, "TRUTH_SCENARIOS", many))
	l := changeLedger{caught: map[string]int{}, rules: map[string]int{}, misreadings: signedMisjudgements()}
	t.Run("each", func(t *testing.T) {
		for i := range count {
			t.Run(fmt.Sprintf("%04d", i), func(t *testing.T) {
				t.Parallel()
				if count <= slices.Max(telling) && i < len(telling) {
					w.playSigned(t, telling[i], &l)
					return
				}
				w.playSigned(t, i, &l)
			})
		}
	})
	t.Log(l.String())
	if count >= usualSigned && !t.Failed() {
		l.check(t)
	}
}

func newSignedChange(w *world, i int) *signedChange {
	g := gen{rand.New(rand.NewPCG(w.seed+2, uint64(i)))}
	for {
		s := &scenario{number: firstSigned + i, arch: "amd64", corpus: w.corpus, namespace: "openshift-ingress"}
		for k := range 4 {
			s.hosts = append(s.hosts, s.newHost(w, k))
		}
		c := &signedChange{change: &change{scenario: s, nodes: pick(g, []string{"amd64"}, []string{"amd64", "arm64"}), running: g.chance(30)}}
		if c.draw(g) {
			return c
		}
	}
}

// draw makes c up at random, and reports whether it alters the route of its image.
func (c *signedChange) draw(g gen) bool {
	c.index = g.chance(50)
	c.pullSecret = dockerConfig(map[string]any{"unrelated.example.com": entry(user, password)})
	c.before = c.newSet(g)
	if g.chance(60) {
		c.before.Objects = c.mirrorSets(pick(g, c.hosts[mirror], c.hosts[second]).addr)
	}
	c.before.Policies = c.policies(g)
	if g.chance(15) {
		c.before.Files = append(c.before.Files, c.dropIn(g))
	}
	c.image = c.newImage(g)
	if c.short() {
		return false
	}
	if c.ofPolicies = g.chance(45); c.ofPolicies {
		c.set = c.before
		c.set.Policies = c.policies(g)
	} else if c.set = c.edited(g); g.chance(50) {
		c.set.Objects = c.mirrorSets(pick(g, c.hosts[mirror], c.hosts[second]).addr)
	}
	from, err := mirrors.Resolve(c.had())
	if err != nil {
		return false
	}
	if _, err := c.resolve(); err != nil {
		return false
	}
	if _, _, changed, err := mirrors.Compare(from, c.table, c.image, c.namespace); err != nil || !changed {
		return false
	}
	for _, set := range []mirrors.Set{c.before, c.set} {
		c.settle(g, set)
	}
	for _, h := range c.hosts {
		h.index = c.index
		h.signed = &signedHost{places: map[string]signatures{}, image: c.image, amd64: c.corpus.parts["amd64"], index: c.corpus.index}
		for _, place := range slices.Sorted(maps.Keys(h.places)) {
			if h.places[place] != present && g.chance(60) {
				h.places[place] = pick(g, present, absent)
			}
			h.signed.places[place] = draw(g, signatureStates)
		}
	}
	return true
}

// policies draws image policies, usually such as are about the image.
func (c *signedChange) policies(g gen) []mirrors.Object {
	var all []mirrors.Object
	for i := range draw(g, []share[int]{{0, 15}, {1, 60}, {2, 25}}) {
		var scopes []configv1.ImageScope
		for range 1 + g.IntN(2) {
			scopes = append(scopes, configv1.ImageScope(c.policyScope(g)))
		}
		signed := c.required(g)
		if g.chance(25) {
			o := &configv1.ImagePolicy{}
			o.Name, o.Namespace = fmt.Sprint("own", i), pick(g, c.namespace, "team")
			o.Spec.Scopes, o.Spec.Policy = scopes, signed
			all = append(all, o)
			continue
		}
		o := &configv1.ClusterImagePolicy{}
		o.Name = fmt.Sprint("signed", i)
		o.Spec.Scopes, o.Spec.Policy = scopes, signed
		all = append(all, o)
	}
	return all
}

func (c *signedChange) policyScope(g gen) string {
	h := pick(g, c.hosts[source], c.hosts[source], c.hosts[source], c.hosts[source], c.hosts[mirror], c.hosts[1])
	if g.chance(4) {
		return "*." + h.ip[strings.Index(h.ip, ".")+1:]
	}
	return h.addr + pick(g, "", "", "/team", "/team", "/team/app", "/team/app:v1", "/team/app/part", "/team/web")
}

// required draws what a policy requires.
func (c *signedChange) required(g gen) configv1.ImageSigstoreVerificationPolicy {
	key := draw(g, []share[signer.Key]{{releaseKey, 85}, {secondKey, 15}})
	p := configv1.ImageSigstoreVerificationPolicy{RootOfTrust: configv1.PolicyRootOfTrust{
		PolicyType: configv1.PublicKeyRootOfTrust, PublicKey: &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: key.PEM()},
	}}
	name := func(h *host) configv1.IdentityRepositoryPrefix {
		return configv1.IdentityRepositoryPrefix(h.addr + pick(g, "", "/team", "/team/app"))
	}
	switch g.IntN(10) {
	case 0, 1:
		p.SignedIdentity = &configv1.PolicyIdentity{MatchPolicy: configv1.IdentityMatchPolicyMatchRepository}
	case 2:
		h := pick(g, c.hosts[source], c.hosts[mirror], c.hosts[second])
		p.SignedIdentity = &configv1.PolicyIdentity{MatchPolicy: configv1.IdentityMatchPolicyExactRepository, PolicyMatchExactRepository: &configv1.PolicyMatchExactRepository{
			Repository: configv1.IdentityRepositoryPrefix(h.addr + pick(g, "/team/app", "/x/app")),
		}}
	case 3:
		p.SignedIdentity = &configv1.PolicyIdentity{MatchPolicy: configv1.IdentityMatchPolicyRemapIdentity, PolicyMatchRemapIdentity: &configv1.PolicyMatchRemapIdentity{
			Prefix: name(c.hosts[source]), SignedPrefix: name(pick(g, c.hosts[mirror], c.hosts[second])),
		}}
	}
	return p
}

// dropIn is a file of the house that says where nodes look for signatures.
func (c *signedChange) dropIn(g gen) mirrors.File {
	at := pick(g, c.hosts[mirror], c.hosts[second], c.hosts[source])
	text := fmt.Sprintf("docker:\n  %s%s:\n    use-sigstore-attachments: %t\n", at.addr, pick(g, "", "/team", "/team/app"), g.chance(75))
	if g.chance(20) {
		text = "default-docker:\n  use-sigstore-attachments: true\n"
	}
	return mirrors.File{MachineConfig: "99-worker-house", Role: "worker", Path: path.Dir(policyfile.AttachmentsPath) + "/house.yaml", Contents: []byte(text)}
}

// playSigned has change i reviewed, pulls before and after it, and compares.
func (w *world) playSigned(t *testing.T, i int, l *changeLedger) {
	c := newSignedChange(w, i)
	for _, h := range c.hosts {
		h.start(t, w)
	}
	g := newGuardOf(w, c.scenario, c.platforms())
	defer g.client.Close()
	verdict := c.review(t.Context(), g, misjudgement{})
	mistaken := map[string]bool{}
	for _, m := range signedMisjudgements() {
		mistaken[m.name] = c.review(t.Context(), g, m).Allowed
	}
	lost, gained := w.lostSigned(t, c)
	l.add(c.change, verdict, lost, mistaken)
	l.addGained(verdict, gained, mistaken)
	switch {
	case lost != "" && verdict.Allowed && !c.isExcused(verdict):
		t.Errorf("admitted, though nodes of %s lose it\n%s\n%s", lost, words.Answer(verdict, "The change"), c)
	case gained && !verdict.Allowed && !saysUnverified(verdict) && !c.isDeniedAtAMirror(verdict):
		t.Errorf("denied, though every node gets it\n%s\n%s", words.Answer(verdict, "The change"), c)
	}
}

// isDeniedAtAMirror reports whether v refuses a change of policies as a mirror lets nobody in: it may
// let nodes in again, and what it then has of signatures counts. docs/truth.md says why this stays.
func (c *signedChange) isDeniedAtAMirror(v policy.Verdict) bool {
	return c.ofPolicies && slices.ContainsFunc(v.Findings, func(f policy.Finding) bool { return f.Rule == policy.CredentialsMissing })
}

// lostSigned is lost. A change of policies leaves the places as they are, so an image that comes
// from its source afterwards is as good as before.
func (w *world) lostSigned(t *testing.T, c *signedChange) (lost string, gained bool) {
	t.Helper()
	if !c.ofPolicies {
		return w.lost(t, c.change)
	}
	gained = true
	for _, arch := range c.nodes {
		if w.pullAs(t, c.change, c.set, arch).pulled {
			continue
		}
		gained = false
		if w.pullAs(t, c.change, c.had(), arch).pulled {
			lost = strings.TrimPrefix(lost+", "+arch, ", ")
		}
	}
	return lost, gained
}

// String describes c for whoever has to investigate it.
func (c *signedChange) String() string {
	var b strings.Builder
	for name, set := range map[string]mirrors.Set{"before": c.before, "after": c.set} {
		for _, o := range set.Policies {
			data, _ := json.Marshal(o) // of a type that JSON knows
			fmt.Fprintf(&b, "policy %s: %s\n", name, data)
		}
		for _, f := range set.Files {
			fmt.Fprintf(&b, "file %s: %s\n", name, f.Contents)
		}
	}
	for _, h := range c.hosts {
		fmt.Fprintf(&b, "signatures at %s: %v\n", h.addr, h.signed.places)
	}
	return b.String() + c.change.String()
}

// signedMisjudgements are wrong readings of how nodes treat signatures.
func signedMisjudgements() []misjudgement {
	ofSignatures := func(change func(l mirrors.Location, f policy.Fact) policy.Fact) func(mirrors.Location, bool, policy.Fact) policy.Fact {
		return func(l mirrors.Location, _ bool, f policy.Fact) policy.Fact {
			if l.Depth != mirrors.DepthSignatures {
				return f
			}
			return change(l, f)
		}
	}
	return []misjudgement{
		{name: "whoever has the image has its signatures", factOf: func(c *change, l mirrors.Location, f policy.Fact) policy.Fact {
			if l.Depth == mirrors.DepthSignatures {
				return c.wellSigned(l)
			}
			return f
		}},
		{name: "a signature is good if there is one", factOf: func(c *change, l mirrors.Location, f policy.Fact) policy.Fact {
			if l.Depth == mirrors.DepthSignatures && f.Presence == policy.Present && len(f.Signatures.All) > 0 {
				return c.wellSigned(l)
			}
			return f
		}},
		{name: "the next place is asked where there is no signature", facts: unsignedAreAbsent},
		{name: "the signature of the index counts", fact: func(_ mirrors.Location, _ bool, f policy.Fact) policy.Fact {
			if len(f.Instances) > 0 {
				f.Instances = []policy.Instance{{Digest: f.Digest}}
			}
			return f
		}},
		{name: "signatures are read only where a policy requires them", fact: ofSignatures(func(_ mirrors.Location, f policy.Fact) policy.Fact {
			if f.Presence != policy.Present {
				f.Presence = policy.Absent
			}
			return f
		})},
		{name: "signatures are looked for at every place", set: func(s mirrors.Set) mirrors.Set {
			s.Files = append(slices.Clone(s.Files), mirrors.File{
				MachineConfig: "99-worker-x", Role: "worker", Path: policyfile.AttachmentsPath, Contents: []byte("default-docker:\n  use-sigstore-attachments: true\n"),
			})
			return s
		}},
		{name: "the policy is that of the place that serves", set: func(s mirrors.Set) mirrors.Set {
			return withPolicies(s, func(spec *configv1.ClusterImagePolicySpec) {
				for i, scope := range spec.Scopes {
					host, rest, _ := strings.Cut(string(scope), ":")
					if strings.HasSuffix(host, ".1") && !strings.HasPrefix(host, "*") {
						spec.Scopes[i] = configv1.ImageScope(strings.TrimSuffix(host, ".1") + ".3:" + rest)
					}
				}
			})
		}},
		{name: "of two policies over one scope one is enough", set: func(s mirrors.Set) mirrors.Set {
			if len(s.Policies) > 1 {
				s.Policies = s.Policies[:1]
			}
			return s
		}},
		{name: "the repository of the name that a signature bears is enough", set: func(s mirrors.Set) mirrors.Set {
			return withPolicies(s, func(spec *configv1.ClusterImagePolicySpec) {
				if spec.Policy.SignedIdentity == nil {
					spec.Policy.SignedIdentity = &configv1.PolicyIdentity{MatchPolicy: configv1.IdentityMatchPolicyMatchRepository}
				}
			})
		}},
		{name: "policies of namespaces are for all", set: func(s mirrors.Set) mirrors.Set {
			s.Policies = slices.Clone(s.Policies)
			for i, o := range s.Policies {
				if own, ok := o.(*configv1.ImagePolicy); ok {
					own = own.DeepCopy()
					own.Namespace = "openshift-ingress"
					s.Policies[i] = own
				}
			}
			return s
		}},
		{name: "signatures of 404 without a word cannot be read", fact: ofSignatures(func(_ mirrors.Location, f policy.Fact) policy.Fact {
			if f.Presence == policy.Absent {
				f.Presence = policy.Denied
			}
			return f
		})},
		{name: "all signatures have to fit", factOf: func(_ *change, l mirrors.Location, f policy.Fact) policy.Fact {
			if l.Depth == mirrors.DepthSignatures && f.Signatures != nil && len(f.Signatures.All) > 1 {
				f.Signatures = &signing.Signatures{All: f.Signatures.All[:1], Read: f.Signatures.Read}
			}
			return f
		}},
	}
}

// wellSigned returns signatures of the digest that a tag names, under every name that a policy of
// this test may ask for.
func (c *change) wellSigned(l mirrors.Location) policy.Fact {
	sum := strings.Replace(strings.TrimSuffix(l.Ref[strings.LastIndex(l.Ref, ":")+1:], ".sig"), "-", ":", 1)
	name := repositoryOf(c.image)
	names := []string{name}
	for _, h := range c.hosts {
		names = append(names, h.addr, h.addr+"/team", h.addr+"/team/app", h.addr+"/x/app", h.addr+"/app", h.addr+strings.TrimPrefix(name, c.hosts[source].addr))
	}
	var all []signing.Signature
	for _, n := range names {
		if strings.Contains(n, "/") {
			all = append(all, releaseKey.Sign(n+":v1", sum), secondKey.Sign(n+":v1", sum), releaseKey.Sign(n+":latest", sum), secondKey.Sign(n+":latest", sum))
		}
	}
	return policy.Fact{Presence: policy.Present, AsNodes: true, Signatures: &signing.Signatures{All: all}}
}

// withPolicies returns s with changed policies of the cluster.
func withPolicies(s mirrors.Set, change func(*configv1.ClusterImagePolicySpec)) mirrors.Set {
	s.Policies = slices.Clone(s.Policies)
	for i, o := range s.Policies {
		if p, ok := o.(*configv1.ClusterImagePolicy); ok {
			p = p.DeepCopy()
			change(&p.Spec)
			s.Policies[i] = p
		}
	}
	return s
}

// unsignedAreAbsent returns facts as they would be if nodes went on to the next place from one
// without signatures.
func unsignedAreAbsent(facts policy.Facts) {
	for l, f := range facts {
		if l.Depth != mirrors.DepthSignatures || f.Presence != policy.Absent {
			continue
		}
		for image := range facts {
			if image.Depth != mirrors.DepthSignatures && repositoryOf(image.Ref) == repositoryOf(l.Ref) {
				facts[image] = &policy.Fact{Presence: policy.Absent, AsNodes: true}
			}
		}
	}
}
