package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// web has two replicas that cannot share a node, of which one has to run. It is asked at a
// registry each time it starts, like the routers of a node that has never run one.
const web = `
apiVersion: v1
kind: Namespace
metadata: {name: app}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: app}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      automountServiceAccountToken: false
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {labelSelector: {matchLabels: {app: web}}, topologyKey: kubernetes.io/hostname}
      containers: [{name: web, image: "quay.io/app/web:v1", imagePullPolicy: Always}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: app}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
`

const (
	tagMirror = `
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: apps}
spec:
  imageTagMirrors:
  - {source: quay.io/app, mirrors: [mirror.example.com/app], mirrorSourcePolicy: NeverContactSource}
`
	digestMirror = `
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: apps}
spec:
  imageDigestMirrors: [{source: quay.io/app, mirrors: [mirror.example.com/app]}]
`
)

var workers = []string{"worker-1", "worker-2", "worker-3"}

// A story is a change that rolls out over three workers, which run web.
type story struct {
	*stage.Stage
	nodes *stage.Nodes
	// first is the rendered config before the change.
	first string
}

// tell starts a story. The mirror serves web if mirrored is set; quay.io always does.
func tell(t *testing.T, mirrored bool) *story {
	t.Helper()
	s := &story{Stage: stage.New(t)}
	ctx := t.Context()
	s.nodes = s.Workers(ctx, func(ref string) bool {
		return ref == "quay.io/app/web:v1" || mirrored && ref == "mirror.example.com/app/web:v1"
	}, workers...)
	s.first = s.Rendered(ctx, "worker", "")
	s.Apply(ctx, web)
	s.Wait(ctx, "web to run", func() (bool, error) {
		var budget policyv1.PodDisruptionBudget
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: "app", Name: "web"}, &budget)
		return budget.Status.DisruptionsAllowed == 1, err
	})
	s.waitUpdated(t, s.first)
	return s
}

// waitUpdated waits until the pool has a config on all its nodes.
func (s *story) waitUpdated(t *testing.T, config string) {
	t.Helper()
	s.Wait(t.Context(), "pool worker to be updated", func() (bool, error) {
		pool, err := s.pool(t)
		return pool.Status.Configuration.Name == config && int(pool.Status.UpdatedMachineCount) == len(workers) && updated(pool), err
	})
}

func (s *story) pool(t *testing.T) (pool mcfgv1.MachineConfigPool, err error) {
	err = s.Client.Get(t.Context(), client.ObjectKey{Name: "worker"}, &pool)
	return pool, err
}

func updated(pool mcfgv1.MachineConfigPool) bool {
	return slices.ContainsFunc(pool.Status.Conditions, func(c mcfgv1.MachineConfigPoolCondition) bool {
		return c.Type == mcfgv1.MachineConfigPoolUpdated && c.Status == corev1.ConditionTrue
	})
}

// did returns which nodes did something, in order.
func (s *story) did(what string) []string {
	var names []string
	for _, step := range s.nodes.Steps() {
		if name, did, _ := strings.Cut(step, ": "); did == what {
			names = append(names, name)
		}
	}
	return names
}

func (s *story) wantDid(t *testing.T, what string, names ...string) {
	t.Helper()
	if got := s.did(what); !slices.Equal(got, names) {
		t.Errorf("%q: %q, want %q", what, got, names)
	}
}

// TestStoryDigests: a new IDMS reaches all nodes, and no pod moves.
func TestStoryDigests(t *testing.T) {
	s := tell(t, false)
	s.Apply(t.Context(), digestMirror)
	s.waitUpdated(t, s.Rendered(t.Context(), "worker", s.first))
	s.wantDid(t, "drain")
	s.wantDid(t, "done", workers...)
}

// TestStoryTags: a new ITMS drains one node after the other, the oldest first. The mirror
// has the image, and so does the source for nodes that come later.
func TestStoryTags(t *testing.T) {
	s := tell(t, true)
	s.Apply(t.Context(), tagMirror)
	s.waitUpdated(t, s.Rendered(t.Context(), "worker", s.first))
	s.wantDid(t, "drain", workers...)
	s.wantDid(t, "done", workers...)
	s.wantDid(t, "cannot pull for web")
}

// TestStoryDeadlock is the seed of this project: the mirror lacks the image. Wherever the
// replicas run at first, the drain of the second node moves one to an updated node, where it
// cannot be pulled; the budget then allows no eviction, and the third drain never ends. The
// pool is neither updated nor degraded.
func TestStoryDeadlock(t *testing.T) {
	s := tell(t, false)
	ctx := t.Context()
	s.Apply(ctx, tagMirror)
	s.Rendered(ctx, "worker", s.first)
	s.Wait(ctx, "the drain of worker-3", func() (bool, error) { return len(s.did("drain")) == 3, nil })
	time.Sleep(15 * time.Second) // several attempts of the drain controller
	s.wantDid(t, "drain", workers...)
	s.wantDid(t, "done", "worker-1", "worker-2")
	if len(s.did("cannot pull for web")) == 0 {
		t.Error("each replica could be pulled")
	}
	pool, err := s.pool(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range pool.Status.Conditions {
		want := corev1.ConditionFalse
		if c.Type == mcfgv1.MachineConfigPoolUpdating {
			want = corev1.ConditionTrue
		}
		switch c.Type {
		case mcfgv1.MachineConfigPoolUpdating, mcfgv1.MachineConfigPoolUpdated, mcfgv1.MachineConfigPoolDegraded:
			if c.Status != want {
				t.Errorf("pool worker: %s is %s", c.Type, c.Status)
			}
		}
	}
}
