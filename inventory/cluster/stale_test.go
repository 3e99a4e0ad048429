//go:build integration

package cluster

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// wired returns a wire to where cfg leads.
func wired(t *testing.T, cfg *rest.Config) *cluster.Wire {
	t.Helper()
	w, err := cluster.NewWire(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// F16: the watches of a real API server are cut, and what happens meanwhile is
// missed. That is known, and made good afterwards.
func TestInventoryKnowsThatItIsCutOff(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	const ns, image = "cutoff", "quay.io/missed:1"
	namespace(t, kube, ns)
	w := wired(t, cfg)
	c := running(t, w.Config, Options{})
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no gap while all is well", func() bool { return len(c.Gaps()) == 0 })

	w.Cut()
	pod := &corev1.Pod{ObjectMeta: named(ns, "missed"), Spec: containers(image)}
	if _, err := kube.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is a gap where pods are", func() bool {
		return slices.ContainsFunc(c.Gaps(), func(g policy.Gap) bool {
			return g.Source == "pods" && g.Kind == "Pod" && strings.HasPrefix(g.Detail, "out of reach for ")
		})
	})
	for _, g := range c.Gaps() { // ConfigMaps may be among them: they are served, also where their namespace is not there
		if strings.HasSuffix(g.Source, ".openshift.io") {
			t.Errorf("a gap in %s, which this cluster does not serve", g.Source)
		}
	}
	eventually(t, "a note says so in one line", func() bool {
		notes := c.Notes()
		return len(notes) == 1 && strings.HasPrefix(notes[0], "pods, replicationcontrollers and ")
	})
	if missed := consumersOf(t, c, ns, image); len(missed) != 0 {
		t.Errorf("nobody can know of %v", missed)
	}

	w.Mend()
	eventually(t, "what was missed is known, and there is no gap", func() bool {
		return len(c.Gaps()) == 0 && len(c.Notes()) == 0 && len(consumersOf(t, c, ns, image)) == 1
	})
}

// Where a load balancer accepts connections and closes them before an answer, client-go
// returns a watch without an error. Every resource that is followed is known to be out of
// date all the same.
func TestEverythingFollowedKnowsThatItIsCutOff(t *testing.T) {
	cfg := fromAPIServer(t)
	all, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range images.Known() {
		if k.IsBuiltin() {
			continue
		}
		if k.Resource.Group != "" {
			installLoose(t, cfg, k.Resource.Group, k.Kind, k.Resource.Resource, k.Resource.Version)
		}
	}
	for _, r := range []struct{ group, kind, plural string }{
		{"machineconfiguration.openshift.io", "MachineConfigPool", "machineconfigpools"},
		{"machineconfiguration.openshift.io", "MachineConfigNode", "machineconfignodes"},
		{"operator.openshift.io", "MachineConfiguration", "machineconfigurations"},
		{"config.openshift.io", "Image", "images"},
		{"config.openshift.io", "Proxy", "proxies"},
		{"config.openshift.io", "Infrastructure", "infrastructures"},
		{"config.openshift.io", "ClusterOperator", "clusteroperators"},
		{"config.openshift.io", "Ingress", "ingresses"},
		{"operator.openshift.io", "IngressController", "ingresscontrollers"},
		{"route.openshift.io", "Route", "routes"},
	} {
		installLoose(t, cfg, r.group, r.kind, r.plural, "v1")
	}
	w := wired(t, cfg)
	c := impatient(t, w.Config, Options{OnPullSecret: func([]byte, error) {}})
	if got, want := len(c.Sources()), len(all.Sources())+1; got != want {
		t.Fatalf("%d sources, want %d", got, want)
	}
	eventually(t, "everything is served", func() bool {
		return !slices.ContainsFunc(c.Sources(), func(s follow.Status) bool { return !s.IsReadable() })
	})
	w.Cut()
	for _, s := range c.sources {
		eventually(t, s.Name+" is blind", func() bool { return s.Status().IsBlind() })
		isGap := slices.ContainsFunc(c.Gaps(), func(g policy.Gap) bool { return g.Source == s.Name && g.Kind == s.kind })
		if isGap != (s.kind != "") || !isGap && s.Name == "imagestreams.image.openshift.io" {
			t.Errorf("%s of kind %q is among the gaps: %t", s.Name, s.kind, isGap)
		}
	}
	for _, resource := range []string{workloads.Budgets, "machineconfignodes", "pinnedimagesets"} {
		if unknown := c.Rollout().Unknown; !slices.Contains(unknown, resource) {
			t.Errorf("%s are known to a rollout, which lacks %q", resource, unknown)
		}
	}
	w.Mend()
	eventually(t, "nothing is stale any more", func() bool { return len(c.Gaps()) == 0 && len(c.Notes()) == 0 })
}

// A noted resource tells at which versions it is watched.
type noted struct {
	follow.Resource
	versions chan string
}

func (r *noted) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := r.Resource.Watch(ctx, o)
	r.versions <- o.ResourceVersion
	return w, err
}

// F16: the guard comes back to a real API server that does not know any more what
// happened since. What was deleted meanwhile is gone, what was created is there.
func TestInventoryComesBackAfterCompaction(t *testing.T) {
	env, err := startAPIServer(needAPIServer(t), func(c *envtest.ControlPlane) {
		// As a watch cache forgets only after many changes, let etcd answer.
		c.GetAPIServer().Configure().Append("watch-cache-sizes", "pods#0")
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg := env.Config
	kube := kubernetes.NewForConfigOrDie(cfg)
	const ns = "compacted"
	namespace(t, kube, ns)
	pods := kube.CoreV1().Pods(ns)
	create := func(name string) *corev1.Pod {
		pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: named(ns, name), Spec: containers("quay.io/" + name + ":1")}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return pod
	}
	create("stays")
	create("goes")
	w := wired(t, cfg)
	c, err := New(w.Config, Options{})
	if err != nil {
		t.Fatal(err)
	}
	source := c.sources[0]
	if source.Name != "pods" {
		t.Fatalf("the first source is %s", source.Name)
	}
	watches := &noted{source.Client, make(chan string, 1000)}
	source.Client = watches
	run(t, c)
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if v := next(t, "a watch", watches.versions); v != "" {
		t.Fatalf("watched from version %q, want the list streamed", v)
	}

	w.Hold()
	if err := pods.Delete(t.Context(), "goes", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	compact(t, env.ControlPlane.Etcd.URL, create("comes").ResourceVersion)
	w.Mend()
	before := next(t, "a watch", watches.versions)
	if err := goneSince(t, kube, before); !apierrors.IsResourceExpired(err) {
		t.Fatalf("the API server answers %v to a watch from version %q, want 410 Gone", err, before)
	}
	eventually(t, "what was missed is known", func() bool {
		return slices.Equal(refs(t, c), []string{"quay.io/comes:1", "quay.io/stays:1"})
	})
	eventually(t, "nothing is lacking", func() bool { return len(c.Notes()) == 0 })
}

// compact makes etcd forget what was before a version.
func compact(t *testing.T, etcd *url.URL, version string) {
	t.Helper()
	body := strings.NewReader(`{"revision":"` + version + `","physical":true}`)
	answer, err := http.Post(etcd.JoinPath("v3/kv/compaction").String(), "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		t.Fatalf("compaction: %s: %s", answer.Status, text)
	}
}

// goneSince returns what the API server answers to a watch of pods from a version on.
func goneSince(t *testing.T, kube kubernetes.Interface, version string) error {
	t.Helper()
	w, err := kube.CoreV1().Pods("").Watch(timeout(t), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return err
	}
	defer w.Stop()
	event := <-w.ResultChan()
	if event.Type != watch.Error {
		t.Fatalf("event %s", event.Type)
	}
	return apierrors.FromObject(event.Object)
}
