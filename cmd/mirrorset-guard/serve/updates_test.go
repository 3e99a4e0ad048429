package serve

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/review/nextrelease"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// An updatesStage is a cluster that is offered a release, and guards that look after it.
type updatesStage struct {
	*testrelease.Stage
	cluster *cluster.Cluster
	kube    kubernetes.Interface
	config  string // file
}

func newUpdatesStage(t *testing.T, setting nextrelease.Setting) *updatesStage {
	t.Helper()
	s := &updatesStage{Stage: testrelease.Mirrored(t, 8), cluster: cluster.New(t), config: filepath.Join(t.TempDir(), "config.yaml")}
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
func (s *updatesStage) configure(t *testing.T, setting nextrelease.Setting) {
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
	return runGuard(t, s.cluster.Config, logr.Discard(), "--tls-dir", dir, "--config", s.config, "--allow-loopback", "--leader-elect", "--verify-every", "200ms")
}

// mark sets spec.desiredUpdate, as oc does.
func (s *updatesStage) mark(t *testing.T, update string) {
	t.Helper()
	if out, err := s.cluster.Kubectl(t.Context(), "", "patch", "clusterversion", "version", "--type=merge", "-p", `{"spec":{"desiredUpdate":`+update+`}}`); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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

// TestUpdates: the release that spec.desiredUpdate names is judged by one of two replicas, once the configuration says so, which tells what the mirror lacks
// of it by an Event, a metric, a document and a page. What is told of a release, and when, is shown by the tests of package nextrelease.
func TestUpdates(t *testing.T) {
	s := newUpdatesStage(t, nextrelease.Off)
	guards := []*guard{s.start(t), s.start(t)}
	s.Without(s.PartOf("component-004", "image").Path)
	s.mark(t, `{"version":"4.21.3"}`)
	for _, g := range guards {
		eventually(t, "it is known", func() bool { v := g.cluster.ProgressObjects().Version; return v != nil && v.Spec.DesiredUpdate != nil })
		if doc := g.nextRelease(); doc != nil || series(t, g) > 0 {
			t.Errorf("off: %+v, %d series", doc, series(t, g))
		}
	}
	for _, asked := range s.Requests() {
		if strings.Contains(asked, "/openshift/release/") || strings.HasSuffix(asked, s.PartOf("release", "layer").Path) {
			t.Errorf("off: %s", asked)
		}
	}

	s.configure(t, nextrelease.Desired)
	var g, other *guard
	eventually(t, "one of them judges", func() bool {
		for i, one := range guards {
			if doc := one.nextRelease(); doc != nil && doc.Verdict == "NOT READY" {
				g, other = one, guards[1-i]
			}
		}
		return g != nil && other.nextRelease() != nil
	})
	if doc := other.nextRelease(); doc.Verdict != "" || !strings.Contains(doc.Reason, "the one that holds Lease mirrorset-guard/mirrorset-guard") || series(t, other) > 0 {
		t.Errorf("the other replica: %+v, %d series", doc, series(t, other))
	}
	if series(t, g) == 0 {
		t.Error("there are no metrics")
	}
	eventually(t, "an Event on the ClusterVersion", func() bool {
		list, err := s.kube.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Kind == "ClusterVersion" && e.Regarding.UID != "" && e.Reason == nextrelease.UpdateNotReady && e.Type == corev1.EventTypeWarning && strings.Contains(e.Note, " component-004 ")
		})
	})
	w := get(http.HandlerFunc(g.listInventory), "/inventory")
	var inventory v1alpha1.Inventory
	if err := json.Unmarshal(w.Body.Bytes(), &inventory); err != nil || inventory.Release == nil || len(inventory.Release.Review.Images) != 9 || len(inventory.Images) == 0 {
		t.Errorf("/inventory: %v\n%s", err, w.Body)
	}
	// Of an image that is being looked up again, the page says for a moment that it is not known.
	for _, want := range []string{"The next release", ">component-004<", "release desired -o html=release.html"} {
		eventually(t, "/report has "+want, func() bool { return strings.Contains(get(g.newReporter("here"), "/report").Body.String(), want) })
	}
	s.configure(t, nextrelease.Off)
	eventually(t, "it is off", func() bool { return g.nextRelease() == nil && other.nextRelease() == nil && series(t, g) == 0 })
	if err := g.notReady(); err != nil {
		t.Error(err)
	}
}
