package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// surveying runs a Cluster that surveys all the time.
func surveying(t *testing.T, cfg *rest.Config) *Inventory {
	t.Helper()
	c, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.survey.times = surveyTimes{discover: 50 * time.Millisecond, list: 50 * time.Millisecond, readyAfter: time.Minute}
	run(t, c)
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// installCRD adds a CRD; the caller may take it away before the test ends.
func installCRD(t *testing.T, cfg *rest.Config, crd *apiextensionsv1.CustomResourceDefinition) (remove func()) {
	t.Helper()
	options := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}}
	if err := cluster.InstallCRDs(cfg, options); err != nil {
		t.Fatal(err)
	}
	remove = func() {
		if err := cluster.UninstallCRDs(cfg, options); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(remove)
	return remove
}

func guessUser(kind, name, place string) []policy.Consumer {
	return []policy.Consumer{{Kind: kind, Name: name, Container: place, Guessed: true}}
}

// TestSurvey follows kinds that nothing in the program knows of, from before the start and
// from afterwards, until they are gone.
func TestSurvey(t *testing.T) {
	cfg := fromAPIServer(t)
	dyn := dynamic.NewForConfigOrDie(cfg)
	installLoose(t, cfg, "early.example.com", "Early", "earlies", "v1")
	spec := func(image string) map[string]any {
		return map[string]any{"containers": []any{map[string]any{"name": "app", "image": image}}}
	}
	create(t, dyn, "early.example.com/v1", "Early", "earlies", "a", spec("quay.io/survey/early:1"))
	for i := range 3 * follow.FirstPageSize {
		create(t, dyn, "early.example.com/v1", "Early", "earlies", fmt.Sprintf("many-%d", i), spec("quay.io/survey/many:1"))
	}
	c := surveying(t, cfg)

	if diff := cmp.Diff(guessUser("Early.early.example.com", "a", "spec.containers[app]"), consumersOf(t, c, "", "quay.io/survey/early:1")); diff != "" {
		t.Errorf("when ready (-want +got):\n%s", diff)
	}
	if got := len(consumersOf(t, c, "", "quay.io/survey/many:1")); got != 3*follow.FirstPageSize {
		t.Errorf("%d objects of several pages, want %d", got, 3*follow.FirstPageSize)
	}

	remove := installCRD(t, cfg, looseCRD("late.example.com", "Late", "lates", "v1"))
	create(t, dyn, "late.example.com/v1", "Late", "lates", "a", spec("quay.io/survey/late:1"))
	eventually(t, "a kind that was added is read", func() bool { return len(consumersOf(t, c, "", "quay.io/survey/late:1")) == 1 })
	gvr := schema.GroupVersionResource{Group: "early.example.com", Version: "v1", Resource: "earlies"}
	if err := dyn.Resource(gvr).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an object that was deleted is forgotten", func() bool { return consumersOf(t, c, "", "quay.io/survey/early:1") == nil })
	remove()
	eventually(t, "a kind that was removed is forgotten", func() bool { return consumersOf(t, c, "", "quay.io/survey/late:1") == nil })
	if notes := c.Notes(); len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
}

// TestSurveyConfigMaps chooses ConfigMaps by their names, and leaves alone the one that has
// a source of its own.
func TestSurveyConfigMaps(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	put := func(ns, name, image string) {
		t.Helper()
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"images.json": `{"a": "` + image + `"}`}}
		if _, err := kube.CoreV1().ConfigMaps(ns).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = kube.CoreV1().ConfigMaps(ns).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		})
	}
	for _, ns := range []string{"openshift-machine-api", "openshift-widgets", "survey-shop"} {
		namespace(t, kube, ns)
	}
	put("openshift-machine-api", "machine-api-operator-images", "quay.io/maps/known:1")
	put("openshift-widgets", "widget-images", "quay.io/maps/guessed:1")
	put("openshift-widgets", "widget-settings", "quay.io/maps/settings:1")
	put("survey-shop", "shop-images", "quay.io/maps/shop:1")
	c := surveying(t, cfg)

	user := func(ns, name string, guessed bool) []policy.Consumer {
		return []policy.Consumer{{Kind: "ConfigMap", Namespace: ns, Name: name, Container: "data[images.json]", Guessed: guessed}}
	}
	for _, tt := range []struct {
		reason, namespace, image string
		want                     []policy.Consumer
	}{
		{"the release's own", "openshift-machine-api", "quay.io/maps/known:1", user("openshift-machine-api", "machine-api-operator-images", false)},
		{"another operator's", "openshift-widgets", "quay.io/maps/guessed:1", user("openshift-widgets", "widget-images", true)},
		{"another name", "openshift-widgets", "quay.io/maps/settings:1", nil},
		{"a tenant's", "survey-shop", "quay.io/maps/shop:1", nil},
	} {
		if diff := cmp.Diff(tt.want, consumersOf(t, c, tt.namespace, tt.image)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
		}
	}
	if err := kube.CoreV1().ConfigMaps("openshift-widgets").Delete(t.Context(), "widget-images", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a ConfigMap that was deleted is forgotten", func() bool {
		return consumersOf(t, c, "openshift-widgets", "quay.io/maps/guessed:1") == nil
	})
	if consumersOf(t, c, "openshift-machine-api", "quay.io/maps/known:1") == nil {
		t.Error("and the known one with it")
	}
}

// withContainers gives a CRD the schema of something that has pods.
func withContainers(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	container := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": text, "image": text}}
	list := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: container}}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"containers": list}}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
	}
	return crd
}

// TestSurveyWithoutRights says what it may not read, and reads it once it may.
func TestSurveyWithoutRights(t *testing.T) {
	cfg := fromAPIServer(t)
	admin := kubernetes.NewForConfigOrDie(cfg)
	installCRD(t, cfg, withContainers(looseCRD("pods.example.com", "Barred", "barreds", "v1")))
	installLoose(t, cfg, "open.example.com", "Open", "opens", "v1") // a schema that tells nothing
	create(t, dynamic.NewForConfigOrDie(cfg), "pods.example.com/v1", "Barred", "barreds", "a",
		map[string]any{"containers": []any{map[string]any{"name": "app", "image": "quay.io/survey/barred:1"}}})

	bare, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := surveying(t, as(t, admin, cfg, "surveyor", bare.Rules()))
	isGap := func() bool {
		gaps := c.Unsearched()
		return len(gaps) == 1 && gaps[0].Source == "1 kind with pod templates (barreds.pods.example.com)" && gaps[0].Excused && slices.Equal(c.Notes(), []string{gaps[0].String()})
	}
	eventually(t, "what may not be read is said", isGap)
	if got := consumersOf(t, c, "", "quay.io/survey/barred:1"); got != nil {
		t.Errorf("it was read: %v", got)
	}

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "surveyor-more"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"pods.example.com"}, Resources: []string{"barreds"}, Verbs: []string{"list"}},
	}}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "surveyor-more"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "surveyor"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "surveyor-more"},
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is read once it may be", func() bool { return consumersOf(t, c, "", "quay.io/survey/barred:1") != nil })
	eventually(t, "and no note is left", func() bool { return len(c.Notes())+len(c.Unsearched()) == 0 })
	if err := admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), "surveyor-more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a right that is taken away is said once, and asked for", func() bool {
		c.survey.mu.Lock()
		refused := c.survey.kinds[schema.GroupVersionResource{Group: "pods.example.com", Version: "v1", Resource: "barreds"}].failed > 0
		c.survey.mu.Unlock()
		return refused && isGap()
	})
	if got := consumersOf(t, c, "", "quay.io/survey/barred:1"); got == nil {
		t.Error("what was known is forgotten with the right")
	}
}

// fakeAPI answers lists of objects by their paths, or with a status.
func fakeAPI(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) rest.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(unlimited(&rest.Config{Host: server.URL}))
	if err != nil {
		t.Fatal(err)
	}
	return client.RESTClient()
}

// from lists what an API has.
func from(api rest.Interface) func(context.Context, follow.Listing, func(*unstructured.Unstructured)) error {
	return func(ctx context.Context, l follow.Listing, visit func(*unstructured.Unstructured)) error {
		return follow.EachObject(ctx, api, l, visit)
	}
}

// things are a kind that is served, and may be listed.
func things(groupVersion string) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: groupVersion, APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing", Verbs: []string{"list"}}}}
}

// TestSurveyKeepsWhatItKnew takes an API server away from behind its group, and serves a kind in another version, which
// cannot be listed yet (its conversion webhook is being rolled out).
func TestSurveyKeepsWhatItKnew(t *testing.T) {
	down := false
	api := fakeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if down {
			http.Error(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "away", "code": 503}`, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"items": [{"metadata": {"name": "a"}, "spec": {"image": "quay.io/kept`+strings.ReplaceAll(r.URL.Path, ".", "-")+`:1"}}], "metadata": {}}`)
	})
	lists := []*metav1.APIResourceList{things("lost.example.com/v1"), things("failing.example.com/v1")}
	var discoveryErr error
	var x images.Index
	s := &survey{
		list: from(api), index: &x, schemas: &schemas{}, complete: func() {}, kinds: map[schema.GroupVersionResource]*surveyedKind{},
		served: func() ([]*metav1.APIResourceList, error) { return lists, discoveryErr },
		rules:  mayAll,
	}
	s.round(t.Context())
	want := x.Images().ByReference()
	if len(want) != 2 {
		t.Fatalf("at first: %v", want)
	}
	lists, down = []*metav1.APIResourceList{things("failing.example.com/v2")}, true
	discoveryErr = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "lost.example.com", Version: "v1"}: errors.New("away")}}
	s.round(t.Context())
	if diff := cmp.Diff(want, x.Images().ByReference()); diff != "" {
		t.Errorf("while they are away (-want +got):\n%s", diff)
	}
	if gaps := s.gaps(); len(gaps) != 1 || !strings.HasPrefix(gaps[0].String(), "images named by *.lost.example.com, things.failing.example.com and 1 more: not searched: ") {
		t.Errorf("gaps: %q", gaps)
	}
	discoveryErr, down = nil, false
	s.round(t.Context())
	if got := x.Images().ByReference(); len(got) != 1 {
		t.Errorf("a group that is served no more has %v", got)
	}
	lists, discoveryErr = nil, errors.New("discovery is down")
	s.round(t.Context())
	if gaps := s.gaps(); len(x.Images().ByReference()) != 1 || len(gaps) != 1 || gaps[0].String() != "images named by unknown kinds: not searched: listing the kinds that are served: discovery is down" {
		t.Errorf("without discovery: %v, gaps %q", x.Images().ByReference(), gaps)
	}
}

// A kind that cannot be listed is tried again at once, then less and less often, but no
// less often than one that can be.
func TestSurveyBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		begun := time.Now()
		s := &survey{
			index: &images.Index{}, schemas: &schemas{}, complete: func() {}, kinds: map[schema.GroupVersionResource]*surveyedKind{},
			times: defaultSurveyTimes,
			served: func() ([]*metav1.APIResourceList, error) {
				return []*metav1.APIResourceList{things("example.com/v1")}, nil
			},
			rules: mayAll,
			list: func(context.Context, follow.Listing, func(*unstructured.Unstructured)) error {
				asked = append(asked, time.Since(begun))
				return errors.New("conversion webhook failed")
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
		defer cancel()
		s.run(ctx)
		want := []time.Duration{0, 1 * time.Minute, 3 * time.Minute, 7 * time.Minute, 15 * time.Minute, 25 * time.Minute, 35 * time.Minute}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("asked after (-want +got):\n%s", diff)
		}
	})
}

// A kind that takes long does not hold up the guard for ever, and that is said.
func TestSurveyHoldsUpTheGuardForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{})
		ready := make(chan struct{})
		s := &survey{
			index: &images.Index{}, schemas: &schemas{}, complete: func() { close(ready) }, kinds: map[schema.GroupVersionResource]*surveyedKind{},
			times: surveyTimes{discover: time.Minute, list: time.Minute, readyAfter: time.Minute},
			served: func() ([]*metav1.APIResourceList, error) {
				return []*metav1.APIResourceList{things("example.com/v1")}, nil
			},
			rules: mayAll,
			list: func(ctx context.Context, _ follow.Listing, _ func(*unstructured.Unstructured)) error {
				close(asked)
				<-ctx.Done()
				return ctx.Err()
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.run(ctx); close(done) }()
		<-asked
		<-ready
		if gaps := s.gaps(); len(gaps) != 1 || gaps[0].String() != "images named by 1 unknown kind: not searched yet" {
			t.Errorf("gaps: %q", gaps)
		}
		cancel()
		<-done
	})
}

// TestSurveyOfALargeCluster reads 200 kinds with 100 objects each, a tenth of which name
// images. What stays must be a small part of what may be in memory
// (120 MB with the pods), and so must what is there at once. With 500 objects each, 300 MB
// of JSON, it keeps 2.5 MB, has 12 MB at most, and takes 12 s on two busy processors, most
// of it on the side of the server.
func TestSurveyOfALargeCluster(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as the guard has it, whatever its tests have
	const kinds, objects = 200, 100
	filler := strings.Repeat(`{"a": "some text of an object", "b": [1, 2, 3]},`, 60)
	var most atomic.Int64
	api := fakeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most.Store(max(most.Load(), int64(m.HeapAlloc)))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		to, token := min(from+limit, objects), ""
		if to < objects {
			token = strconv.Itoa(to)
		}
		fmt.Fprintf(w, `{"metadata": {"continue": %q}, "items": [`, token)
		for i := from; i < to; i++ {
			image := "none"
			if i%10 == 0 {
				image = fmt.Sprintf("quay.io/large/image:%d", i)
			}
			fmt.Fprintf(w, `{"metadata": {"name": "object-%d", "namespace": "n-%d"}, "spec": {"image": %q, "x": [%s 0]}}`, i, i%50, image, filler)
			if i < to-1 {
				fmt.Fprint(w, ",")
			}
		}
		fmt.Fprint(w, "]}")
	})
	list := &metav1.APIResourceList{GroupVersion: "large.example.com/v1"}
	for i := range kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: fmt.Sprintf("kind%ds", i), Kind: fmt.Sprintf("Kind%d", i), Verbs: []string{"list"}})
	}
	var x images.Index
	s := &survey{
		list: from(api), index: &x, schemas: &schemas{}, complete: func() {}, kinds: map[schema.GroupVersionResource]*surveyedKind{},
		served: func() ([]*metav1.APIResourceList, error) { return []*metav1.APIResourceList{list}, nil },
		rules:  mayAll,
	}
	before, begun := heap(), time.Now()
	s.round(t.Context())
	took := time.Since(begun)
	images := x.Images().ByReference()
	after := heap()
	t.Logf("%d objects in %s, heap %d kB more, at most %d kB more", kinds*objects, took, (after-before)>>10, (most.Load()-before)>>10)
	if len(images) != objects/10 || x.Objects() != kinds*objects/10 {
		t.Errorf("%d images of %d objects", len(images), x.Objects())
	}
	if grown := after - before; grown > 20<<20 {
		t.Errorf("the heap has grown by %d kB", grown>>10)
	}
	if grown := most.Load() - before; grown > 100<<20 {
		t.Errorf("the heap had grown by %d kB", grown>>10)
	}
	runtime.KeepAlive(&x)
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// mayAll are the rules of one who may list everything.
func mayAll(context.Context) (authorizationv1.SubjectRulesReviewStatus, error) {
	all := authorizationv1.ResourceRule{Verbs: []string{"list"}, APIGroups: []string{"*"}, Resources: []string{"*"}}
	return authorizationv1.SubjectRulesReviewStatus{ResourceRules: []authorizationv1.ResourceRule{all}}, nil
}

// TestSurveyForgetsWhatItPut: what was read is forgotten once it is gone, whatever failed after it.
func TestSurveyForgetsWhatItPut(t *testing.T) {
	there, fails := []string{"a-images", "b-images"}, true
	s := survey{index: new(images.Index)}
	s.list = func(_ context.Context, l follow.Listing, visit func(*unstructured.Unstructured)) error {
		if l.Name == "b-images" && fails {
			return errors.New("answers 503")
		}
		for _, name := range there {
			if l.Name == "" || l.Name == name {
				visit(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "openshift-x", "name": name}, "data": map[string]any{"i": "quay.io/x:1"}}})
			}
		}
		return nil
	}
	var k surveyedKind
	if err := s.readConfigMaps(t.Context(), &k); err == nil || s.index.Images().Len() != 1 {
		t.Fatalf("%v, %d images", err, s.index.Images().Len())
	}
	there, fails = nil, false
	if err := s.readConfigMaps(t.Context(), &k); err != nil || s.index.Images().Len() != 0 {
		t.Errorf("%v, %d images", err, s.index.Images().Len())
	}
}
