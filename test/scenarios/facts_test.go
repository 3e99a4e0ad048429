package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/forecast"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// nodePlatforms are the nodes' platforms in every story.
var nodePlatforms = []string{"linux/amd64", "linux/arm64"}

// A told story is one with what its change and its cluster are.
type told struct {
	*Scenario
	edit   mirrors.Edit
	change policy.Change
	known  plan.Cluster // without what a rollout goes through
	dump   *snapshot.Snapshot
}

func tell(t *testing.T, s *Scenario) *told {
	set, err := s.Set()
	if err != nil {
		t.Fatal(err)
	}
	edit, err := s.Edit()
	if err != nil {
		t.Fatal(err)
	}
	after := edit.Apply(set)
	if set.TrustedCA != after.TrustedCA {
		set.CAs, after.CAs = s.casIn(set.TrustedCA), s.casIn(after.TrustedCA)
	}
	dump := s.dump(t)
	return &told{s, edit, policy.Change{Before: set, After: after}, plan.Cluster{
		Images: policy.NewImages(s.Images...), PodsListed: plan.InEveryNamespace, Nodes: dump.Nodes(), EndingNamespaces: dump.EndingNamespaces(), InForce: mirrors.NewTables(set), Current: currentIn(t, dump),
		RunsHere: objects.RunsHere(dump.Exposed),
	}, dump}
}

// currentIn returns what nodes have, as far as the dump has it.
func currentIn(t *testing.T, dump *snapshot.Snapshot) []evidence.CurrentConfig {
	var all []evidence.CurrentConfig
	for _, c := range dump.Rollout().CurrentConfigs() {
		current := evidence.CurrentConfig{CurrentConfig: c}
		if config, err := dump.Rendered(t.Context(), c.Name); err == nil {
			if current.Routes, err = config.Routes(); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, current)
	}
	return all
}

// at is what the story says about a location.
func (s *told) at(l mirrors.Location) *policy.Fact {
	return new(s.factAs(l, map[bool]string{false: s.change.Before.TrustedCA, true: s.change.After.TrustedCA}[l.ProposedTrust]))
}

// askPolicy asks the pure policy, with the facts that the story states.
func askPolicy(t *testing.T, scenario *Scenario) Answer {
	return answerOf(decide(t, scenario))
}

// answerOf returns what the person is told who asks for the change of record.
func answerOf(record review.Record) Answer {
	message := record.Refusal
	if record.Verdict.Allowed { // in spite of it, because of the mode
		message = ""
	}
	return Answer{record.Verdict.Allowed, message, record.Warnings()}
}

// decide has the pure policy judge a story.
func decide(t *testing.T, scenario *Scenario) review.Record {
	return tell(t, scenario).judge(loss{})
}

// judge has the pure policy judge a story, with what a loss leaves.
func (s *told) judge(l loss) review.Record {
	known, through := s.known, s.dump.Rollout()
	known.Rollout = &through
	if l.known != nil {
		l.known(&known)
	}
	plan := plan.NewOutline(s.change, known, s.Settings.For(s.As)).Plan()
	facts := policy.Facts{}
	learns := func(lookups []mirrors.Location) bool {
		for _, at := range lookups {
			facts[at] = s.at(at)
			if l.answer != nil {
				facts[at] = new(l.answer(at, *facts[at]))
			}
		}
		return len(lookups) > 0
	}
	for learns(plan.Lookups(facts)) {
	}
	record := review.Record{Subject: s.edit.Subject(), Plan: plan, Facts: facts, Notes: slices.Concat(plan.OrderNotes(), plan.ElsewhereNotes())}
	for again := true; again; {
		record.Forecast, again = forecast.Of(plan, facts, forecast.Forecaster{Now: time.Now(), Stop: l.stop}), false
		for record.Forecast != nil && learns(record.Forecast.Lookups(facts)) {
			again = true
		}
	}
	record.Verdict = rules.WithForecast(plan, rules.Decide(plan, facts), record.Forecast)
	record.Refusal = words.Refusal(record.Verdict, record.Subject)
	return record
}

// factAs is fact for nodes that trust what a ConfigMap of openshift-config holds.
func (s *Scenario) factAs(l mirrors.Location, trusted string) policy.Fact {
	f := s.factBy(l, trusted)
	f.AsNodes = true
	for words, cause := range map[string]policy.Cause{"has no entry for it": policy.NoEntry, "is failing": policy.Overloaded, "unknown authority": policy.UnknownAuthority} {
		if strings.Contains(f.Detail, words) {
			f.Trouble = &policy.Trouble{Cause: cause}
		}
	}
	return f
}

func (s *Scenario) factBy(l mirrors.Location, trusted string) policy.Fact {
	host, _, _ := strings.Cut(l.Ref, "/")
	if s.States[host] == registries.Private && !slices.Contains(s.CAs[trusted], host) {
		return policy.Fact{Presence: policy.Unreachable, Detail: host + " has a certificate of an unknown authority; add its CA to additionalTrustedCA of image.config"}
	}
	return s.fact(l)
}

// casIn is what a ConfigMap holds; the certificates themselves matter only at other doors.
func (s *Scenario) casIn(name string) map[string]string {
	cas := map[string]string{}
	for _, host := range s.CAs[name] {
		cas[host] = "the private CA"
	}
	return cas
}

// apiHost is where the API of a registry is.
func apiHost(host string) string {
	if host == "docker.io" {
		return registries.HubAPI
	}
	return host
}

// fact is what the story says about a location, in the words of the prober.
func (s *Scenario) fact(l mirrors.Location) policy.Fact {
	host, _, _ := strings.Cut(l.Ref, "/")
	state := s.States[host]
	if own := s.States[l.Ref]; own != "" {
		state = own
	}
	if host == "docker.io" {
		host = registries.HubAPI
	}
	detail := map[registries.Behaviour]string{
		registries.Denied:      `%s answers 401 and the global pull secret has no entry for it; add one, saying "authentication required"`,
		registries.Mismatch:    `%s answers 200 with "text/html", which is not an image manifest; check what serves this path`,
		registries.Unavailable: `%s is failing: it answers 503 Service Unavailable, saying "service unavailable"; try again when it has recovered`,
		registries.Down:        "%s refuses connections; check that the registry runs and listens there",
	}
	presence := map[registries.Behaviour]policy.Presence{
		registries.Honest: policy.Present, registries.Denied: policy.Denied, registries.Mismatch: policy.Mismatch,
		registries.Unavailable: policy.Unreachable, registries.Down: policy.Unreachable,
	}
	switch {
	case l.Depth == mirrors.DepthSignatures:
		return s.signaturesFact(l, presence, detail)
	case l.Depth == mirrors.DepthReferrers:
		return policy.Fact{Presence: policy.Absent}
	case isIndexOf(state):
		return indexFact(l, state)
	case state == registries.Exchanged:
		return policy.Fact{Presence: policy.Mismatch, Detail: fmt.Sprintf("%s serves other content under this digest (%s); nodes would stop there", apiHost(host), digest.FromString(registries.Other))}
	case state == registries.HeadFails:
		return presentFact(l, registries.Honest)
	case state == registries.Hollow && l.Depth >= mirrors.DepthManifest:
		return hollowFact(l)
	case state == registries.Hollow:
		return presentFact(l, registries.Honest)
	case state == registries.Honest, state == Index, state == Sparse:
		found := presentFact(l, state)
		for _, child := range found.Children {
			if own := s.States[repositoryOf(l.Ref)+"@"+child]; own == registries.Denied && l.Depth >= mirrors.DepthManifest {
				return policy.Fact{Presence: policy.Inconclusive, Detail: "the manifest is there, but " + fmt.Sprintf(detail[own], apiHost(host))}
			}
		}
		return found
	case presence[state] != policy.Unknown:
		return policy.Fact{Presence: presence[state], Detail: fmt.Sprintf(detail[state], apiHost(host))}
	default:
		return policy.Fact{Presence: policy.Absent, Detail: apiHost(host) + ` answers 404: it does not hold this image, saying "manifest unknown"`}
	}
}

// signaturesFact is what a prober learns about signatures.
func (s *Scenario) signaturesFact(l mirrors.Location, presence map[registries.Behaviour]policy.Presence, detail map[registries.Behaviour]string) policy.Fact {
	host, _, _ := strings.Cut(l.Ref, "/")
	found := policy.Fact{Presence: policy.Absent, Detail: apiHost(host) + ` answers 404: it holds no signature, saying "manifest unknown"`}
	var all []signing.Signature
	for _, signed := range s.Signed {
		for _, digest := range s.instances(signed.Ref) {
			if repositoryOf(signed.Ref)+":"+signer.Tag(digest) != l.Ref {
				continue
			}
			if signed.State == registries.Honest {
				all = append(all, signed.Key.Sign(signed.As, digest))
				found = policy.Fact{Presence: policy.Present, Signatures: &signing.Signatures{All: all, Read: time.Now()}}
				continue
			}
			found = policy.Fact{Presence: presence[signed.State], Detail: fmt.Sprintf(detail[signed.State], apiHost(host))}
			if signed.State == registries.Mismatch {
				found.Detail = fmt.Sprintf(`%s serves "text/html" where signatures should be, for which nodes say: unexpected MIME type`, apiHost(host))
			}
		}
	}
	return found
}

// presentFact is what a prober learns about an image that is there.
func presentFact(l mirrors.Location, state registries.Behaviour) policy.Fact {
	name := imageName(l.Ref)
	if state != registries.Honest {
		name = indexName(l.Ref)
	}
	digest, err := digestOf(name)
	if err != nil {
		panic(err) // the generator of images takes any name
	}
	f := policy.Fact{Presence: policy.Present, Digest: digest, MediaType: "application/vnd.docker.distribution.manifest.v2+json"}
	if state == registries.Honest {
		if l.Depth >= mirrors.DepthManifest {
			f.Serves, f.Lacks = nodePlatforms[:1], nodePlatforms[1:]
			f.Size = int64(len("layer of " + name)) // see test/registries
		}
		return f
	}
	f.Serves = nodePlatforms
	f.MediaType = "application/vnd.oci.image.index.v1+json"
	for _, arch := range []string{"amd64", "arm64"} {
		child, err := digestOf(strings.TrimSuffix(name, "-index") + "-" + arch)
		if err != nil {
			panic(err)
		}
		f.Children = append(f.Children, child)
		if state != Sparse || arch == "amd64" {
			f.Instances = append(f.Instances, policy.Instance{Platform: "linux/" + arch, Digest: child})
		}
	}
	if state == Sparse {
		f.Serves, f.Missing = nodePlatforms[:1], nodePlatforms[1:]
	}
	return f
}

// indexFact is what a prober learns about an index that states its platforms.
func indexFact(l mirrors.Location, state registries.Behaviour) policy.Fact {
	lists, held := platformsOf(state)
	if len(lists) == 0 {
		host, _, _ := strings.Cut(l.Ref, "/")
		return policy.Fact{Presence: policy.Mismatch, Detail: host + " serves an index that lists no images; nodes would stop there"}
	}
	index, err := registries.IndexOf("tag", lists...)
	if err != nil {
		panic(err) // it takes any platforms
	}
	digest, err := index.Digest()
	if err != nil {
		panic(err) // it has just made it
	}
	f := policy.Fact{Presence: policy.Present, Digest: digest.String(), MediaType: "application/vnd.oci.image.index.v1+json", Serves: []string{}}
	for _, p := range nodePlatforms {
		choice := p
		if !slices.Contains(lists, choice) {
			choice = "any"
		}
		name := strings.ReplaceAll(choice, "any", "an unnamed platform")
		switch {
		case !slices.Contains(lists, choice):
			f.Lacks = append(f.Lacks, p)
		case held[choice]:
			f.Serves = append(f.Serves, p)
		case !slices.Contains(f.Missing, name):
			f.Missing = append(f.Missing, name)
		}
	}
	return f
}

// hollowFact is what a prober learns about an image that has lost its config and layer.
func hollowFact(l mirrors.Location) policy.Fact {
	img, err := registries.Image(imageName(l.Ref))
	if err != nil {
		panic(err) // it takes any name
	}
	manifest, err := img.Manifest()
	if err != nil {
		panic(err) // it has just made it
	}
	config, layer := manifest.Config.Digest.String(), manifest.Layers[0].Digest.String()
	lack := fmt.Sprintf("its config (%s)", config[:len("sha256:")+12])
	if l.Depth == mirrors.DepthBlobs {
		lack = fmt.Sprintf("2 of the 2 blobs that it names (%s and others)", min(config, layer)[:len("sha256:")+12])
	}
	host, _, _ := strings.Cut(l.Ref, "/")
	return policy.Fact{Presence: policy.Incomplete, Detail: fmt.Sprintf("%s serves the manifest and lacks %s; nodes would stop there", host, lack)}
}

// dump returns the story's cluster but for its images.
func (s *Scenario) dump(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	dump, err := snapshot.ReadFrom(strings.NewReader(strings.Join(append([]string{s.nodes()}, s.Objects...), "\n---\n")), s.Name)
	if err != nil {
		t.Fatal(err)
	}
	return dump
}
