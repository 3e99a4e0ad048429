package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// The cases here need an API server that fails in a particular way and a clock
// that jumps, which a real one does not do.

// A flakyAPI is a cluster whose watches of pods end when told to, and which can
// be cut off.
type flakyAPI struct {
	*fake.Clientset
	cut     atomic.Bool
	watches chan *watch.RaceFreeFakeWatcher // each watch of pods that was begun
}

var errCut = errors.New("connection refused")

func newFlakyAPI(objects ...runtime.Object) *flakyAPI {
	api := &flakyAPI{Clientset: fake.NewClientset(objects...), watches: make(chan *watch.RaceFreeFakeWatcher, 100)}
	api.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return api.cut.Load(), nil, errCut
	})
	api.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		if api.cut.Load() {
			return true, nil, errCut
		}
		w := watch.NewRaceFreeFake()
		api.watches <- w
		return true, w, nil
	})
	return api
}

// noCustom is a cluster that serves no custom resources.
func noCustom() dynamic.Interface {
	listKinds := map[schema.GroupVersionResource]string{
		poolResource: "MachineConfigPoolList",
		resourceOf("machineconfiguration.openshift.io", "v1", "machineconfignodes"):       "MachineConfigNodeList",
		resourceOf("machineconfiguration.openshift.io", "v1alpha1", "machineconfignodes"): "MachineConfigNodeList",
		resourceOf("operator.openshift.io", "v1", "machineconfigurations"):                "MachineConfigurationList",
		resourceOf("config.openshift.io", "v1", "images"):                                 "ImageList",
		resourceOf("config.openshift.io", "v1", "proxies"):                                "ProxyList",
		resourceOf("config.openshift.io", "v1", "infrastructures"):                        "InfrastructureList",
		resourceOf("config.openshift.io", "v1", "ingresses"):                              "IngressList",
		resourceOf("operator.openshift.io", "v1", "ingresscontrollers"):                   "IngressControllerList",
		resourceOf("route.openshift.io", "v1", "routes"):                                  "RouteList",
		resourceOf("config.openshift.io", "v1", "clusteroperators"):                       "ClusterOperatorList",
	}
	for _, k := range images.Known() {
		if k.IsBuiltin() {
			continue
		}
		listKinds[k.Resource] = k.Kind + "List"
		if k.FormerVersion != "" {
			listKinds[k.Resource.GroupResource().WithVersion(k.FormerVersion)] = k.Kind + "List"
		}
	}
	dyn := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds)
	notFound := apierrors.NewNotFound(schema.GroupResource{}, "")
	dyn.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, notFound })
	dyn.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) { return true, nil, notFound })
	return dyn
}

func runningPod(name, image string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: named("shop", name), Spec: containers(image), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

func refs(t *testing.T, c *Inventory) []string {
	t.Helper()
	images, err := c.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refs := []string{}
	for _, img := range images.ByReference() {
		refs = append(refs, img.Ref)
	}
	return refs
}

// A source that cannot be read is told of at once, and waited for where it may be back.
func TestInventorySaysWhenAWatchIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newFlakyAPI(runningPod("a", "quay.io/a:1"))
		c := newInventory(mirrorReader{}, api, noCustom(), Options{})
		run(t, c)
		synctest.Wait()
		if diff := cmp.Diff([]string{"quay.io/a:1"}, refs(t, c)); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}

		api.cut.Store(true)
		(<-api.watches).Stop()
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"pods out of reach for 1s: connection refused"}, c.Notes()); diff != "" {
			t.Errorf("after 1s: Notes() -want +got:\n%s", diff)
		}
		start := time.Now()
		c.Await(t.Context())
		if took := time.Since(start); took < time.Second || took > toleratedFailure {
			t.Errorf("pods were waited for for %s", took)
		}
		time.Sleep(6*time.Minute - time.Second - time.Since(start))
		gap := policy.Gap{Source: "pods", Kind: "Pod", Detail: "out of reach for 6m0s: connection refused"}
		if diff := cmp.Diff([]policy.Gap{gap}, c.Gaps()); diff != "" {
			t.Errorf("after 6m: Gaps() -want +got:\n%s", diff)
		}
		start = time.Now()
		short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		c.Await(short)
		if took := time.Since(start); took > time.Second/2 {
			t.Errorf("pods were waited for for %s, of 2s", took)
		}
		if err := c.Ready(); err != nil {
			t.Errorf("Ready() = %v, though it has been", err)
		}

		api.cut.Store(false)
		start = time.Now()
		c.Await(t.Context()) // else the longest wait between two attempts is 15 s
		if took := time.Since(start); took > time.Second {
			t.Errorf("pods were waited for for %s, though they can be read", took)
		}
		if notes, gaps := c.Notes(), c.Gaps(); len(notes) != 0 || len(gaps) != 0 {
			t.Errorf("mended: Notes() = %q, Gaps() = %v, want none", notes, gaps)
		}
	})
}

// Where nothing happens for an hour, watches end and begin, and that is enough.
func TestQuietIsNotStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newInventory(mirrorReader{}, newFlakyAPI(runningPod("a", "quay.io/a:1")), noCustom(), Options{})
		run(t, c)
		synctest.Wait()
		for range 60 {
			time.Sleep(time.Minute)
			if gaps := c.Gaps(); len(gaps) != 0 {
				t.Fatalf("Gaps() = %v, want none", gaps)
			}
		}
	})
}

// What was deleted while nobody listened is gone after the next list.
func TestInventoryCatchesUpAfterA410(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newFlakyAPI(runningPod("a", "quay.io/a:1"), runningPod("b", "quay.io/b:1"))
		c := newInventory(mirrorReader{}, api, noCustom(), Options{})
		run(t, c)
		synctest.Wait()

		if err := api.CoreV1().Pods("shop").Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"quay.io/a:1", "quay.io/b:1"}, refs(t, c)); diff != "" {
			t.Fatalf("before: -want +got:\n%s", diff)
		}
		gone := apierrors.NewResourceExpired("too old resource version")
		(<-api.watches).Error(&gone.ErrStatus)
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"quay.io/a:1"}, refs(t, c)); diff != "" {
			t.Errorf("after: -want +got:\n%s", diff)
		}
	})
}

// A pull secret that was read stays what it was while the API server is away, but not once it may not be read.
func TestInventoryTellsOfThePullSecretOnlyWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := &corev1.Secret{
			ObjectMeta: named("openshift-config", "pull-secret"),
			Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte("{}")},
		}
		var calls []string
		var refuse atomic.Bool
		c := newInventory(mirrorReader{}, refusing(&refuse, "secrets", secret), noCustom(), Options{OnPullSecret: func(data []byte, err error) {
			calls = append(calls, fmt.Sprintf("%s %v", data, err))
		}})
		run(t, c)
		synctest.Wait()
		for _, refused := range []bool{false, true, false} {
			refuse.Store(refused)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
		}
		refused := " reading secret openshift-config/pull-secret: secrets is forbidden: not yet"
		if diff := cmp.Diff([]string{"{} <nil>", refused, "{} <nil>"}, calls); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestReadyNamesTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newFlakyAPI()
		api.cut.Store(true)
		c := newInventory(mirrorReader{}, api, noCustom(), Options{})
		run(t, c)
		synctest.Wait()
		const want = "the inventory is not complete: pods not read: connection refused"
		if err := c.Ready(); err == nil || err.Error() != want {
			t.Errorf("Ready() = %v, want %s", err, want)
		}
		api.cut.Store(false)
		if err := c.WaitReady(t.Context()); err != nil {
			t.Errorf("WaitReady() = %v", err)
		}
		if notes := c.Notes(); len(notes) != 0 {
			t.Errorf("Notes() = %q, want none", notes)
		}
	})
}

// A cluster with nodes runs something: an empty inventory is a fault, not safety.
func TestNodesWithoutImagesAreAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}})
		c := newInventory(mirrorReader{}, api, noCustom(), Options{})
		run(t, c)
		synctest.Wait()
		const want = "no object names an image although there are nodes (1): the inventory cannot be complete"
		if images, err := c.Images(t.Context()); err == nil || err.Error() != want {
			t.Errorf("Images() = %v, %v, want %s", images, err, want)
		}
		if err := api.CoreV1().Nodes().Delete(t.Context(), "worker-0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if images, err := c.Images(t.Context()); images.Len() != 0 || err != nil {
			t.Errorf("without nodes: Images() = %v, %v, want none and no error", images, err)
		}
	})
}

func TestInventoryIsNotReadyBeforeItHasRun(t *testing.T) {
	c, err := New(&rest.Config{Host: "https://127.0.0.1:1"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "the inventory is not complete: pods not read yet; "
	if err := c.Ready(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Ready() = %v, want %s...", err, want)
	}
	if images, err := c.Images(t.Context()); err == nil {
		t.Errorf("Images() = %v without an error, though nothing has been read", images)
	}
}

// An askedSource notes what it is asked for. What failed is there again once its images are read.
type askedSource struct {
	asked []string
	gaps  []policy.Gap
}

func (s *askedSource) Await(context.Context) { s.asked = append(s.asked, "await") }

func (s *askedSource) Gaps() []policy.Gap {
	s.asked = append(s.asked, "gaps")
	return s.gaps
}

func (s *askedSource) Images(context.Context) (policy.Images, error) {
	s.asked = append(s.asked, "images")
	s.gaps = nil
	return policy.Images{}, nil
}

// TestGapsComeBeforeImages: a source that comes back while a review reads is a gap in it: its images may be
// those of before.
func TestGapsComeBeforeImages(t *testing.T) {
	s := &askedSource{gaps: []policy.Gap{{Source: "pods"}}}
	known, err := imagesOf(t.Context(), s)
	if err != nil || len(known.Gaps) != 1 || !slices.Equal(s.asked, []string{"await", "gaps", "images"}) {
		t.Errorf("%v: asked for %q, gaps %v", err, s.asked, known.Gaps)
	}
}

// Before it has been read, and as soon as it fails, a resource is unknown.
func TestRolloutSaysWhatIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		api := refusing(&refuse, "poddisruptionbudgets", runningPod("a", "quay.io/a:1"))
		c := newInventory(mirrorReader{}, api, noCustom(), Options{})
		needed := 2 + len(rollout.ControllerResources) // pods, and the ConfigMap
		for _, k := range objects.Kinds() {
			if k.Role.Has(objects.Needed) {
				needed++
			}
		}
		if got := len(c.Rollout().Unknown); got != needed {
			t.Errorf("%d resources are unknown before anything was read, want %d", got, needed)
		}
		run(t, c)
		synctest.Wait()
		if n := len(api.watches); n != 1 {
			t.Errorf("pods are watched %d times, want once for their images and for rollouts", n)
		}
		if unknown := c.Rollout().Unknown; len(unknown) != 0 {
			t.Errorf("%v is unknown: what is not served is not there", unknown)
		}
		api.cut.Store(true)
		(<-api.watches).Stop()
		time.Sleep(5 * time.Second)
		if got := c.Rollout(); !slices.Equal(got.Unknown, []string{workloads.Pods}) || len(got.Pods) != 1 {
			t.Errorf("%q is unknown, and %d pods are known", got.Unknown, len(got.Pods))
		}
		refuse.Store(true)
		time.Sleep(3 * time.Minute) // the watch has ended by then
		lost := c.Rollout().Unknown
		time.AfterFunc(lastTry/2, func() { refuse.Store(false) })
		if c.Await(t.Context()); len(lost) != 2 || len(c.Rollout().Unknown) != 1 {
			t.Errorf("%v is unknown, and once budgets were waited for %v", lost, c.Rollout().Unknown)
		}
	})
}

func hasController(o rollout.Cluster, want rollout.Controller) bool {
	return slices.ContainsFunc(o.Controllers, func(c rollout.Controller) bool { return reflect.DeepEqual(c, want) })
}
