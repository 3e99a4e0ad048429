package watch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
)

const mco = "machineconfiguration.openshift.io/"

const pool = `
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker, labels: {machineconfiguration.openshift.io/mco-built-in: ""}}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  configuration: {name: rendered-worker-1}
`

// A cutSource is a cluster with a pool of a node, whose mirror objects are read by a function.
type cutSource struct {
	pool    *mcfgv1.MachineConfigPool
	node    *corev1.Node
	mirrors func(context.Context) (mirrors.Set, error)
}

func (s *cutSource) ProgressObjects() workloads.Objects {
	return workloads.Objects{Pools: []*mcfgv1.MachineConfigPool{s.pool}, Nodes: []*corev1.Node{s.node}}
}

func (s *cutSource) ProgressChanges() uint64 { return 0 }

func (s *cutSource) Rendered(_ context.Context, name string) (*rollout.Rendered, error) {
	return &rollout.Rendered{Name: name, Files: rollout.Files{mirrors.RegistriesConfPath: []byte("unqualified-search-registries = ['docker.io']\n")}}, nil
}

func (s *cutSource) Mirrors(ctx context.Context) (mirrors.Set, error) { return s.mirrors(ctx) }

// TestUnread: pods have not left nodes because the cluster could not be read.
func TestUnread(t *testing.T) {
	w := &Watcher{Options: Options{Config: func() (*rest.Config, error) { return nil, errors.New("no credentials") }}}
	if d := w.readAll(t.Context()); !slices.Contains(d.cluster.Unknown, workloads.Pods) || len(d.diagnosis.HoldUps) > 0 {
		t.Errorf("got %+v", d)
	}
}

// TestInterrupted: a watch that ends while it reads says what was missing when it
// could read last, not that it could not read to the end.
func TestInterrupted(t *testing.T) {
	source := &cutSource{pool: new(mcfgv1.MachineConfigPool), node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node-a", Labels: map[string]string{"node-role.kubernetes.io/worker": ""}, Annotations: map[string]string{
			mco + "currentConfig": "rendered-worker-1", mco + "desiredConfig": "rendered-worker-1", mco + "state": "Done",
		},
	}}}
	if err := yaml.Unmarshal([]byte(pool), source.pool); err != nil {
		t.Fatal(err)
	}
	w := &Watcher{Options: Options{Check: func([]*mcfgv1.MachineConfigPool) error { return nil }}, tracker: progress.NewTracker(0), reader: rollouts.NewReader(source)}
	set, err := mirrors.Parse([]byte(`{apiVersion: config.openshift.io/v1, kind: ImageTagMirrorSet, metadata: {name: shop},
spec: {imageTagMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop]}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	source.mirrors = func(context.Context) (mirrors.Set, error) {
		return mirrors.Put(set).Apply(mirrors.Set{}), nil
	}
	if _, err := w.observe(t.Context(), noon); err != nil || w.reach.Missing == "" {
		t.Fatalf("%v, %+v", err, w.reach)
	}
	ctx, cancel := context.WithCancel(t.Context())
	source.pool = source.pool.DeepCopy()
	source.pool.Spec.Configuration.Name = "rendered-worker-2" // so that the mirror objects are read again
	source.mirrors = func(reading context.Context) (mirrors.Set, error) {
		cancel()
		return mirrors.Set{}, context.Cause(reading)
	}
	_, err = w.observe(ctx, noon)
	if got := w.interrupted(ctx, err).Error(); !strings.HasPrefix(got, "interrupted; still missing: ") {
		t.Errorf("got %q", got)
	}
}
