package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// setRules replaces what a user of as may do, and waits until the API server knows
// whether that includes listing a resource.
func setRules(t *testing.T, cfg *rest.Config, user string, rules []rbacv1.PolicyRule, group, resource string, granted bool) {
	t.Helper()
	admin := kubernetes.NewForConfigOrDie(cfg)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	if _, err := admin.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await := cluster.AwaitRefusal
	if granted {
		await = cluster.AwaitRight
	}
	right := authorizationv1.ResourceAttributes{Verb: "list", Group: group, Resource: resource}
	if err := await(t.Context(), cfg, user, right); err != nil {
		t.Fatal(err)
	}
}

// A role is taken away from a guard that runs, and given back. An administrator who
// applies manifests anew does so, and so does an API server that is starting.
func TestInventoryKeepsWhatItMayNotReadForAMoment(t *testing.T) {
	cfg := fromAPIServer(t)
	const group, image, user = "olm.operatorframework.io", "quay.io/catalog:forbidden", "for-a-moment"
	installLoose(t, cfg, group, "ClusterCatalog", "clustercatalogs", "v1")
	dyn := dynamic.NewForConfigOrDie(cfg)
	create(t, dyn, group+"/v1", "ClusterCatalog", "clustercatalogs", user, map[string]any{"source": map[string]any{"image": map[string]any{"ref": image}}})
	kube := kubernetes.NewForConfigOrDie(cfg)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: user}}
	if _, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), user, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})

	all, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rules := all.Rules()
	w := wired(t, as(t, kube, cfg, user, rules))
	c := running(t, w.Config, Options{ForbiddenAfter: time.Millisecond})
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	known := func() bool {
		return len(consumersOf(t, c, "", image)) == 1 && slices.ContainsFunc(c.Nodes(), func(n *corev1.Node) bool { return n.Name == user })
	}
	if !known() {
		t.Fatal("the image and the node are not known")
	}

	var less []rbacv1.PolicyRule
	for _, r := range rules {
		if !slices.Contains(r.Resources, "clustercatalogs") && !slices.Contains(r.Resources, "nodes") {
			less = append(less, r)
		}
	}
	setRules(t, cfg, user, less, group, "clustercatalogs", false)
	w.Cut() // ends the watches, which were granted
	w.Mend()
	eventually(t, "there is a gap that says for how long", func() bool {
		return slices.ContainsFunc(c.Gaps(), func(g policy.Gap) bool {
			return g.Kind == "ClusterCatalog" && strings.HasPrefix(g.Detail, "out of reach for ") && strings.Contains(g.Detail, "forbidden")
		})
	})
	eventually(t, "a note names the nodes", func() bool {
		return slices.ContainsFunc(c.Notes(), func(n string) bool { return strings.Contains(n, "nodes") || strings.Contains(n, "more") })
	})
	if !known() {
		t.Error("what was known is forgotten because it may not be read")
	}

	setRules(t, cfg, user, rules, group, "clustercatalogs", true)
	eventually(t, "all is well again", func() bool { return len(c.Gaps()) == 0 && len(c.Notes()) == 0 })
	if !known() {
		t.Error("what was known is gone after the right has come back")
	}
}

// The right comes while the guard starts: it waits instead of starting without.
func TestInventoryWaitsForARightThatComes(t *testing.T) {
	cfg := fromAPIServer(t)
	const group, image, user = "hypershift.openshift.io", "quay.io/release:late", "late-right"
	installLoose(t, cfg, group, "NodePool", "nodepools", "v1beta1")
	create(t, dynamic.NewForConfigOrDie(cfg), group+"/v1beta1", "NodePool", "nodepools", user, map[string]any{"release": map[string]any{"image": image}})
	all, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rules := all.Rules()
	less := slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return r.APIGroups[0] == group })
	c := running(t, as(t, kubernetes.NewForConfigOrDie(cfg), cfg, user, less), Options{ForbiddenAfter: time.Hour})
	eventually(t, "only what is refused is waited for", func() bool {
		err := c.Ready()
		return err != nil && strings.HasPrefix(err.Error(), "the inventory is not complete: nodepools.hypershift.openshift.io not read: ") &&
			!strings.Contains(err.Error(), "; ")
	})
	setRules(t, cfg, user, rules, group, "nodepools", true)
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if users := consumersOf(t, c, "", image); len(users) != 1 {
		t.Errorf("users %v, want the NodePool", users)
	}
}

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
