package scenarios

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

var update = flag.Bool("update", false, "write what the pure policy says into the stories")

// A door is a way to ask for a review.
type door struct {
	name string
	ask  func(*testing.T, *Scenario) Answer
}

// TestScenarios tells every story at every door. The registries are real, except for
// the pure policy, which is given what the story says about them, and is the only door in
// a run with -short.
func TestScenarios(t *testing.T) {
	all, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		for _, s := range all {
			if _, invalid := s.Invalid(); invalid {
				continue
			}
			writeWant(t, &s, askPolicy(t, &s).String())
		}
		return
	}
	if testing.Short() {
		testPolicyAlone(t, all)
		return
	}
	w := newWorld(t)
	doors := []door{{"policy", askPolicy}, {"check", w.askCheck}, {"webhook", w.askWebhook}, {"snapshot", w.askSnapshot}, {"apiserver", w.askAPIServer}}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			if fields, invalid := s.Invalid(); invalid {
				testInvalid(t, w, &s, fields)
				return
			}
			w.arrange(t, &s)
			for _, d := range doors {
				t.Run(d.name, func(t *testing.T) {
					if got := d.ask(t, &s).String(); got != s.Want {
						t.Errorf("got:\n%s\nwant:\n%s", got, s.Want)
					}
				})
			}
		})
	}
	t.Run("snapshot", func(t *testing.T) { testSnapshotCommand(t, w, all) })
	t.Run("narrowed", func(t *testing.T) { testNarrowed(t, w) })
	t.Run("steps", func(t *testing.T) { testSteps(t, w) })
	t.Run("at once", func(t *testing.T) { testAtOnce(t, w) })
	t.Run("finalizers", func(t *testing.T) { testFinalizers(t, w) })
	t.Run("apply times", func(t *testing.T) { testApplyTimes(t, w) })
}

func testPolicyAlone(t *testing.T, all []Scenario) {
	for _, s := range all {
		if _, invalid := s.Invalid(); invalid {
			continue // what an API server refuses never gets to the policy
		}
		t.Run(s.Name, func(t *testing.T) {
			if got := askPolicy(t, &s).String(); got != s.Want {
				t.Errorf("got:\n%s\nwant:\n%s", got, s.Want)
			}
		})
	}
}

func writeWant(t *testing.T, s *Scenario, got string) {
	t.Helper()
	path := filepath.Join("testdata", s.Name+".txtar")
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
	got = Unfill(got, names)
	archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
	if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// nodePlatforms are the nodes' platforms in every story.
var nodePlatforms = []string{"linux/amd64", "linux/arm64"}

// A told story is one with what its change and its cluster are.
type told struct {
	*Scenario
	edit   mirrors.Edit
	change policy.Change
	known  policy.Cluster // without what a rollout goes through
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
	return &told{s, edit, policy.Change{Before: set, After: after}, policy.Cluster{
		Images: policy.NewImages(s.Images...), Nodes: dump.Nodes(), EndingNamespaces: dump.EndingNamespaces(), InForce: mirrors.NewTables(set), Current: currentIn(t, dump),
	}, dump}
}

// currentIn returns what nodes have, as far as the dump has it.
func currentIn(t *testing.T, dump *snapshot.Snapshot) []policy.CurrentConfig {
	var all []policy.CurrentConfig
	for _, c := range dump.Rollout().CurrentConfigs() {
		current := policy.CurrentConfig{CurrentConfig: c}
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
	record := decide(t, scenario)
	return Answer{record.Verdict.Allowed, record.Denial(), record.Warnings()}
}

// decide has the pure policy judge a story.
func decide(t *testing.T, scenario *Scenario) review.Record {
	s := tell(t, scenario)
	known, through := s.known, s.dump.Rollout()
	known.Rollout = &through
	plan := policy.NewPlan(s.change, known, s.Settings.For(s.As))
	facts := policy.Facts{}
	lookUp := func(lookups []mirrors.Location) {
		for _, l := range lookups {
			facts[l] = s.at(l)
		}
	}
	for lookups := plan.Lookups(facts); len(lookups) > 0; lookups = plan.Lookups(facts) {
		lookUp(lookups)
	}
	record := review.Record{Subject: s.edit.Subject(), Plan: plan, Facts: facts}
	for {
		record.Forecast = plan.Forecast(facts, policy.Forecaster{Now: time.Now()})
		if record.Forecast == nil || len(record.Forecast.Lookups(facts)) == 0 {
			break
		}
		for lookups := record.Forecast.Lookups(facts); len(lookups) > 0; lookups = record.Forecast.Lookups(facts) {
			lookUp(lookups)
		}
	}
	record.Verdict = plan.WithForecast(plan.Decide(facts), record.Forecast)
	return record
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

// factAs is fact for nodes that trust what a ConfigMap of openshift-config holds.
func (s *Scenario) factAs(l mirrors.Location, trusted string) policy.Fact {
	f := s.factBy(l, trusted)
	f.AsNodes = true
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

// bundles are the ConfigMaps of CAs, as YAML documents.
func (w *world) bundles(s *Scenario) []string {
	var docs []string
	for name := range s.CAs {
		cm := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: trust.BundlesNamespace, Name: name}, Data: map[string]string{}}
		for _, host := range s.CAs[name] {
			cm.Data[strings.ReplaceAll(host, ":", "..")] = string(w.front.PrivateCA)
		}
		data, err := yaml.Marshal(cm)
		if err != nil {
			panic(err) // there are only strings in it
		}
		docs = append(docs, string(data))
	}
	return docs
}

// A liveTrust reads ConfigMaps of CAs from the control plane.
type liveTrust struct {
	*trust.Follower
	store *presence.Store
}

// Propose implements review.Trust.
func (l liveTrust) Propose(cas map[string]string) (review.Registries, func()) {
	proposal := l.store.Proposed(l.HostRootCAs(cas))
	return proposal, proposal.Close
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
	case state == registries.Forgotten && l.Depth == mirrors.DepthExists, state == registries.HeadFails:
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

// A world holds what the doors share: registries, a control plane with the guard
// behind it, and the command.
type world struct {
	front   *registries.Front
	caFile  string
	binary  string
	trust   *trust.Follower
	cluster *cluster.Cluster
	images  *live.Inventory
	guard   atomic.Pointer[http.ServeMux]
	stage   *stage

	pushed map[string]bool
	store  *presence.Store
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	front := registries.Start(t, dir)
	w := &world{front: front, caFile: filepath.Join(dir, "ca.crt"), binary: filepath.Join(dir, "mirrorset-guard"), pushed: map[string]bool{}}
	if err := os.WriteFile(w.caFile, front.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cluster.BuildRelease(w.binary); err != nil { // at other doors, it is in this process
		t.Fatal(err)
	}
	w.startCluster(t)
	return w
}

// startCluster starts a control plane, the inventory that follows it, and the
// webhook that the manifests register. Only requests of the stories are
// reviewed: what sets a story up comes from another user.
func (w *world) startCluster(t *testing.T) {
	var err error
	w.cluster = cluster.New(t)
	if err := cluster.InstallCRDs(w.cluster.Config, envtest.CRDInstallOptions{CRDs: addOns()}); err != nil {
		t.Fatal(err)
	}
	if w.images, err = live.New(w.cluster.Config, live.Options{SurveyEvery: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	go w.images.Run(t.Context()) //nolint:errcheck // the test would not get ready
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.front.CA)
	if w.trust, err = trust.Follow(w.cluster.Config, trust.Options{Roots: roots}); err != nil {
		t.Fatal(err)
	}
	go w.trust.Run(t.Context()) //nolint:errcheck // as above
	w.stage = newStage(t, w.cluster.Config)
	w.stage.apply(t, []string{namespace(trust.BundlesNamespace)})
	if err := w.images.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.guard.Store(newMux(t, webhook.ReviewerFunc(noStory)))
	server := httptest.NewTLSServer(w)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config, err := guard.Webhooks(server.URL, ca)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	guarded := strings.ReplaceAll(string(text), "  sideEffects:", "  matchConditions:\n  - name: not-the-stage-hand\n    expression: request.userInfo.username != '"+stageHand+"'\n  sideEffects:")
	w.stage.apply(t, []string{guarded})
	w.waitForWebhook(t)
}

func namespace(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
}

// maxWait is how long a test waits for what must happen soon.
const maxWait = 2 * time.Minute

// waitForWebhook waits until the API server asks the guard: with no Reviewer in
// place, it refuses everything.
func (w *world) waitForWebhook(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	defer cancel()
	probe := "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: probe}\nspec: {imageTagMirrors: [{source: quay.io}]}"
	for ctx.Err() == nil {
		out, err := w.cluster.Kubectl(ctx, probe, "create", "--dry-run=server", "-f", "-")
		if err != nil && strings.Contains(out, "no story is on") {
			return
		}
	}
	t.Fatal("the API server does not ask the guard")
}

// ServeHTTP asks the guard of the current story.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) { w.guard.Load().ServeHTTP(rw, r) }

func newMux(t *testing.T, reviewer webhook.Reviewer) *http.ServeMux {
	t.Helper()
	mux, err := webhook.NewServeMux(webhook.Options{Reviewer: reviewer})
	if err != nil {
		t.Fatal(err)
	}
	return mux
}

// noStory is the Reviewer between stories.
func noStory(context.Context, mirrors.Edit) (review.Record, error) {
	return review.Record{}, errors.New("no story is on")
}

// arrange sets up the registries and the cluster as the story says.
func (w *world) arrange(t *testing.T, s *Scenario) {
	w.front.Reset()
	for key, state := range s.States {
		switch state {
		case registries.Honest:
			w.push(t, key)
		case registries.HeadFails, registries.Forgotten:
			w.push(t, key)
			w.front.Set(key, state)
		case registries.Hollow:
			w.push(t, key)
			w.front.Set(repositoryOf(key), state)
		case Index, Sparse:
			w.pushIndex(t, key, state)
		default:
			if isIndexOf(state) {
				w.pushIndexOf(t, key, state)
			} else {
				w.front.Set(key, state)
			}
		}
	}
	for _, signed := range s.Signed {
		w.sign(t, s, signed)
	}
	for ref := range w.pushed {
		host, _, _ := strings.Cut(ref, "/")
		if s.States[ref] == "" && s.States[host] == "" && !w.front.IsSet(ref) { // left over from another story
			w.front.Set(ref, registries.Absent)
		}
	}
	w.store = w.newStore(t, s)
	w.guard.Store(newMux(t, w.reviewer(s, w.images)))
	w.populate(t, s)
}

// sign pushes the signatures of an image, or has the registry answer otherwise where nodes look
// for them.
func (w *world) sign(t *testing.T, s *Scenario, signed Signed) {
	t.Helper()
	for _, digest := range s.instances(signed.Ref) {
		ref := repositoryOf(signed.Ref) + ":" + signer.Tag(digest)
		if signed.State != registries.Honest {
			w.front.Set(ref, signed.State)
			continue
		}
		var all []signing.Signature
		for _, other := range s.Signed {
			if other.State == registries.Honest && repositoryOf(other.Ref) == repositoryOf(signed.Ref) && slices.Contains(s.instances(other.Ref), digest) {
				all = append(all, other.Key.Sign(other.As, digest))
			}
		}
		if err := w.front.PushSignatures(ref, all...); err != nil {
			t.Fatal(err)
		}
		w.front.Set(ref, registries.Honest)
		w.pushed[ref] = true
	}
}

// reviewer returns one with the settings of the story.
func (w *world) reviewer(s *Scenario, inventory review.Inventory) *review.Reviewer {
	return &review.Reviewer{Inventory: inventory, Registries: w.store, Trust: liveTrust{w.trust, w.store}, Settings: s.Settings}
}

func (w *world) push(t *testing.T, ref string) {
	t.Helper()
	img, err := registries.Image(imageName(ref))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.front.Push(ref, img); err != nil {
		t.Fatal(err)
	}
	w.pushed[ref] = true
}

// pushIndex pushes an index with its two parts, and hides one to make it sparse.
func (w *world) pushIndex(t *testing.T, ref string, state registries.Behaviour) {
	t.Helper()
	index, err := registries.Index(strings.TrimSuffix(indexName(ref), "-index"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.front.PushIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	w.pushed[ref] = true
	if state == Sparse {
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		w.front.Set(repositoryOf(ref)+"@"+manifest.Manifests[1].Digest.String(), registries.Absent)
	}
}

// pushIndexOf pushes an index that states its platforms, and hides the parts not held.
func (w *world) pushIndexOf(t *testing.T, ref string, state registries.Behaviour) {
	t.Helper()
	lists, held := platformsOf(state)
	index, err := registries.IndexOf("tag", lists...)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.front.PushIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	w.pushed[ref] = true
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, platform := range lists {
		if !held[platform] {
			w.front.Set(repositoryOf(ref)+"@"+manifest.Manifests[i].Digest.String(), registries.Absent)
		}
	}
}

func (w *world) newStore(t *testing.T, s *Scenario) *presence.Store {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.front.CA)
	credentials, err := registry.ParseCredentials(pullSecret())
	if err != nil {
		t.Fatal(err)
	}
	client := registry.NewClient(registry.Options{
		Credentials: credentials, RootCAs: pool, HostRootCAs: w.trust.HostRootCAs(w.casInForce(t, s)), Resolve: w.resolve(s), Platforms: func() []string { return []string{"linux/amd64", "linux/arm64"} },
		Timeout: maxWait, DialTimeout: maxWait, // no registry of a story is silent
	})
	store := presence.NewStore(client, presence.Options{
		Lifetimes: presence.Lifetimes{Absent: time.Hour}, // a story has a store of its own
		Propose:   func(hostRoots map[string]*x509.CertPool) presence.ProposedProber { return client.Propose(hostRoots) },
	})
	t.Cleanup(func() {
		store.Close()
		client.Close()
	})
	return store
}

// casInForce returns the certificates that nodes trust for individual hosts.
func (w *world) casInForce(t *testing.T, s *Scenario) map[string]string {
	set, err := s.Set()
	if err != nil {
		t.Fatal(err)
	}
	cas := s.casIn(set.TrustedCA)
	for host := range cas {
		cas[host] = string(w.front.PrivateCA)
	}
	return cas
}

// pullSecret is the global one of every story. It has an entry for moved.example.com.
func pullSecret() []byte {
	entry := func(user, password string) string {
		return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	}
	return fmt.Appendf(nil, `{"auths":{"unrelated.example.com":{"auth":%q},"moved.example.com":{"auth":%q}}}`,
		entry("u", "p"), entry(registries.User, registries.Password))
}

func (w *world) resolve(s *Scenario) map[string]string {
	resolve := map[string]string{}
	for _, host := range s.Hosts() {
		resolve[apiHost(host)] = w.front.Addr(host)
	}
	return resolve
}

// populate creates the story's objects in the cluster, deletes them when the story is
// over, and waits until the inventory has seen them.
func (w *world) populate(t *testing.T, s *Scenario) {
	workloads, err := s.Workloads()
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := s.Configuration()
	if err != nil {
		t.Fatal(err)
	}
	var namespaces []string
	for _, ns := range s.Namespaces() {
		namespaces = append(namespaces, namespace(ns))
	}
	objects := slices.Concat(w.bundles(s), workloads, configuration)
	t.Cleanup(func() { w.stage.delete(context.WithoutCancel(t.Context()), t, slices.Concat(objects, s.Change), true) })
	var all []string
	for _, document := range slices.Concat(namespaces, objects) {
		all = append(all, deletion.ReplaceAllString(document, ""))
	}
	w.stage.apply(t, all)
	if object, status := s.Version(); s.Payload != "" {
		w.stage.patch(t.Context(), t, []string{object}, status, "status")
	}
	if s.Finalize {
		w.markDeleted(t, s)
	}
	w.beginDeletions(t, s)
	w.reportRunning(t, s)
	w.reportStatus(t, s)
	w.waitForImages(t, s)
	w.waitForRollout(t, s)
	w.waitForTrust(t, s)
}

// deletion is what nobody can apply.
var deletion = regexp.MustCompile(`, deletionTimestamp: "[^"]*"`)

// beginDeletions deletes what is being deleted in the story. Finalizers hold it.
func (w *world) beginDeletions(t *testing.T, s *Scenario) {
	t.Helper()
	for _, document := range strings.Split(strings.Join(s.Objects, "\n---\n"), "\n---\n") {
		var o metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			continue
		}
		if o.DeletionTimestamp != nil {
			w.stage.delete(t.Context(), t, []string{document}, false)
		}
		if len(o.Finalizers) > 0 { // a namespace has one of its own
			t.Cleanup(func() { w.stage.release(context.WithoutCancel(t.Context()), t, []string{document}) })
		}
	}
}

// waitForTrust waits until it is known which CAs nodes trust now.
func (w *world) waitForTrust(t *testing.T, s *Scenario) {
	t.Helper()
	set, err := s.Set()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(maxWait)
	for len(w.trust.Settings().CAs(set.TrustedCA)) != len(s.CAs[set.TrustedCA]) {
		if time.Now().After(deadline) {
			t.Fatalf("ConfigMap %s of CAs is not known", set.TrustedCA)
		}
		time.Sleep(5 * time.Millisecond) // as below
	}
}

// reportStatus writes the status of the story's objects, which apply leaves out.
func (w *world) reportStatus(t *testing.T, s *Scenario) {
	t.Helper()
	for _, document := range strings.Split(strings.Join(s.Objects, "\n---\n"), "\n---\n") {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil || o.Object["status"] == nil || !slices.Contains(reported, o.GetKind()) {
			continue
		}
		status, err := json.Marshal(map[string]any{"status": o.Object["status"]})
		if err != nil {
			t.Fatal(err)
		}
		w.stage.patch(t.Context(), t, []string{document}, string(status), "status")
		if o.GetKind() == "Node" { // an API server taints new nodes until a controller finds them ready
			w.stage.patch(t.Context(), t, []string{document}, `{"spec":{"taints":null}}`)
		}
	}
}

// reported are the kinds that a story may give a status.
var reported = []string{"Pod", "Node", "MachineConfigPool", "PodDisruptionBudget", "ClusterOperator", "ReplicaSet"}

// waitForRollout waits until the inventory knows what a rollout would go through.
func (w *world) waitForRollout(t *testing.T, s *Scenario) {
	t.Helper()
	if !s.hasNodes() {
		return
	}
	want, deadline := s.dump(t).Rollout(), time.Now().Add(maxWait)
	for {
		got := w.images.Rollout()
		if summary(got) == summary(want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the inventory knows of %s, want %s", summary(got), summary(want))
		}
		time.Sleep(5 * time.Millisecond) // as above
	}
}

// summary says how many objects there are, and in which state.
func summary(c rollout.Cluster) string {
	ready, images, conditions := 0, 0, 0
	for _, p := range c.Pods {
		if p.Ready {
			ready++
		}
	}
	for _, n := range c.Nodes {
		images += len(n.Status.Images)
		conditions += len(n.Status.Conditions)
	}
	for _, p := range c.Pools {
		conditions += len(p.Status.Conditions)
	}
	return fmt.Sprintf("%d nodes, %d pools, %d budgets, %d pods, %d of them ready, %d controllers, %d images on nodes, %d conditions",
		len(c.Nodes), len(c.Pools), len(c.Budgets), len(c.Pods), ready, len(c.Controllers), images, conditions)
}

// reportRunning writes the status of pods as a node would, since apply leaves it out.
func (w *world) reportRunning(t *testing.T, s *Scenario) {
	t.Helper()
	for _, img := range s.Images {
		for _, u := range img.Consumers {
			if u.Digest == "" {
				continue
			}
			status, err := json.Marshal(map[string]any{"status": podStatus(img.Ref, u)})
			if err != nil {
				t.Fatal(err)
			}
			pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + u.Name + ", namespace: " + u.Namespace + "}\n"
			w.stage.patch(t.Context(), t, []string{pod}, string(status), "status")
		}
	}
}

func (w *world) waitForImages(t *testing.T, s *Scenario) {
	t.Helper()
	want, ending := digests(s.Images), s.dump(t).EndingNamespaces()
	deadline := time.Now().Add(maxWait)
	for {
		images, err := w.images.Images(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := digests(images.ByReference())
		set, err := w.images.Mirrors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if maps.Equal(got, want) && len(set.Files) == len(s.Files) && isPart(ending, w.images.EndingNamespaces()) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the inventory holds %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		time.Sleep(5 * time.Millisecond) // the inventory has no event for "as expected"
	}
}

// isPart reports whether all has what part has: a namespace goes on ending after its story.
func isPart(part, all map[string]bool) bool {
	for name := range part {
		if !all[name] {
			return false
		}
	}
	return true
}

// digests returns the references of images, each with the digest that runs, and those that are named
// by what is being deleted or never got its image.
func digests(images []policy.Image) map[string]bool {
	set := map[string]bool{}
	for _, img := range images {
		set[img.Ref] = true
		for _, u := range img.Consumers {
			if u.Digest != "" {
				set[img.Ref+" runs "+u.Digest] = true
			}
			if u.Ending {
				set[img.Ref+" ends"] = true
			}
			if u.PullFails {
				set[img.Ref+" fails"] = true
			}
		}
	}
	return set
}

// askCheck runs the command against a dump of the story's cluster.
func (w *world) askCheck(t *testing.T, s *Scenario) Answer {
	dir := t.TempDir()
	change := filepath.Join(dir, "change.yaml")
	if err := os.WriteFile(change, []byte(strings.Join(s.Change, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"check", "-f", change, "--from", w.dump(t, s, dir), "-o", "json", "--registry-ca", w.caFile}
	for host, addr := range w.resolve(s) {
		args = append(args, "--resolve", host+"="+addr)
	}
	if s.Delete {
		args = append(args, "--delete")
	}
	args = append(args, s.guardFlags(t, dir)...)
	cmd := exec.CommandContext(t.Context(), w.binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var doc v1alpha1.Review
	if jsonErr := json.Unmarshal(stdout.Bytes(), &doc); jsonErr != nil {
		t.Fatalf("check: %v, %v\n%s%s", err, jsonErr, stdout.Bytes(), stderr.Bytes())
	}
	if want := map[bool]int{true: 0, false: 1}[doc.Allowed]; cmd.ProcessState.ExitCode() != want {
		t.Errorf("exit code %d, want %d", cmd.ProcessState.ExitCode(), want)
	}
	return Answer{doc.Allowed, doc.Message, doc.Warnings}
}

// guardFlags returns the flags by which a command judges as the story's guard does.
func (s *Scenario) guardFlags(t *testing.T, dir string) []string {
	t.Helper()
	flags := s.asFlags("for-user", "for-group")
	if s.Guard == "" {
		return flags
	}
	file := filepath.Join(dir, "guard.yaml")
	if err := os.WriteFile(file, []byte(s.Guard), 0o600); err != nil {
		t.Fatal(err)
	}
	return append(flags, "--config", file)
}

// asFlags returns flags with these names that name who makes the change.
func (s *Scenario) asFlags(user, group string) []string {
	if s.As.User == "" {
		return nil
	}
	flags := []string{"--" + user + "=" + s.As.User}
	for _, name := range s.As.Groups {
		flags = append(flags, "--"+group+"="+name)
	}
	return flags
}

func (w *world) dump(t *testing.T, s *Scenario, dir string) string {
	t.Helper()
	workloads, err := s.Workloads()
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := s.Configuration()
	if err != nil {
		t.Fatal(err)
	}
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {namespace: openshift-config, name: pull-secret}\ntype: kubernetes.io/dockerconfigjson\ndata: {.dockerconfigjson: " +
		base64.StdEncoding.EncodeToString(pullSecret()) + "}\n"
	path := filepath.Join(dir, "dump.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(slices.Concat([]string{secret, s.nodes()}, w.bundles(s), s.Accounts(), workloads, configuration), "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// nodes returns the nodes of the story, unless it has its own. As of an API server, it is known which
// budgets and quotas there are.
func (s *Scenario) nodes() string {
	const lists = "apiVersion: policy/v1\nkind: PodDisruptionBudgetList\nitems: []\n---\napiVersion: v1\nkind: ResourceQuotaList\nitems: []\n"
	if s.hasNodes() {
		return lists
	}
	return lists + "---\n" + someNodes
}

func (s *Scenario) hasNodes() bool {
	return slices.ContainsFunc(s.Objects, func(o string) bool { return strings.Contains(o, "kind: Node\n") })
}

// someNodes are of both architectures, and of no pool.
const someNodes = `apiVersion: v1
kind: Node
metadata: {name: worker-0, labels: {kubernetes.io/arch: amd64, kubernetes.io/os: linux}}
status: {nodeInfo: {architecture: amd64}}
---
apiVersion: v1
kind: Node
metadata: {name: worker-1, labels: {kubernetes.io/arch: arm64, kubernetes.io/os: linux}}
status: {nodeInfo: {architecture: arm64}}
`

// askWebhook posts a review over HTTPS, as the API server would.
func (w *world) askWebhook(t *testing.T, s *Scenario) Answer {
	dump, err := snapshot.Read(w.dump(t, s, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(newMux(t, w.reviewer(s, dump)))
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).TLSClientConfig.MinVersion = tls.VersionTLS12
	resp, err := client.Post(server.URL+webhook.Path+"?timeout=30s", "application/json", bytes.NewReader(admissionReview(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got admissionv1.AdmissionReview
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.Response == nil {
		t.Fatalf("status %s: %v", resp.Status, err)
	}
	a := Answer{Allowed: got.Response.Allowed, Warnings: got.Response.Warnings}
	if got.Response.Result != nil {
		a.Message = got.Response.Result.Message
	}
	return a
}

func admissionReview(t *testing.T, s *Scenario) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(s.objects()[0]))
	if err != nil {
		t.Fatal(err)
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	gvk := object.GroupVersionKind()
	req := &admissionv1.AdmissionRequest{
		UID: "1", UserInfo: authenticationv1.UserInfo{Username: s.As.User, Groups: s.As.Groups}, Namespace: object.Namespace, Name: object.Name, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
		Kind: metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind},
	}
	if s.Delete {
		req.Operation, req.Object, req.OldObject = admissionv1.Delete, runtime.RawExtension{}, req.Object
	}
	if s.Finalize {
		req.Operation, req.Object, req.OldObject = admissionv1.Update, req.OldObject, underDeletion(t, raw)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: req,
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// finalizer is the finalizer that a story removes from its objects.
const finalizer = "example.com/held"

// underDeletion returns an object, as JSON, after its deletion was asked for.
func underDeletion(t *testing.T, raw []byte) runtime.RawExtension {
	t.Helper()
	var o unstructured.Unstructured
	if err := json.Unmarshal(raw, &o.Object); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	o.SetFinalizers([]string{finalizer})
	o.SetDeletionTimestamp(&now)
	o.SetDeletionGracePeriodSeconds(new(int64(0)))
	data, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: data}
}

// The patches of an object's finalizers.
const (
	holds    = `{"metadata": {"finalizers": ["` + finalizer + `"]}}`
	releases = `{"metadata": {"finalizers": null}}`
)

// markDeleted deletes the story's objects, which a finalizer holds.
func (w *world) markDeleted(t *testing.T, s *Scenario) {
	t.Helper()
	w.stage.patch(t.Context(), t, s.Change, holds)
	w.stage.delete(t.Context(), t, s.Change, false)
	// unless the story did, so that nothing interferes with the next one
	t.Cleanup(func() { w.stage.release(context.WithoutCancel(t.Context()), t, s.Change) })
}

// refusal is what kubectl and the API server put before the guard's message.
var refusal = regexp.MustCompile(`(?s)^(?:Error from server \(Forbidden\): )?.*admission webhook "[^"]+" denied the request: `)

// askAPIServer types kubectl.
func (w *world) askAPIServer(t *testing.T, s *Scenario) Answer {
	args := []string{"apply", "-f", "-"}
	if s.Delete {
		args = []string{"delete", "--wait=false", "-f", "-"}
	}
	if s.Finalize {
		args = []string{"patch", "--type=merge", "-p", releases, "-f", "-"}
	}
	if s.As.User != "" { // who has the rights of the group, whatever the story's groups are
		args = append(args, append(s.asFlags("as", "as-group"), "--as-group=system:masters")...)
	}
	out, err := w.cluster.Kubectl(t.Context(), strings.Join(s.Change, "\n---\n"), args...)
	a := Answer{Allowed: err == nil}
	var rest []string
	for line := range strings.Lines(out) {
		if text, ok := strings.CutPrefix(line, "Warning: "); ok {
			a.Warnings = append(a.Warnings, strings.TrimSpace(text))
		} else {
			rest = append(rest, line)
		}
	}
	if !a.Allowed {
		text := strings.Join(rest, "")
		if !refusal.MatchString(text) {
			t.Fatalf("kubectl failed for another reason: %s", out)
		}
		a.Message = refusal.ReplaceAllString(text, "")
	}
	return a
}
