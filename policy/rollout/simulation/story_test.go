package simulation

import (
	"testing"
)

// Three and six workers; MCO takes them in the order of their numbers.
const (
	three = "pool worker\nnode w1 worker\nnode w2 worker\nnode w3 worker\n"
	six   = three + "node w4 worker\nnode w5 worker\nnode w6 worker\n"
)

// TestStories is what is said of rollouts: the worst course and the best, in full.
func TestStories(t *testing.T) {
	for _, tt := range []struct {
		name        string
		scene       string
		worst, best string
	}{
		{
			"nodes that are updated first and never ran the image", six + `
			in openshift-ingress
			ReplicaSet w2,w3 router-default port=80 image=quay.io/router-new-fails
			budget router-default app=router-default max=1`,
			"w3's drain stalls: the replacement of openshift-ingress/router-default-0 on w1 (already updated) cannot pull quay.io/router-new-fails; " +
				"budget openshift-ingress/router-default allows no eviction [image]",
			"finishes",
		},
		{
			"the same, and the registry is always asked", six + `
			ReplicaSet w2,w3 router port=80 image=router-new-fails always
			budget router app=router max=1`,
			"w3's drain stalls: the replacement of app/router-0 on w1 (already updated) cannot pull router-new-fails; budget app/router allows no eviction [image]",
			"w6's drain stalls: the replacement of app/router-1 on w1 (already updated) cannot pull router-new-fails; budget app/router allows no eviction [image]",
		},
		{
			"pods that go where they are evicted next, by the old route, and then to a node that has the new one", six + `
			ReplicaSet w1,w2 router image=router-new-fails always
			budget router app=router max=1`,
			"w2's drain stalls: the replacement of app/router-1 on w1 (already updated) cannot pull router-new-fails; budget app/router allows no eviction [image]",
			"w6's drain stalls: the replacement of app/router-0 on w1 (already updated) cannot pull router-new-fails; budget app/router allows no eviction [image]",
		},
		{
			"a source that is dead already", three + `
			ReplicaSet w1,w2 router port=80 image=router-old-fails
			budget router app=router max=1`,
			"w2's drain stalls: the replacement of app/router-0 on w3 cannot pull router-old-fails; budget app/router allows no eviction [image]",
			"may finish, depending on where pods go",
		},
		{
			"as many replicas as nodes, always asked", three + `
			ReplicaSet w1,w2,w3 router apart image=router-new-fails always
			budget router app=router max=1`,
			"w2's drain stalls: the replacement of app/router-0 on w1 (already updated) cannot pull router-new-fails; budget app/router allows no eviction [image]",
			"w2's drain stalls: the replacement of app/router-0 on w1 (already updated) cannot pull router-new-fails; budget app/router allows no eviction [image]",
		},
		{
			"an image that was never pulled to a node with policy Never", three + `
			ReplicaSet w1,w2 web image=works never
			budget web app=web max=1`,
			"w2's drain stalls: the replacement of app/web-0 on w3 cannot pull works; budget app/web allows no eviction [image]",
			"finishes",
		},
		{
			"an image of which nothing is known", three + `
			ReplicaSet w1,w2 router image=unknown
			budget router app=router max=1`,
			"w2's drain stalls: the replacement of app/router-0 on w3 cannot pull unknown; budget app/router allows no eviction [image]",
			"finishes",
		},
		{
			"many replicas, of which two can be missing", six + `
			ReplicaSet w1,w2,w3,w4,w5 web image=new-fails always
			budget web app=web max=2`,
			"w3's drain stalls: the replacement of app/web-0 on w1 (already updated) cannot pull new-fails; " +
				"the replacement of app/web-1 on w1 (already updated) cannot pull new-fails; budget app/web allows no eviction [image]",
			"w6's drain stalls: the replacement of app/web-0 on w1 (already updated) cannot pull new-fails; " +
				"the replacement of app/web-1 on w2 (already updated) cannot pull new-fails; budget app/web allows no eviction [image]",
		},
		{
			"a pod that is being deleted on a node to be drained", three + `
			ReplicaSet w1!deleted,w2,w3 web image=works`,
			"w1's drain may stall: app/web-0 has to end first, and may not end",
			"finishes",
		},
		{
			"a pod with a finalizer that was not asked to end yet", three + `
			ReplicaSet w1,w2!kept web image=works`,
			"w2's drain may stall: app/web-1 has to end first, and keeps example.com/keep (finalizers)",
			"finishes",
		},
		{
			"a pod that is being deleted takes the room that another one needs", `pool worker
			node w1 worker
			node s1 cpu=4
			ReplicaSet s1!deleted old image=works cpu=4
			ReplicaSet w1,w1 web image=works cpu=3
			budget web app=web max=1`,
			"w1's drain stalls: the replacement of app/web-0 fits no node, ruled out by a cordon, what it requests; budget app/web allows no eviction",
			"finishes",
		},
		{
			"a pod of a StatefulSet with a finalizer, which is not made again before it has ended", three + `
			StatefulSet w1!kept,w2 db image=works
			budget db app=db max=1`,
			"w1's drain may stall: app/db-0 has to end first, and keeps example.com/keep (finalizers); and 1 stall more",
			"finishes",
		},
		{
			"a StatefulSet that makes its pods in order, with a lower ordinal that is not ready", three + `
			OrderedReady w3!unready,w1,w2 db image=works
			budget db app=db max=2`,
			"w2's drain stalls: app/db-0 is not ready; the replacement of app/db-1 is made again when app/db-0 is ready (podManagementPolicy OrderedReady); " +
				"budget app/db allows no eviction",
			"finishes",
		},
		{
			"the same, and the StatefulSet is not known", three + `
			StatefulSet w3!unready,w1,w2 db image=works
			budget db app=db max=2`,
			"w2's drain may stall: app/db-0 is not ready; the replacement of app/db-1 may be made again only when app/db-0 is ready, " +
				"as it is not known whether its StatefulSet has podManagementPolicy Parallel; budget app/db allows no eviction",
			"finishes",
		},
		{
			"the same, and it makes them in parallel", three + `
			Parallel w3!unready,w1,w2 db image=works
			budget db app=db max=2`,
			"finishes",
			"finishes",
		},
		{
			"a namespace that enforces a level which its pods do not meet", three + `
			enforce restricted
			ReplicaSet w1,w2 web image=works security=baseline
			budget web app=web max=1`,
			"w2's drain may stall: the replacement of app/web-0 may not be made: namespace app forbids pods that are not restricted (pod-security.kubernetes.io/enforce); " +
				"budget app/web allows no eviction",
			"finishes",
		},
		{
			"one that enforces a level which its pods meet", three + `
			enforce baseline
			ReplicaSet w1,w2 web image=works security=restricted
			budget web app=web max=1`,
			"finishes",
			"finishes",
		},
		{
			"one that does so by a version that is known", three + `
			enforce baseline v1.24
			ReplicaSet w1,w2 web image=works security=restricted
			budget web app=web max=1`,
			"finishes",
			"finishes",
		},
		{
			"one that does so by a version of which it is not known what it wants", three + `
			enforce baseline v1.19
			ReplicaSet w1,w2 web image=works security=restricted
			budget web app=web max=1`,
			"w2's drain may stall: the replacement of app/web-0 may not be made: namespace app forbids pods that are not baseline by v1.19 (pod-security.kubernetes.io/enforce); " +
				"budget app/web allows no eviction",
			"finishes",
		},
		{
			"a quota of which it is not known how much is used", three + `
			quota new services=?/1 pods=?/9
			ReplicaSet w1,w2 web image=works
			budget web app=web max=1`,
			"w2's drain may stall: the replacement of app/web-0 may not be made: of ResourceQuota app/new it is not known how much of pods is used; budget app/web allows no eviction",
			"finishes",
		},
		{
			"a quota of which more is used than it allows", three + `
			quota small pods=2/1
			ReplicaSet w1,w2 web image=works
			budget web app=web max=1`,
			"w2's drain may stall: the replacement of app/web-0 may not be made: ResourceQuota app/small allows 1 of pods, and 2 are used; budget app/web allows no eviction",
			"finishes",
		},
		{
			"one of what pods do not take, one of what these do not, and one that is used up", three + `
			quota small services=2/1 requests.cpu=2/1 pods=2/2
			ReplicaSet w1,w2 web image=works
			budget web app=web max=1`,
			"finishes",
			"finishes",
		},
		{
			"one that wants containers to have limits, which these do not", three + `
			quota limits limits.cpu=0/9
			ReplicaSet w1,w2 web image=works unset=limits.cpu
			budget web app=web max=1`,
			"w2's drain may stall: the replacement of app/web-0 may not be made: ResourceQuota app/limits wants each container to set limits.cpu; budget app/web allows no eviction",
			"finishes",
		},
		{
			"a ReplicaSet whose last pod was refused", three + `
			refused w1,w2 web image=works
			budget web app=web max=1`,
			"w2's drain may stall: the replacement of app/web-0 may not be made: the last one that its ReplicaSet was to make was refused (the pod is forbidden); " +
				"budget app/web allows no eviction",
			"finishes",
		},
		{
			"a lower ordinal that cannot be pulled holds up those above, which can", three + `
			OrderedReady w1,w2,w3 db image=new-fails always
			budget db app=db max=2`,
			"w3's drain stalls: the replacement of app/db-0 on w1 (already updated) cannot pull new-fails; " +
				"the replacement of app/db-1 is made again when app/db-0 is ready (podManagementPolicy OrderedReady); budget app/db allows no eviction [image]",
			"w3's drain stalls: the replacement of app/db-0 on w1 (already updated) cannot pull new-fails; " +
				"the replacement of app/db-2 is made again when app/db-0 is ready (podManagementPolicy OrderedReady); budget app/db allows no eviction [image]",
		},
		{
			"a budget of 0, where the image fails as well", three + `
			ReplicaSet w1,w2 web image=new-fails
			budget web app=web max=0`,
			"w1's drain stalls: budget app/web allows no eviction of app/web-0: 2 pods have to be ready, and there are 2",
			"w1's drain stalls: budget app/web allows no eviction of app/web-0: 2 pods have to be ready, and there are 2",
		},
		{
			"the only replica has to be ready", three + `
			ReplicaSet w1 web image=works
			budget web app=web min=1`,
			"w1's drain stalls: budget app/web allows no eviction of app/web-0: 1 pod has to be ready, and there is 1",
			"w1's drain stalls: budget app/web allows no eviction of app/web-0: 1 pod has to be ready, and there is 1",
		},
		{
			"two budgets", three + `
			ReplicaSet w1,w2 web image=works
			budget a app=web max=1
			budget b all max=1`,
			"w1's drain stalls: app/web-0 has budgets app/a, app/b, and the eviction API evicts no pod that has more than one budget",
			"w1's drain stalls: app/web-0 has budgets app/a, app/b, and the eviction API evicts no pod that has more than one budget",
		},
		{
			"bare pods with a budget", three + `
			bare w1,w2 web image=works
			budget web app=web min=1`,
			"w2's drain stalls: app/web-0 was evicted, and nothing replaces it; budget app/web allows no eviction",
			"w2's drain stalls: app/web-0 was evicted, and nothing replaces it; budget app/web allows no eviction",
		},
		{
			"a pod that is not ready", three + `
			ReplicaSet w1,w2!unready web image=works
			budget web app=web max=1`,
			"w1's drain stalls: app/web-1 is not ready; budget app/web allows no eviction",
			"finishes",
		},
		{
			"one that is not ready, and that may go", three + `
			ReplicaSet w1!unready web image=works
			budget web app=web max=1 always`,
			"finishes",
			"finishes",
		},
		{
			"one that never started frees its budget where it can start", `pool worker
			node w1 worker images=new-fails
			node w2 worker
			ReplicaSet w2!pull web image=new-fails
			budget web app=web max=1`,
			"finishes",
			"finishes",
		},
		{
			"no room", `pool worker
			node w1 worker cpu=4
			node w2 worker cpu=4
			ReplicaSet w1,w1,w2,w2 web cpu=2 image=works
			budget web app=web max=1`,
			"w1's drain stalls: the replacement of app/web-0 fits no node, ruled out by a cordon, what it requests; budget app/web allows no eviction",
			"may finish, depending on where pods go",
		},
		{
			"an uneven spread", `pool worker
			node w1 worker
			node w2 worker
			node w3 worker
			ReplicaSet w1,w1,w2,w2,w3,w3 web image=works spread
			budget web app=web max=1`,
			"w1's drain stalls: the replacement of app/web-0 fits no node, ruled out by a cordon, topology spread; budget app/web allows no eviction",
			"may finish, depending on where pods go",
		},
		{
			"a large pod, which no budget is about, waits for its node", three + `
			ReplicaSet w1,w1 web cpu=1 image=works
			ReplicaSet w1 big cpu=7 image=works
			budget web app=web max=1`,
			"finishes",
			"finishes",
		},
		{"a paused pool", "pool worker paused\nnode w1 worker\nReplicaSet w1 web image=fails\nbudget web app=web max=0", "finishes", "finishes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Run(scene(tt.scene).input(t))
			if said := said(got.Worst); said != tt.worst {
				t.Errorf("worst: got\n%s\nwant\n%s\n%s", said, tt.worst, lines(got.Worst.Steps))
			}
			if said := said(got.Best); said != tt.best {
				t.Errorf("best: got\n%s\nwant\n%s\n%s", said, tt.best, lines(got.Best.Steps))
			}
		})
	}
}

// said is a course in words, with what its first stall is put down to.
func said(c Course) string {
	if len(c.Stalls) > 0 && c.Stalls[0].ByImage {
		return c.String() + " [image]"
	}
	return c.String()
}

// TestWaitingNodes: a rollout does not finish while a node is not taken.
func TestWaitingNodes(t *testing.T) {
	for words, want := range map[string]string{
		"worker max=2": "cannot finish: node w2 is not ready", "worker": "cannot finish: node w2 is not ready, and maxUnavailable is 1", "worker paused": "finishes",
	} {
		got := Run(scene(`
		pool ` + words + `
		pool infra
		node w1 worker
		node w2 worker notready
		node i1 infra`).input(t))
		if got.Worst.String() != want || got.Best.String() != want || got.Finishes() != (want == "finishes") {
			t.Errorf("%s: %s, %s, finishes %v", words, got.Worst, got.Best, got.Finishes())
		}
	}
}

// TestSteps is a rollout node by node, with two pools side by side and one that waits.
func TestSteps(t *testing.T) {
	got := Run(scene(`
		pool worker max=2
		pool infra
		node w1 worker
		node w2 worker
		node w3 worker
		node i1 infra
		ReplicaSet w1,w2,w3 web image=works
		bare w1 lonely
		ReplicaSet i1 only on=node-role.kubernetes.io/infra:
		ReplicaSet w2 broken image=new-fails always
		ReplicaSet w1 large cpu=7
		ReplicaSet w2,w3 filler cpu=6
		budget web app=web max=1`).input(t))
	const want = `w1 (pool worker) is drained and updated; app/large-0 waits and goes to w1 (already updated); app/lonely-0 is gone: nothing replaces it; app/web-0 goes to w3
w2 (pool worker) is drained and updated; app/broken-0 goes to w3; app/filler-0 waits and goes to i1 (already updated); app/web-1 goes to w1 (already updated)
i1 (pool infra) is drained and updated; app/only-0 waits and goes to i1 (already updated)
w3 (pool worker) is drained and updated; app/filler-1 waits and goes to w2 (already updated); app/broken-0 goes to i1 (already updated) and cannot pull new-fails; app/web-2 goes to w2 (already updated); app/web-0 goes to w1 (already updated)`
	if said := lines(got.Worst.Steps); said != want {
		t.Errorf("got\n%s\nwant\n%s", said, want)
	}
}

// TestObstacles is what is said of them, in their order.
func TestObstacles(t *testing.T) {
	got := Run(scene(six + `
		ReplicaSet w1,w2 strict image=works
		budget strict app=strict max=0
		ReplicaSet w1,w2!unready weak image=works
		budget weak app=weak min=50%
		budget a app=both max=1
		budget b app=both max=1
		ReplicaSet w1 both
		bare w3 lonely
		ReplicaSet w4,w4,w4 crowd
		budget crowd app=crowd max=2
		StatefulSet w5 data claim=data
		volume data w5
		in openshift-ingress
		ReplicaSet w1,w2,w3,w4,w5,w6 router-default port=80
		budget router-default app=router-default max=1
		ReplicaSet w1 router-internal
		budget router-internal app=router-internal min=1`).input(t))
	const want = `budget openshift-ingress/router-internal allows no eviction of openshift-ingress/router-internal-0 (w1): 1 pod has to be ready, and there is 1; run more replicas, or let the budget allow one to be unavailable
openshift-ingress/router-default-0, openshift-ingress/router-default-1, openshift-ingress/router-default-2 and 3 more (w1, w2, w3 and 3 more) fit no other node: 5 other nodes are ruled out by a port of the host that is in use; run fewer replicas than there are nodes for them, or add a node
app/both-0 (w1) cannot be evicted, with budgets app/a, app/b: the eviction API evicts no pod that has more than one budget; make their selectors select different pods, or delete all but one
budget app/strict allows no eviction of app/strict-0, app/strict-1 (w1, w2): 2 pods have to be ready, and there are 2; run more replicas, or let the budget allow one to be unavailable
budget app/weak allows no eviction of app/weak-0 (w1): 1 of 2 pods is ready, and 1 has to be; see to the pods that are not ready: app/weak-1
app/data-0 (w5) fits no other node: 5 other nodes are ruled out by its node selector, node affinity or volumes; expect it to be down until its node is back
budget app/crowd lets go app/crowd-0, app/crowd-1, app/crowd-2 (w4) one after the other: the next is evicted when the replacement of the one before is ready, as 2 pods can be missing; spread the replicas over more nodes
app/lonely-0 (w3) is gone once drained: no controller replaces what is evicted; move what is needed into a Deployment`
	if said := lines(got.Obstacles); said != want {
		t.Errorf("got\n%s\nwant\n%s", said, want)
	}
}
