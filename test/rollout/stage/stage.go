// Package stage starts the controllers that a rollout goes through, each as it is: those of
// the Machine Config Operator that make a MachineConfig of mirror objects, update one node
// after the other and drain it, and Kubernetes' scheduler and controllers for evicted pods, on the API
// server of test/cluster.
//
//	s := stage.New(t, stage.Setup{})
//	nodes := s.AddNodes(ctx, registries, stage.Node{Name: "worker-1", Roles: []string{"worker"}})
//	s.Apply(ctx, itms)
//	rest := nodes.Await(ctx)
//	events := nodes.Events()
//
// Daemon and kubelet of a node are played, as these need a real one. Its images are pulled
// from real registries.
package stage

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// A Stage is a cluster whose controllers run. Its methods end the test if they fail.
type Stage struct {
	*cluster.Cluster
	// Client is that of an administrator; it knows MachineConfigs and configuration.
	Client client.Client

	t        testing.TB
	setup    Setup
	timeline timeline
	// controllers are those of MCO, where they can be stopped.
	controllers *Process
	logs        string
}

// A Setup is what a stage is like before the first change. The zero Setup is a highly
// available cluster with pool worker.
type Setup struct {
	// Topology is that of the control plane, HighlyAvailable if it is "".
	Topology configv1.TopologyMode
	// Pools are the MachineConfigPools; worker if there are none.
	Pools []Pool
	// Policies are what MachineConfiguration cluster wants to happen on nodes whose files
	// change.
	Policies []operatorv1.NodeDisruptionPolicySpecFile
	// Retry is after how long a daemon tries a config again that it could not apply; 0 means
	// that it does not.
	Retry time.Duration
	// ControllerPod is set where MCO's controllers run only while a pod of Deployment
	// machine-config-controller does: see Nodes.FollowPods.
	ControllerPod bool
	// NotReadyAfter is how long after its last word a node is NotReady; 0 is Kubernetes' default.
	NotReadyAfter time.Duration
}

func (s Setup) disruption() operatorv1.NodeDisruptionPolicyConfig {
	return operatorv1.NodeDisruptionPolicyConfig{Files: s.Policies}
}

//go:embed objects.yaml
var objects string

// ReleaseImage is that of the cluster.
const ReleaseImage = "quay.io/openshift-release-dev/ocp-release@sha256:0000000000000000000000000000000000000000000000000000000000000000"

// New starts a stage that ends with the test. The test is skipped where the programs are
// not in place, and in a run with -short.
func New(t testing.TB, setup Setup) *Stage {
	t.Helper()
	for _, name := range []string{"mco-controllers", "kube-controller-manager", "kube-scheduler", "templates", "crds"} {
		program(t, name)
	}
	if setup.Topology == "" {
		setup.Topology = configv1.HighlyAvailableTopologyMode
	}
	if len(setup.Pools) == 0 {
		setup.Pools = []Pool{{Name: "worker"}}
	}
	s := &Stage{t: t, setup: setup}
	s.startCluster()
	ctx := t.Context()
	s.Apply(ctx, strings.NewReplacer(
		"TOPOLOGY", string(setup.Topology),
		"SCHEDULABLE", strconv.FormatBool(setup.Topology == configv1.SingleReplicaTopologyMode),
	).Replace(objects))
	for _, pool := range setup.Pools {
		s.Apply(ctx, pool.manifest())
	}
	s.completeInstallation(ctx)
	s.startControllers()
	return s
}

// Pools are those of the stage.
func (s *Stage) Pools() []Pool { return s.setup.Pools }

// program returns the path of one that assets puts into bin/rollout.
func program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(repo.Root(), "bin", "rollout", name)
	if _, err := os.Stat(path); err != nil {
		skip.Now(t, name+" is not in place: run test/rollout/assets (make rollout-assets)")
	}
	return path
}

// startCluster starts the control plane, which logs evictions.
func (s *Stage) startCluster() {
	s.t.Helper()
	dir := s.t.TempDir()
	policy, log := filepath.Join(dir, "audit-policy.yaml"), filepath.Join(dir, "audit.log")
	s.must(os.WriteFile(policy, []byte(auditPolicy), 0o600))
	s.must(os.WriteFile(log, nil, 0o600))
	s.Cluster = cluster.New(s.t, cluster.WithAudit(policy, log))
	var err error
	s.timeline.audit, err = os.Open(log)
	s.must(err)
	s.t.Cleanup(func() { _ = s.timeline.audit.Close() }) // it was only read
	s.must(s.connect())
	err = cluster.InstallCRDs(s.Config, envtest.CRDInstallOptions{Paths: []string{program(s.t, "crds")}, ErrorIfPathMissing: true})
	s.must(err)
	s.must(s.serveAlpha("clusterimagepolicies.config.openshift.io"))
	s.must(s.serveAlpha("imagepolicies.config.openshift.io"))
}

// serveAlpha has a CRD serve what it serves as v1 as v1alpha1, too: by that name the pinned
// controllers read image policies, as clusters did when they were released.
func (s *Stage) serveAlpha(name string) error {
	crds, err := apiextensions.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		crd, err := crds.ApiextensionsV1().CustomResourceDefinitions().Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		alpha := *crd.Spec.Versions[0].DeepCopy()
		alpha.Name, alpha.Storage = "v1alpha1", false
		crd.Spec.Versions = append(crd.Spec.Versions, alpha)
		_, err = crds.ApiextensionsV1().CustomResourceDefinitions().Update(s.t.Context(), crd, metav1.UpdateOptions{})
		return err
	})
}

func (s *Stage) connect() error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, configv1.Install, mcfgv1.Install, operatorv1.Install} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	s.Client, err = client.New(s.Config, client.Options{Scheme: scheme})
	return err
}

func (s *Stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Apply applies manifests as an administrator, who tries again if the guard had no time for a verdict.
func (s *Stage) Apply(ctx context.Context, manifests string) {
	s.t.Helper()
	s.Wait(ctx, "kubectl apply", func() (bool, error) {
		out, err := s.Kubectl(ctx, manifests, "apply", "-f", "-")
		switch {
		case err == nil:
			return true, nil
		case IsUndecided(out):
			return false, errors.New(out)
		}
		s.t.Fatalf("kubectl apply: %v\n%s", err, out)
		return false, nil
	})
}

// IsUndecided reports whether kubectl's output says that the guard gave no verdict, as on a machine that
// had something else to do for too long.
func IsUndecided(out string) bool {
	return strings.Contains(out, "there is no verdict") || strings.Contains(out, "failed calling webhook")
}

// completeInstallation writes what controllers write that do not run here: the cluster
// version operator's release image, the policies in force by MCO's operator, and the
// template controller's word that it is done, without which the render controller waits
// for ever.
func (s *Stage) completeInstallation(ctx context.Context) {
	s.t.Helper()
	s.patchStatus(ctx, &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}}, configv1.ClusterVersionStatus{
		Desired:          configv1.Release{Version: "4.20.0", Image: ReleaseImage},
		AvailableUpdates: []configv1.Release{},
		VersionHash:      "none",
	})
	s.patchStatus(ctx, &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}, configv1.InfrastructureStatus{
		ControlPlaneTopology: s.setup.Topology, InfrastructureTopology: s.setup.Topology, CPUPartitioning: configv1.CPUPartitioningNone,
	})
	s.setDisruption(ctx)
	controller := &mcfgv1.ControllerConfig{ObjectMeta: metav1.ObjectMeta{Name: "machine-config-controller"}}
	s.must(s.Client.Get(ctx, client.ObjectKeyFromObject(controller), controller))
	status := mcfgv1.ControllerConfigStatus{ObservedGeneration: controller.Generation}
	for _, c := range []mcfgv1.ControllerConfigStatusCondition{
		{Type: mcfgv1.TemplateControllerCompleted, Status: corev1.ConditionTrue},
		{Type: mcfgv1.TemplateControllerRunning, Status: corev1.ConditionFalse},
		{Type: mcfgv1.TemplateControllerFailing, Status: corev1.ConditionFalse},
	} {
		c.LastTransitionTime = metav1.Now()
		status.Conditions = append(status.Conditions, c)
	}
	s.patchStatus(ctx, controller, status)
}

func (s *Stage) setDisruption(ctx context.Context) {
	s.t.Helper()
	files, err := json.Marshal(s.setup.Policies)
	s.must(err)
	spec := "managementState: Managed"
	if len(s.setup.Policies) > 0 {
		spec += ", nodeDisruptionPolicy: {files: " + string(files) + "}"
	}
	s.Apply(ctx, "{apiVersion: operator.openshift.io/v1, kind: MachineConfiguration, metadata: {name: cluster}, spec: {"+spec+"}}")
	s.patchStatus(ctx, &operatorv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}, map[string]any{
		"nodeDisruptionPolicyStatus": map[string]any{"clusterPolicies": rollout.MergePolicies(s.setup.disruption())},
	})
}

// patchStatus sets what status has.
func (s *Stage) patchStatus(ctx context.Context, o client.Object, status any) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	s.must(err)
	s.must(s.Client.Status().Patch(ctx, o, client.RawPatch("application/merge-patch+json", patch)))
}

// kubernetesControllers are those that a rollout needs. Others would want more of a cluster.
var kubernetesControllers = []string{
	"deployment-controller", "replicaset-controller", "daemonset-controller", "statefulset-controller",
	"disruption-controller", "taint-eviction-controller", "node-lifecycle-controller",
	"pod-garbage-collector-controller", "garbage-collector-controller", "namespace-controller", "resourcequota-controller",
}

func (s *Stage) startControllers() {
	s.t.Helper()
	StartKubernetes(s.t, s.Cluster, kubernetesControllers, s.nodeArgs()...)
	if s.setup.ControllerPod {
		s.logs = s.t.TempDir()
		s.must(s.runControllers(true))
		s.t.Cleanup(func() { s.must(s.runControllers(false)) }) // nodes have ended by then
		return
	}
	start(s.t, "mco-controllers", s.controllerArgs()...)
}

// StartKubernetes starts kube-controller-manager, with some of its controllers and further
// arguments, and kube-scheduler. They end with the test, which is skipped where they are not in
// place.
func StartKubernetes(t testing.TB, c *cluster.Cluster, controllers []string, args ...string) {
	t.Helper()
	shared := []string{"--kubeconfig", c.Kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"}
	start(t, "kube-controller-manager", slices.Concat(shared, args, []string{"--controllers=" + strings.Join(controllers, ",")})...)
	start(t, "kube-scheduler", shared...)
}

// nodeArgs say when a node counts as NotReady.
func (s *Stage) nodeArgs() []string {
	if s.setup.NotReadyAfter == 0 {
		return nil
	}
	return []string{"--node-monitor-grace-period=" + s.setup.NotReadyAfter.String(), "--node-monitor-period=2s"}
}

func (s *Stage) controllerArgs() []string {
	return []string{"-kubeconfig", s.Kubeconfig, "-templates", program(s.t, "templates")}
}

// Rendered waits until a pool is to have another rendered config than before, with the file of
// mirrors, and returns its name. MCO makes that file without any mirror object as well, in a
// MachineConfig of its own, which the first config of a pool may be without.
func (s *Stage) Rendered(ctx context.Context, pool, before string) string {
	s.t.Helper()
	var p mcfgv1.MachineConfigPool
	s.Wait(ctx, fmt.Sprintf("pool %s to have another config than %q", pool, before), func() (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKey{Name: pool}, &p)
		return hasRegistries(p) && p.Spec.Configuration.Name != before, err
	})
	return p.Spec.Configuration.Name
}

// hasRegistries reports whether the config of a pool has the file of mirrors. MCO makes one for each
// built-in pool (syncImageConfig in its pkg/controller/container-runtime-config), and custom pools
// take that of worker.
func hasRegistries(p mcfgv1.MachineConfigPool) bool {
	return slices.ContainsFunc(p.Spec.Configuration.Source, func(o corev1.ObjectReference) bool { return strings.HasSuffix(o.Name, "-generated-registries") })
}

// maxWait is far more than the longest rollout takes on a machine with nothing else to do, a
// minute.
const maxWait = 12 * time.Minute

// Wait asks until done, or fails after maxWait.
func (s *Stage) Wait(ctx context.Context, what string, done func() (bool, error)) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok && err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("waiting for %s: %v (last: %v)", what, ctx.Err(), err)
		}
	}
}
