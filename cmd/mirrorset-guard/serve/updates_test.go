package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/review/updates"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	guardtest "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// An updatesStage is a cluster that is offered a release, and guards that look after it.
type updatesStage struct {
	*testrelease.Stage
	cluster realCluster
	kube    kubernetes.Interface
	config  string // file

	mu   sync.Mutex
	read []string // paths of ConfigMaps that guards have read for updates
}

func newUpdatesStage(t *testing.T, setting updates.Setting) *updatesStage {
	t.Helper()
	s := &updatesStage{Stage: testrelease.Mirrored(t, 8), cluster: newCluster(t), config: filepath.Join(t.TempDir(), "config.yaml")}
	s.cluster.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: mirrorset-guard}}`)
	s.cluster.ApplyWithStatus(t, s.Objects(s.Signed))
	s.Without()
	var err error
	if s.kube, err = kubernetes.NewForConfig(s.cluster.Config); err != nil {
		t.Fatal(err)
	}
	s.configure(t, setting)
	return s
}

// configure writes the configuration file, which guards pick up.
func (s *updatesStage) configure(t *testing.T, setting updates.Setting) {
	t.Helper()
	text := clitest.ConfigHeader + "updates: " + string(setting) + "\nfactLifetime: 5s\n"
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start runs a guard until the test ends.
func (s *updatesStage) start(t *testing.T) *guard {
	t.Helper()
	dir := t.TempDir()
	if _, err := certificates.SelfSigned(dir, []string{"127.0.0.1"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	var o serveOptions
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.addFlags(flags)
	if err := flags.Parse([]string{
		"--tls-dir", dir, "--config", s.config, "--allow-loopback", "--webhook-bind-address", guardtest.FreeAddress(t), "--health-probe-bind-address", "127.0.0.1:0",
		"--shutdown-delay", "0s", "--leader-elect", "--verify-every", "200ms",
	}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(s.cluster.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &watched{next, s} })
	g, err := newGuard(config, &o, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return g
}

// watched notes who reads what an update depends on.
type watched struct {
	http.RoundTripper
	stage *updatesStage
}

// RoundTrip implements http.RoundTripper.
func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	about := r.URL.Path + "?" + r.URL.RawQuery
	if strings.Contains(about, "verification-signatures") || strings.Contains(about, "release-verification") || strings.Contains(about, "admin-") {
		w.stage.mu.Lock()
		w.stage.read = append(w.stage.read, about)
		w.stage.mu.Unlock()
	}
	return w.RoundTripper.RoundTrip(r)
}

func (s *updatesStage) reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.read)
}

// mark sets spec.desiredUpdate, as oc does.
func (s *updatesStage) mark(t *testing.T, update string) {
	t.Helper()
	if out, err := s.cluster.Kubectl(t.Context(), "", "patch", "clusterversion", "version", "--type=merge", "-p", `{"spec":{"desiredUpdate":`+update+`}}`); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// events returns those about the ClusterVersion, the latest last.
func (s *updatesStage) events(t *testing.T) []eventsv1.Event {
	t.Helper()
	list, err := s.kube.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Kind != "ClusterVersion" })
	slices.SortFunc(all, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return all
}

// awaitEvents waits for the Events with these reasons, and returns the last one. There must be no others, but on a busy machine
// a registry may be too late, so that nothing was determined for a while.
func (s *updatesStage) awaitEvents(t *testing.T, reasons ...string) eventsv1.Event {
	t.Helper()
	var got []eventsv1.Event
	eventually(t, strings.Join(reasons, ", "), func() bool {
		got = nil
		late := false
		for _, e := range s.events(t) {
			switch {
			case e.Reason == updates.UpdateNotDetermined && !slices.Contains(reasons, e.Reason):
				late = true
			case late && len(got) > 0 && got[len(got)-1].Reason == e.Reason:
				late = false
			default:
				got = append(got, e)
			}
		}
		return len(got) >= len(reasons)
	})
	for i, e := range got {
		if i >= len(reasons) || e.Reason != reasons[i] {
			t.Fatalf("Event %d is %s: %s; want %q", i, e.Reason, e.Note, reasons)
		}
	}
	return got[len(got)-1]
}

// value returns a metric of g, by its labels' values in order; -1 if there is none.
func value(t *testing.T, g *guard, name string, labels ...string) float64 {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "mirrorset_guard_update_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if slices.Equal(values, labels) {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// series counts those about updates.
func series(t *testing.T, g *guard) int {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "mirrorset_guard_update_") {
			n += len(f.GetMetric())
		}
	}
	return n
}

// awaitVerdict waits until g judges a version so.
func awaitVerdict(t *testing.T, g *guard, version, verdict string) *v1alpha1.NextRelease {
	t.Helper()
	var doc *v1alpha1.NextRelease
	eventually(t, version+" is "+verdict, func() bool {
		doc = g.nextRelease()
		return doc != nil && doc.Version == version && doc.Verdict == verdict
	})
	return doc
}

// awaitReason waits until g says why it judges nothing, and has no metrics of it.
func awaitReason(t *testing.T, g *guard, reason string) {
	t.Helper()
	eventually(t, reason, func() bool {
		doc := g.nextRelease()
		return doc != nil && doc.Verdict == "" && strings.Contains(doc.Reason, reason)
	})
	if n := series(t, g); n > 0 {
		t.Errorf("%s: %d series", reason, n)
	}
}

func leaderOf(t *testing.T, guards ...*guard) (leader, other *guard) {
	t.Helper()
	eventually(t, "one verifies", func() bool {
		for i, g := range guards {
			if n := verifying(t, g); n == 1 {
				leader, other = g, guards[(i+1)%len(guards)]
				return true
			}
		}
		return false
	})
	return leader, other
}

func verifying(t *testing.T, g *guard) float64 {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "mirrorset_guard_standing_verifying" })
	return families[i].GetMetric()[0].GetGauge().GetValue()
}

// TestUpdates: the release that spec.desiredUpdate names is judged by one of two replicas, and what the mirror loses of it
// is told once; with the setting off nothing is read.
func TestUpdates(t *testing.T) {
	s := newUpdatesStage(t, updates.Off)
	g, other := leaderOf(t, s.start(t), s.start(t))
	s.mark(t, `{"version":"4.21.3"}`)
	eventually(t, "it is known", func() bool { v := g.cluster.ProgressObjects().Version; return v != nil && v.Spec.DesiredUpdate != nil })
	if doc := g.nextRelease(); doc != nil || series(t, g) > 0 || s.reads() > 0 {
		t.Errorf("off: %+v, %d series, %d reads", doc, series(t, g), s.reads())
	}
	for _, asked := range s.Requests() {
		if strings.Contains(asked, "/openshift/release/") || strings.Contains(asked, "/blobs/") && strings.Contains(asked, s.PartOf("release", "layer").Path) {
			t.Errorf("off: %s", asked)
		}
	}

	s.configure(t, updates.Desired)
	doc := awaitVerdict(t, g, "4.21.3", "READY")
	if doc.Marked != "desired" || doc.Review.Counts.Ready != 9 || doc.Judged == nil {
		t.Errorf("got %+v, %+v", doc, doc.Review.Counts)
	}
	ready := s.awaitEvents(t, updates.UpdateReady)
	if ready.Type != corev1.EventTypeNormal || ready.Regarding.UID == "" || ready.Note != "Release 4.21.3 (chosen by spec.desiredUpdate) is READY: 9 of 9 images can be pulled by all nodes that need them." {
		t.Errorf("got %s %q about %+v", ready.Type, ready.Note, ready.Regarding)
	}
	if a, b, c, d := value(t, g, "state", "desired", "ready"), value(t, g, "info", "4.21.3"), value(t, g, "images", "ready"), value(t, g, "not_ready_rounds", "desired"); a != 1 || b != 1 || c != 9 || d != 0 {
		t.Errorf("ready: %v %v %v %v", a, b, c, d)
	}
	if age := float64(time.Now().Unix()) - value(t, g, "judged_timestamp_seconds"); age > 60 {
		t.Errorf("judged %v s ago", age)
	}
	eventually(t, "the other replica has the configuration", func() bool { return other.nextRelease() != nil })
	if doc := other.nextRelease(); doc.Verdict != "" || !strings.Contains(doc.Reason, "the one that holds Lease mirrorset-guard/mirrorset-guard") || series(t, other) > 0 {
		t.Errorf("the other replica: %+v, %d series", doc, series(t, other))
	}

	layers := func() int {
		n := 0
		for _, asked := range s.Requests() {
			if strings.HasPrefix(asked, "GET ") && strings.HasSuffix(asked, s.PartOf("release", "layer").Path) {
				n++
			}
		}
		return n
	}
	if n := layers(); n > 2 {
		t.Errorf("%d requests for the payload, one of which looks up whether it is there, and one reads it", n)
	}
	s.Without(s.PartOf("component-004", "image").Path)
	doc = awaitVerdict(t, g, "4.21.3", "NOT READY")
	if i := slices.IndexFunc(doc.Review.Images, func(i v1alpha1.ReleaseImage) bool { return i.State != "READY" }); doc.Review.Images[i].Name != "component-004" {
		t.Errorf("got %+v", doc.Review.Images[i])
	}
	missing := s.awaitEvents(t, updates.UpdateReady, updates.UpdateNotReady)
	for _, want := range []string{"Release 4.21.3 (chosen by spec.desiredUpdate) is NOT READY: ", " images can be pulled by all nodes that need them, 1 cannot", " component-004 " + testrelease.PayloadSource + "@", ": NotFullySynced: the source may not be contacted, and no mirror has the image", `"mirrorset-guard check --release desired" shows all`} {
		if missing.Type != corev1.EventTypeWarning || !strings.Contains(missing.Note, want) {
			t.Errorf("no %q in %s %s", want, missing.Type, missing.Note)
		}
	}
	eventually(t, "some rounds have found so", func() bool { return value(t, g, "not_ready_rounds", "desired") > 5 })
	if a, b, c := value(t, g, "state", "desired", "not_ready"), value(t, g, "state", "desired", "ready"), value(t, g, "images", "not_ready"); a != 1 || b != 0 || c != 1 {
		t.Errorf("not ready: %v %v %v", a, b, c)
	}
	s.testShown(t, g)
	if n := layers(); n != 0 {
		t.Errorf("%d more requests for the payload", n)
	}
	s.Without()
	awaitVerdict(t, g, "4.21.3", "READY")
	s.awaitEvents(t, updates.UpdateReady, updates.UpdateNotReady, updates.UpdateReady)

	s.Refuse(http.StatusTooManyRequests)
	eventually(t, "it is unknown while the mirror throttles", func() bool {
		if n := value(t, g, "not_ready_rounds", "desired"); n > 0 {
			t.Fatal("NOT READY, while the mirror gives no answer")
		}
		return g.nextRelease().Verdict == "UNKNOWN"
	})
	s.Refuse(0)
	s.mark(t, "null")
	awaitReason(t, g, "names no release but the one that runs")
	reads := s.reads()
	s.configure(t, updates.Off)
	eventually(t, "it is off", func() bool { return g.nextRelease() == nil && other.nextRelease() == nil })
	if n := series(t, g); n > 0 || s.reads() != reads {
		t.Errorf("off again: %d series, %d reads", n, s.reads()-reads)
	}
}

// testShown: /inventory and /report show what is not ready.
func (s *updatesStage) testShown(t *testing.T, g *guard) {
	t.Helper()
	w := get(http.HandlerFunc(observer{inventory: g.cluster, release: g.nextRelease}.list), "/inventory")
	var inventory v1alpha1.Inventory
	if err := json.Unmarshal(w.Body.Bytes(), &inventory); err != nil || inventory.Release == nil || inventory.Release.Verdict != "NOT READY" || len(inventory.Release.Review.Images) != 9 || len(inventory.Images) == 0 {
		t.Errorf("/inventory: %v\n%s", err, w.Body)
	}
	// Of an image that is being looked up again, the page says for a moment that it is not known.
	for _, want := range []string{"The next release", "Release 4.21.3 is not ready: 8 of 9 images can be pulled by all nodes that need them, 1 cannot.", "<b>component-004</b>", "check --release desired -o html=release.html"} {
		eventually(t, "/report has "+want, func() bool { return strings.Contains(get(g.newReporter("here"), "/report").Body.String(), want) })
	}
}

// TestUpdatesUnknown: what is marked and cannot be judged is said, and is no failure of the guard.
func TestUpdatesUnknown(t *testing.T) {
	s := newUpdatesStage(t, updates.Recommended)
	g := s.start(t)
	doc := awaitVerdict(t, g, "4.21.3", "READY")
	if doc.Marked != "recommended" || value(t, g, "state", "recommended", "ready") != 1 || value(t, g, "state", "desired", "ready") != 0 {
		t.Errorf("got %+v", doc)
	}
	s.mark(t, `{"version":"4.99.0"}`)
	doc = awaitVerdict(t, g, "4.99.0", "UNKNOWN")
	if doc.Marked != "desired" || doc.Review != nil || !strings.Contains(doc.Reason, "ClusterVersion does not offer this version; it offers 4.20.10, 4.21.3, 4.21.4") || value(t, g, "info", "4.99.0") != 1 {
		t.Errorf("got %+v", doc)
	}
	if told := s.awaitEvents(t, updates.UpdateNotDetermined); !strings.Contains(told.Note, "It is UNKNOWN whether nodes could pull release 4.99.0 (chosen by spec.desiredUpdate): ") {
		t.Errorf("got %q", told.Note)
	}
	path := s.PartOf("component-004", "image").Path
	s.mark(t, `{"version":null,"image":"`+testrelease.PayloadSource+"@"+path[strings.LastIndex(path, "/")+1:]+`"}`)
	eventually(t, "it is no release", func() bool { doc = g.nextRelease(); return strings.Contains(doc.Reason, "it is no release image") })
	if doc.Verdict != "UNKNOWN" || value(t, g, "info", "unknown") != 1 {
		t.Errorf("got %+v", doc)
	}
	if out, err := s.cluster.Kubectl(t.Context(), "", "delete", "clusterversion", "version"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	awaitReason(t, g, "there is no ClusterVersion")
	if err := g.notReady(); err != nil {
		t.Error(err)
	}
}
