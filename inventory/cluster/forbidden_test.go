package cluster

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// refusing makes a cluster refuse a resource as long as refuse says so.
func refusing(refuse *atomic.Bool, resource string, objects ...runtime.Object) *flakyAPI {
	api := newFlakyAPI(objects...)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("not yet"))
	api.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return refuse.Load(), nil, forbidden
	})
	api.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		return refuse.Load(), nil, forbidden
	})
	return api
}

func TestForbiddenAtTheStart(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		lasts   time.Duration
		ready   time.Duration // by when
		nodes   int
		notable bool
	}{
		{"an API server that is reading its roles", 10 * time.Second, 25 * time.Second, 1, false},
		{"a right that is not granted", time.Hour, 35 * time.Second, 0, true},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refuse atomic.Bool
				refuse.Store(true)
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
				c := newInventory(mirrorReader{}, refusing(&refuse, "nodes", node), noCustom(), Options{})
				run(t, c)
				time.AfterFunc(tt.lasts, func() { refuse.Store(false) })
				time.Sleep(min(tt.lasts, follow.DefaultForbiddenAfter) - time.Second)
				if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "nodes not read: nodes is forbidden: not yet") {
					t.Errorf("Ready() = %v, want that nodes are refused", err)
				}
				time.Sleep(tt.ready - min(tt.lasts, follow.DefaultForbiddenAfter))
				if err := c.Ready(); err != nil {
					t.Errorf("after %s: Ready() = %v", tt.ready, err)
				}
				if got := len(c.Nodes()); got != tt.nodes {
					t.Errorf("%d nodes, want %d", got, tt.nodes)
				}
				note := "no permission to read nodes; what is there is unknown"
				if got := slices.Contains(c.Notes(), note); got != tt.notable {
					t.Errorf("Notes() = %q", c.Notes())
				}
				isGap := slices.ContainsFunc(c.Gaps(), func(g policy.Gap) bool { return g.Kind == policy.NodeKind && g.Excused })
				if isGap != tt.notable {
					t.Errorf("Gaps() = %v", c.Gaps())
				}
			})
		})
	}
}

// TestForgoesForbidden: a command does without workloads that may not be read, and the guard waits for the right.
func TestForgoesForbidden(t *testing.T) {
	for _, command := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var refuse atomic.Bool
			refuse.Store(true)
			c := newInventory(mirrorReader{}, refusing(&refuse, "pods"), noCustom(), Options{ForbiddenAfter: 3 * time.Second, ForgoesForbidden: command})
			run(t, c)
			time.Sleep(10 * time.Second)
			isGap := slices.ContainsFunc(c.Gaps(), func(g policy.Gap) bool { return g.Kind == "Pod" && !g.Excused })
			if err := c.Ready(); (err == nil) != command || isGap != command {
				t.Errorf("a command: %t; Ready() = %v, Gaps() = %v", command, err, c.Gaps())
			}
		})
	}
}

// A right that comes after the guard has started without it, and goes again.
func TestForbiddenAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		refuse.Store(true)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
		c := newInventory(mirrorReader{}, refusing(&refuse, "nodes", node), noCustom(), Options{})
		run(t, c)
		time.Sleep(time.Minute)
		refuse.Store(false)
		time.Sleep(time.Minute)
		if len(c.Nodes()) != 1 || len(c.Notes()) != 0 {
			t.Fatalf("nodes %v, Notes() = %q, want what may be read now", c.Nodes(), c.Notes())
		}
		refuse.Store(true)
		time.Sleep(time.Hour)
		if len(c.Nodes()) != 1 {
			t.Error("the node is forgotten because it may not be read any more")
		}
		if notes, gaps := c.Notes(), c.Gaps(); len(notes) != 1 || !strings.HasPrefix(notes[0], "nodes out of reach for ") || len(gaps) != 1 || gaps[0].Excused || !gaps[0].IsOfNodes() {
			t.Errorf("Notes() = %q, Gaps() = %v, want that nodes are stale", notes, gaps)
		}
	})
}

// TestImagePoliciesThatMayNotBeRead: a configuration without them might be one that MCO
// rejects, which is no ground for a verdict.
func TestImagePoliciesThatMayNotBeRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/config.openshift.io/v1/imagepolicies" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"imagepolicies is forbidden","reason":"Forbidden","code":403}`))
	}))
	defer server.Close()
	c, err := New(&rest.Config{Host: server.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Mirrors(t.Context())
	if want := "reading /apis/config.openshift.io/v1/imagepolicies: imagepolicies is forbidden"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
