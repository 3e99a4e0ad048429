package workloads

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// router is what an API server makes of a router, with a canary wherever a rollout does not
// depend on it.
const router = `
metadata:
  namespace: openshift-ingress
  name: router-default-5d8f9c7b6-abcde
  creationTimestamp: "2026-03-01T12:00:00Z"
  labels: {ingresscontroller.operator.openshift.io/deployment-ingresscontroller: default, pod-template-hash: 5d8f9c7b6}
  annotations: {note: canary}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: router-default-5d8f9c7b6, uid: canary, controller: true}]
spec:
  nodeName: worker-1
  hostNetwork: true
  priority: 2000000000
  preemptionPolicy: PreemptLowerPriority
  terminationGracePeriodSeconds: 3600
  schedulerName: default-scheduler
  nodeSelector: {kubernetes.io/os: linux}
  serviceAccountName: router
  imagePullSecrets: [{name: router-dockercfg-x7k2p}]
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {a: b}}}
  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]
  overhead: {cpu: 50m}
  initContainers:
  - {name: setup, image: "quay.io/setup:1", resources: {requests: {cpu: "1"}}}
  - {name: proxy, image: "quay.io/proxy:1", restartPolicy: Always, ports: [{containerPort: 8443, hostPort: 8443, hostIP: 10.0.0.1}]}
  containers:
  - name: router
    image: quay.io/router@sha256:aa
    imagePullPolicy: Always
    args: [canary]
    env: [{name: TOKEN, value: canary}]
    resources: {requests: {cpu: 100m, memory: 256Mi, ephemeral-storage: "0"}, limits: {memory: 1Gi}}
    ports: [{containerPort: 80, hostPort: 80, hostIP: 0.0.0.0, protocol: TCP}, {containerPort: 53, hostPort: 53, protocol: UDP}, {containerPort: 1936}]
  volumes:
  - {name: cert, secret: {secretName: canary}}
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: scratch, ephemeral: {volumeClaimTemplate: {spec: {}}}}
  - {name: tmp, emptyDir: {}}
  - {name: model, image: {reference: "quay.io/model", pullPolicy: IfNotPresent}}
status:
  phase: Running
  conditions: [{type: Initialized, status: "True"}, {type: Ready, status: "True", message: canary}]
`

func TestTrim(t *testing.T) {
	var table Table
	got := table.Trim(podFrom(t, router))
	want := &rollout.Pod{
		Namespace: "openshift-ingress", Name: "router-default-5d8f9c7b6-abcde", Node: "worker-1",
		Owner: rollout.Owner{Kind: "ReplicaSet", Name: "router-default-5d8f9c7b6"}, Started: true, Ready: true,
		Created: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
	spec := got.Spec
	got.Spec = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	pod := podFrom(t, router)
	wantSpec := &rollout.PodSpec{
		Labels: pod.Labels,
		Containers: []rollout.Container{
			{Name: "setup", Image: "quay.io/setup:1", Pull: corev1.PullIfNotPresent},
			{Name: "proxy", Image: "quay.io/proxy:1", Pull: corev1.PullIfNotPresent},
			{Name: "router", Image: "quay.io/router@sha256:aa", Pull: corev1.PullAlways},
			{Image: "quay.io/model", Pull: corev1.PullIfNotPresent},
		},
		NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
		Affinity:     pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations, Spread: pod.Spec.TopologySpreadConstraints,
		HostPorts: []rollout.HostPort{
			{IP: "10.0.0.1", Protocol: corev1.ProtocolTCP, Port: 8443},
			{Protocol: corev1.ProtocolTCP, Port: 80},
			{Protocol: corev1.ProtocolUDP, Port: 53},
		},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1050m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
		Claims:   []string{"data"},
		Priority: 2000000000, Preempts: true, GracePeriod: time.Hour,
		Unset: []corev1.ResourceName{"requests.cpu", "requests.memory", "limits.cpu", "limits.memory"},
	}
	if diff := cmp.Diff(wantSpec, spec); diff != "" {
		t.Errorf("spec: -want +got:\n%s", diff)
	}
	if text := asJSON(t, got) + asJSON(t, encodeSpec(spec)); strings.Contains(text, "canary") {
		t.Errorf("it holds what nothing depends on: %s", text)
	}
}

// TestTrimStates: what a pod that changes goes through.
func TestTrimStates(t *testing.T) {
	const bare = "metadata: {namespace: shop, name: a}\nspec: {containers: [{name: c, image: 'quay.io/a:1'}]}\n"
	for _, tt := range []struct {
		reason, manifest string
		want             *rollout.Pod
	}{
		{"not scheduled yet", bare + "status: {phase: Pending}", &rollout.Pod{}},
		{"without a status, as in a manifest", bare, &rollout.Pod{}},
		{"succeeded", bare + "status: {phase: Succeeded}", nil},
		{"failed, as evicted pods have", bare + "status: {phase: Failed, reason: Evicted}", nil},
		{"started, and not ready", bare + "status: {phase: Running, conditions: [{type: Ready, status: 'False'}]}", &rollout.Pod{Started: true}},
		{
			"being started", bare + "status: {phase: Pending, containerStatuses: [{name: c, ready: false, restartCount: 0, image: '', imageID: '', state: {waiting: {reason: ContainerCreating}}}]}",
			&rollout.Pod{},
		},
		{
			"its second container cannot be pulled", bare + "status: {phase: Pending, initContainerStatuses: [{name: i, ready: true, restartCount: 0, image: '', imageID: '', state: {terminated: {exitCode: 0}}}], " +
				"containerStatuses: [{name: c, ready: false, restartCount: 0, image: '', imageID: '', state: {waiting: {reason: PodInitializing}}}, {name: d, ready: false, restartCount: 0, image: '', imageID: '', state: {waiting: {reason: ImagePullBackOff, message: 'Get https://user:canary@quay.io/v2/: not found'}}}]}",
			&rollout.Pod{Failing: "ImagePullBackOff", FailingContainer: "d", Detail: "Get https://***@quay.io/v2/: not found"},
		},
		{
			"it crashes", bare + "status: {phase: Running, containerStatuses: [{name: c, ready: false, restartCount: 7, image: '', imageID: '', state: {waiting: {reason: CrashLoopBackOff, message: canary}}, lastState: {terminated: {exitCode: 2, reason: Error, message: canary}}}]}",
			&rollout.Pod{Started: true, Failing: "CrashLoopBackOff", FailingContainer: "c", Detail: "it ended with exit code 2 (Error), 7 times"},
		},
		{
			"it cannot be started", bare + "status: {phase: Pending, containerStatuses: [{name: c, ready: false, restartCount: 0, image: '', imageID: '', state: {waiting: {reason: CreateContainerError, message: canary}}}]}",
			&rollout.Pod{Failing: "CreateContainerError", FailingContainer: "c"},
		},
		{
			"no node for it", bare + "status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: 0/3 nodes are available}]}",
			&rollout.Pod{Detail: "0/3 nodes are available"},
		},
		{
			"being deleted", strings.Replace(bare, "name: a", "name: a, deletionTimestamp: '2026-03-01T12:00:00Z'", 1),
			&rollout.Pod{Deleted: true, Ends: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		},
		{
			"ended, being deleted, and kept by finalizers", strings.Replace(bare, "name: a", "name: a, deletionTimestamp: '2026-03-01T12:00:00Z', finalizers: [example.com/a, example.com/b]", 1) + "status: {phase: Succeeded}",
			&rollout.Pod{Deleted: true, Ended: true, Ends: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Finalizers: "example.com/a, example.com/b"},
		},
		{"with finalizers, and not being deleted", strings.Replace(bare, "name: a", "name: a, finalizers: [example.com/a]", 1), &rollout.Pod{Finalizers: "example.com/a"}},
		{"with one that the garbage collector removes", strings.Replace(bare, "name: a", "name: a, finalizers: [foregroundDeletion]", 1), &rollout.Pod{}},
		{
			"of a Job, whose finalizer its controller removes", strings.Replace(bare, "name: a", "name: a, finalizers: [batch.kubernetes.io/job-tracking], ownerReferences: [{kind: Job, name: j, controller: true}]", 1),
			&rollout.Pod{Owner: rollout.Owner{Kind: "Job", Name: "j"}},
		},
		{
			"a mirror pod", strings.Replace(bare, "name: a", "name: a, annotations: {kubernetes.io/config.mirror: ''}, ownerReferences: [{apiVersion: v1, kind: Node, name: master-0, uid: '1', controller: true}]", 1),
			&rollout.Pod{Static: true, Owner: rollout.Owner{Kind: "Node", Name: "master-0"}},
		},
		{
			"of a kind of Kubernetes' name that is another one", strings.Replace(bare, "name: a", "name: a, ownerReferences: [{apiVersion: apps.kruise.io/v1alpha1, kind: DaemonSet, name: d, controller: true}]", 1),
			&rollout.Pod{Owner: rollout.Owner{Kind: "DaemonSet.apps.kruise.io", Name: "d"}},
		},
		{"an owner that is no controller", strings.Replace(bare, "name: a", "name: a, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: '1'}]", 1), &rollout.Pod{}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var table Table
			got := table.Trim(podFrom(t, tt.manifest))
			if tt.want != nil {
				tt.want.Namespace, tt.want.Name, tt.want.Spec = "shop", "a", got.Spec
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestTrimSpec: single fields, and what a broken pod leaves of them.
func TestTrimSpec(t *testing.T) {
	for _, tt := range []struct {
		reason, spec string
		want         rollout.PodSpec
	}{
		{"no containers, no priority, no grace period", "{}", rollout.PodSpec{}},
		{"preempts nobody", "{preemptionPolicy: Never, priority: 7}", rollout.PodSpec{Priority: 7}},
		{"killed at once", "{terminationGracePeriodSeconds: 0}", rollout.PodSpec{}},
		{"runs once", "{restartPolicy: OnFailure}", rollout.PodSpec{Once: true}},
		{"runs for ever", "{restartPolicy: Always}", rollout.PodSpec{}},
		{"gated", "{schedulingGates: [{name: example.com/wait}]}", rollout.PodSpec{Gated: true}},
		{"another scheduler", "{schedulerName: volcano}", rollout.PodSpec{Scheduler: "volcano"}},
		{"a pull secret of its own", "{imagePullSecrets: [{name: vendor}]}", rollout.PodSpec{PullSecrets: []string{"vendor"}}},
		{"the pull secret that OpenShift adds", "{imagePullSecrets: [{name: default-dockercfg-x7k2p}]}", rollout.PodSpec{}},
		{"pull policies as an API server sets them", "{containers: [{name: a, image: 'h:5000/x'}, {name: b, image: 'x:latest'}, {name: c, image: 'h:5000/x:1'}, {name: d, image: 'x:latest@sha256:aa'}, {name: e}]}", rollout.PodSpec{
			Security: rollout.Baseline, Unset: []corev1.ResourceName{"requests.cpu", "requests.memory", "limits.cpu", "limits.memory"},
			Containers: []rollout.Container{
				{Name: "a", Image: "h:5000/x", Pull: corev1.PullAlways},
				{Name: "b", Image: "x:latest", Pull: corev1.PullAlways},
				{Name: "c", Image: "h:5000/x:1", Pull: corev1.PullIfNotPresent},
				{Name: "d", Image: "x:latest@sha256:aa", Pull: corev1.PullIfNotPresent},
				{Name: "e", Pull: corev1.PullAlways},
			},
		}},
		{"requests for the whole pod", "{resources: {requests: {memory: 1Gi}}, containers: [{name: a, image: 'x:1', resources: {requests: {cpu: '2', memory: 2Gi}}}]}", rollout.PodSpec{
			Containers: []rollout.Container{{Name: "a", Image: "x:1", Pull: corev1.PullIfNotPresent}},
			Security:   rollout.Baseline, Unset: []corev1.ResourceName{"limits.cpu", "limits.memory"},
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		}},
		{"on the network of its node", "{hostNetwork: true}", rollout.PodSpec{}},
		{"the strictest level", "{securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: a, image: 'x:1', securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}, resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}}]}", rollout.PodSpec{
			Containers: []rollout.Container{{Name: "a", Image: "x:1", Pull: corev1.PullIfNotPresent}}, Security: rollout.Restricted,
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1")},
		}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var table Table
			got := table.Trim(podFrom(t, "metadata: {namespace: shop, name: a}\nspec: "+tt.spec))
			if len(tt.want.Containers) == 0 && !strings.Contains(tt.spec, "hostNetwork") {
				tt.want.Security = rollout.Restricted
			}
			tt.want.Preempts = !strings.Contains(tt.spec, "Never")
			if !strings.Contains(tt.spec, "terminationGracePeriodSeconds") {
				tt.want.GracePeriod = 30 * time.Second
			}
			if diff := cmp.Diff(&tt.want, got.Spec); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestDaemonSetAffinity: the pods of a DaemonSet share their spec, though each has the name of
// its node in it.
func TestDaemonSetAffinity(t *testing.T) {
	daemon := func(kind, node, bound, term string) *corev1.Pod {
		return podFrom(t, "metadata: {namespace: shop, name: on-"+node+", ownerReferences: [{apiVersion: apps/v1, kind: "+kind+", name: d, uid: '1', controller: true}]}\n"+
			"spec: {nodeName: '"+bound+"', affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ["+term+
			"{matchFields: [{key: metadata.name, operator: In, values: ["+node+"]}]}]}}}, containers: [{name: a, image: 'x:1'}]}")
	}
	var table Table
	a, b := table.Trim(daemon("DaemonSet", "n1", "n1", "")), table.Trim(daemon("DaemonSet", "n2", "n2", ""))
	if a.Spec != b.Spec || a.Spec.Affinity != nil {
		t.Errorf("specs %s and %s, want one without affinity", asJSON(t, a.Spec), asJSON(t, b.Spec))
	}
	const ofTemplate = "{matchExpressions: [{key: gpu, operator: Exists}], matchFields: [{key: metadata.name, operator: In, values: [n1]}]}, "
	both := table.Trim(daemon("DaemonSet", "n1", "n1", ofTemplate))
	if both.Spec.Affinity != nil {
		t.Errorf("one term is the node alone, so that the affinity is %s", asJSON(t, both.Spec.Affinity))
	}
	for reason, pod := range map[string]*corev1.Pod{
		"a pod that is not bound yet":     daemon("DaemonSet", "n1", "", ""),
		"a pod on another node":           daemon("DaemonSet", "n1", "n2", ""),
		"a pod of another kind":           daemon("ReplicaSet", "n1", "n1", ""),
		"a term without the node's name":  daemon("DaemonSet", "n1", "n1", "{matchExpressions: [{key: gpu, operator: Exists}]}, "),
		"a term with the name of another": daemon("DaemonSet", "n1", "n1", "{matchFields: [{key: metadata.name, operator: In, values: [n1, n2]}]}, "),
	} {
		if got := table.Trim(pod).Spec.Affinity; !cmp.Equal(got, pod.Spec.Affinity) {
			t.Errorf("%s: affinity %s, want it as it is", reason, asJSON(t, got))
		}
	}
	rest := daemon("DaemonSet", "n1", "n1", "")
	required := rest.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	required.NodeSelectorTerms[0].MatchExpressions = []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: corev1.NodeSelectorOpExists}}
	got := table.Trim(rest).Spec.Affinity
	want := []corev1.NodeSelectorTerm{{MatchExpressions: required.NodeSelectorTerms[0].MatchExpressions}}
	if diff := cmp.Diff(want, got.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(required.NodeSelectorTerms[0].MatchFields) != 1 {
		t.Error("the pod was changed")
	}
}
