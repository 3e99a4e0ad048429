package scenarios

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

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

// A world is a house and a control plane with the guard behind it. Its stories are told one after the other.
type world struct {
	*house
	trust   *trust.Follower
	cluster *cluster.Cluster
	images  *live.Inventory
	guard   atomic.Pointer[http.ServeMux]
	stage   *stage
	store   *presence.Store
}

// TestLive tells some stories by kubectl to a real API server, so that each rule and each kind of
// object is in one of them, and what cannot be told elsewhere. With ALL_STORIES it tells all of them.
func TestLive(t *testing.T) {
	all, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	chosen := sample(t, all)
	if os.Getenv("ALL_STORIES") != "" {
		chosen = all
	}
	for _, s := range chosen {
		if !s.Sendable() {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			if fields, invalid := s.Invalid(); invalid {
				testInvalid(t, &s, fields, refuser{"apiserver", w.refusalByAPIServer})
				return
			}
			w.arrange(t, &s)
			testDoors(t, &s, door{"snapshot", w.askSnapshot}, door{"apiserver", w.askAPIServer})
		})
	}
	t.Run("snapshot", func(t *testing.T) { testSnapshotCommand(t, w, all) })
	t.Run("narrowed", func(t *testing.T) { testNarrowed(t, w) })
	t.Run("steps", func(t *testing.T) { testSteps(t, w) })
	t.Run("at once", func(t *testing.T) { testAtOnce(t, w) })
	t.Run("finalizers", func(t *testing.T) { testFinalizers(t, w) })
	t.Run("apply times", func(t *testing.T) { testApplyTimes(t, w) })
}

// sample returns the first stories that show something which no story before them shows: a rule, a kind of
// object, deleting, finalizers, an exemption.
func sample(t *testing.T, all []Scenario) []Scenario {
	t.Helper()
	seen := map[string]bool{}
	var chosen []Scenario
	for _, s := range all {
		found := false
		for _, what := range s.shows(t) {
			found = found || !seen[what]
			seen[what] = true
		}
		if found {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

var kindOf = regexp.MustCompile(`(?m)^kind: (\w+)$`)

// shows returns what a story is about: rules that its answer names, kinds of its change, and how it is made.
func (s *Scenario) shows(t *testing.T) []string {
	t.Helper()
	all := []string{fmt.Sprint("deletes ", s.Delete), fmt.Sprint("finalizes ", s.Finalize), fmt.Sprint("somebody ", s.As.User != ""), fmt.Sprint("configured ", s.Guard != "")}
	if _, invalid := s.Invalid(); invalid {
		return []string{"invalid"}
	}
	for _, m := range kindOf.FindAllStringSubmatch(strings.Join(s.Change, "\n"), -1) {
		all = append(all, "kind "+m[1])
	}
	for _, f := range decide(t, s).Verdict.Findings {
		all = append(all, fmt.Sprint(f.Rule, " ", f.Severity))
	}
	return all
}

func newWorld(t *testing.T) *world {
	w := &world{house: newHouse(t)}
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

// noStory is the Reviewer between stories.
func noStory(context.Context, mirrors.Edit) (review.Record, error) {
	return review.Record{}, errors.New("no story is on")
}

// arrange sets up the registries and the cluster as the story says.
func (w *world) arrange(t *testing.T, s *Scenario) {
	w.stock(t, s)
	w.store = w.newStore(t, s)
	w.guard.Store(newMux(t, w.reviewer(s, w.images)))
	w.populate(t, s)
}

// reviewer returns one with the settings of the story.
func (w *world) reviewer(s *Scenario, inventory review.Inventory) *review.Reviewer {
	return &review.Reviewer{Inventory: inventory, Registries: w.store, Trust: liveTrust{w.trust, w.store}, Settings: s.Settings}
}

func (w *world) newStore(t *testing.T, s *Scenario) *presence.Store {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.front.CA)
	credentials, err := pullsecret.Parse(pullSecret())
	if err != nil {
		t.Fatal(err)
	}
	client := registry.NewClient(wire.Options{
		Credentials: credentials, RootCAs: pool, HostRootCAs: w.trust.HostRootCAs(w.casInForce(t, s)), Resolve: w.resolve(s),
		Timeout: maxWait, DialTimeout: maxWait, // no registry of a story is silent
	}, func() []string { return []string{"linux/amd64", "linux/arm64"} })
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
	objects := slices.Concat(w.bundles(s), workloads, configuration)
	t.Cleanup(func() { w.stage.delete(context.WithoutCancel(t.Context()), t, slices.Concat(objects, s.Change), true) })
	all := slices.Concat(convert.Each(s.Namespaces(), namespace), objects)
	w.stage.apply(t, convert.Each(all, func(document string) string { return deletion.ReplaceAllString(document, "") }))
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
	w.waitForExposed(t, s)
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

// waitForExposed waits until what leads to the cluster is what the story says.
func (w *world) waitForExposed(t *testing.T, s *Scenario) {
	t.Helper()
	want := s.dump(t).Exposed()
	deadline := time.Now().Add(maxWait)
	for {
		got, unread := w.images.Exposed(), w.images.ExposedUnread()
		if len(unread) == 0 && cmp.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v and not %v, without %q", got, want, unread)
		}
		time.Sleep(5 * time.Millisecond) // as below
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
		conditions += len(n.Status.Conditions) + strings.Count(fmt.Sprint(n.Spec.Taints), "node.kubernetes.io/not-ready")
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
// by what is being deleted have never run.
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
			if u.NeverRan {
				set[img.Ref+" never ran"] = true
			}
		}
	}
	return set
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
