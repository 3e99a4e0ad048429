// Package pools makes nodes and pools of the Machine Config Operator, in few words, for tests of what is made of their state.
package pools

import (
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// TagSet makes the objects from which MCO makes the file of config 2.
func TagSet(source configv1.MirrorSourcePolicy) mirrors.Set {
	o := &configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	o.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: "quay.io/shop", Mirrors: []configv1.ImageMirror{"mirror.example.com/shop"}, MirrorSourcePolicy: source}}
	return mirrors.Put(o).Apply(mirrors.Set{})
}

// Prefix is that of the annotations and labels of the Machine Config Operator.
const Prefix = "machineconfiguration.openshift.io/"

// Node makes a worker that is done with config "1", changed by words: "has=1", "wants=2",
// "state=Working", "reason=text", "asked=drain-2", "drained=drain-2", "cordoned", "by=kubectl",
// "notready", "new" (no annotations).
func Node(name string, words ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/worker": ""}}}
	n.Annotations = map[string]string{Prefix + "currentConfig": "1", Prefix + "desiredConfig": "1", Prefix + "state": "Done"}
	ready := corev1.ConditionTrue
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "has", "wants", "state", "reason", "asked", "drained":
			annotation := map[string]string{
				"has": "currentConfig", "wants": "desiredConfig", "state": "state", "reason": "reason", "asked": "desiredDrain", "drained": "lastAppliedDrain",
			}[key]
			n.Annotations[Prefix+annotation] = value
		case "cordoned":
			n.Spec.Unschedulable = true
		case "by":
			n.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: value, Time: &metav1.Time{Time: Noon}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:unschedulable":{}}}`),
			}}
		case "notready":
			ready = corev1.ConditionFalse
		case "new":
			n.Annotations = nil
		}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "Kubelet", LastTransitionTime: metav1.Time{Time: Noon}}}
	return n
}

// Noon is when everything here began.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Worker makes pool worker, on its way from config "1" to target, changed by words: "paused",
// "deleted", "degraded=message", "norender=message", "updating".
func Worker(target string, words ...string) *mcfgv1.MachineConfigPool {
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker", Labels: map[string]string{Prefix + "mco-built-in": ""}}}
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/worker": ""}}
	p.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchLabels: map[string]string{Prefix + "role": "worker"}}
	p.Spec.Configuration.Name, p.Status.Configuration.Name = target, "1"
	condition := func(kind mcfgv1.MachineConfigPoolConditionType, message string) {
		p.Status.Conditions = append(p.Status.Conditions, mcfgv1.MachineConfigPoolCondition{Type: kind, Status: corev1.ConditionTrue, Message: message})
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "paused":
			p.Spec.Paused = true
		case "deleted":
			p.DeletionTimestamp = &metav1.Time{Time: Noon}
		case "degraded":
			condition(mcfgv1.MachineConfigPoolDegraded, "1 node degraded")
			condition(mcfgv1.MachineConfigPoolNodeDegraded, value)
		case "norender":
			condition(mcfgv1.MachineConfigPoolRenderDegraded, value)
		case "updating":
			condition(mcfgv1.MachineConfigPoolUpdating, "")
		}
	}
	return p
}

// Shop is an entry of registries.conf.
const Shop = `[[registry]]
location = "quay.io/shop"
[[registry.mirror]]
location = "mirror.example.com/shop"
pull-from-mirror = "tag-only"
`

// Rendered makes a rendered config whose registries.conf has the entries of conf.
func Rendered(name, conf string) *rollout.Rendered {
	return &rollout.Rendered{Name: name, Files: rollout.Files{mirrors.RegistriesConfPath: []byte(`unqualified-search-registries = ["registry.access.redhat.com", "docker.io"]` + "\n" + conf)}}
}

// Cluster makes one of a pool with nodes.
func Cluster(pool *mcfgv1.MachineConfigPool, nodes ...*corev1.Node) rollout.Cluster {
	pool.Status.MachineCount = int32(len(nodes))
	return rollout.Cluster{Pools: []*mcfgv1.MachineConfigPool{pool}, Nodes: nodes}
}

// Configs makes rendered configs "1" and "2", which has the entries of Shop.
func Configs() map[string]*rollout.Rendered {
	return map[string]*rollout.Rendered{"1": Rendered("1", ""), "2": Rendered("2", Shop)}
}
