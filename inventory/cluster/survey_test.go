package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

func guessUser(kind, name, place string) []policy.Consumer {
	return []policy.Consumer{{Kind: kind, Name: name, Container: place, Guessed: true}}
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

// TestSurveyOfALargeCluster reads 80 kinds with 100 objects each, a tenth of which name
// images. What stays must be a small part of what may be in memory
// (120 MB with the pods), and so must what is there at once. With 200 kinds of 500 objects each, 300 MB
// of JSON, it keeps 2.5 MB, has 12 MB at most, and takes 12 s on two busy processors, most
// of it on the side of the server.
func TestSurveyOfALargeCluster(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as the guard has it, whatever its tests have
	const kinds, objects = 80, 100
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
