package deployed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/load"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// controllers are those that the guard's manifests need.
var controllers = []string{
	"deployment-controller", "replicaset-controller", "endpointslice-controller", "disruption-controller",
	"node-lifecycle-controller", "taint-eviction-controller", "pod-garbage-collector-controller", "garbage-collector-controller",
}

// An installation is the guard's manifests on a cluster.
type installation struct {
	*cluster.Cluster
	kube    kubernetes.Interface
	api     dynamic.Interface
	dir     string
	binary  string
	front   *registries.Front
	secret  *certificates.Mounted
	network *network
	kubelet *kubelet
	nodes   []string
}

// routing is a way by which the API server reaches the Service of a webhook.
type routing struct {
	name string
	// direct is set where it chooses an endpoint that is ready itself, as on OpenShift
	// (cluster-kube-apiserver-operator, bindata/assets/config/defaultconfig.yaml:
	// enable-aggregator-routing). Otherwise it connects to the Service's address.
	direct bool
	// lag is how long a node sends connections to that address to the endpoints of before.
	lag time.Duration
}

// install starts a cluster and installs the guard, which is a program.
func install(t *testing.T, by routing, binary string) *installation {
	t.Helper()
	i := &installation{dir: t.TempDir(), binary: binary, network: newNetwork(t)}
	i.Cluster = cluster.New(t, i.routed(t, by))
	i.api = load.Client(t, i.Config)
	var err error
	i.kube, err = kubernetes.NewForConfig(i.Config)
	must(t, err)
	stage.StartKubernetes(t, i.Cluster, controllers, "--node-monitor-grace-period=1h") // nodes report once
	for n := range 4 {
		i.addNode(t, fmt.Sprint("worker-", n+1))
	}
	i.front = load.Registry(t)
	must(t, os.WriteFile(filepath.Join(i.dir, "registry.pem"), i.front.CA, 0o600))

	i.kubectl(t, load.Workload+guard.PullSecret, "apply", "-f", "-")
	i.kubectl(t, "", "create", "namespace", "openshift-config-managed")
	ca := i.issue(t)
	i.follow(t, by.lag)
	i.apply(t, ca)
	service, err := i.kube.CoreV1().Services(webhook.Namespace).Get(t.Context(), webhook.ServiceName, metav1.GetOptions{})
	must(t, err)
	i.network.serve(service)
	return i
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// routed has the API server reach webhooks through the network.
func (i *installation) routed(t *testing.T, by routing) cluster.Option {
	t.Helper()
	file := filepath.Join(i.dir, "egress.yaml")
	must(t, os.WriteFile(file, []byte(`
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: "`+i.network.proxy+`"}}}
`), 0o600))
	return func(c *envtest.ControlPlane) {
		args := c.GetAPIServer().Configure().Append("egress-selector-config-file", file)
		if by.direct {
			args.Append("enable-aggregator-routing", "true")
		}
	}
}

// addNode adds a node that is ready.
func (i *installation) addNode(t *testing.T, name string) {
	t.Helper()
	node := stage.Node{Name: name, Roles: []string{"worker"}}.Object()
	node.Status = stage.NodeStatus(true)
	_, err := i.kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	must(t, err)
	i.nodes = append(i.nodes, name)
}

// issue plays the service CA: it writes the serving certificate, and returns what verifies it.
func (i *installation) issue(t *testing.T) []byte {
	t.Helper()
	var err error
	i.secret, err = certificates.Mount(t.TempDir())
	must(t, err)
	pair, ca, err := i.secret.Add([]string{webhook.ServiceName + "." + webhook.Namespace + ".svc"}, time.Hour)
	must(t, err)
	must(t, i.secret.Use(pair))
	return ca
}

// follow has kubelets and network hear of pods and endpoints until the test ends.
func (i *installation) follow(t *testing.T, lag time.Duration) {
	t.Helper()
	i.kubelet = newKubelet(t, i)
	all := informers.NewSharedInformerFactoryWithOptions(i.kube, 0, informers.WithNamespace(webhook.Namespace))
	pods, slices := all.Core().V1().Pods().Informer(), all.Discovery().V1().EndpointSlices()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { i.kubelet.see(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { i.kubelet.see(o.(*corev1.Pod)) },
	})
	must(t, err)
	changed := func() {
		if now, err := slices.Lister().List(labels.Everything()); err == nil { // of what is in memory
			i.network.follow(now, lag)
		}
	}
	_, err = slices.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	must(t, err)
	stop := make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		all.Shutdown()
	})
	all.Start(stop)
}

// apply installs the manifests as they are, but for the caBundle, which the service CA writes.
func (i *installation) apply(t *testing.T, ca []byte) {
	t.Helper()
	var kustomization struct{ Resources []string }
	text, err := manifests.Base.ReadFile("base/kustomization.yaml")
	must(t, err)
	must(t, yaml.Unmarshal(text, &kustomization))
	config, err := manifests.WebhookConfiguration()
	must(t, err)
	for n := range config.Webhooks {
		config.Webhooks[n].ClientConfig.CABundle = ca
	}
	webhooks, err := yaml.Marshal(config)
	must(t, err)
	all := string(webhooks)
	for _, name := range kustomization.Resources {
		if name == "validatingwebhookconfiguration.yaml" || !strings.HasSuffix(name, ".yaml") { // a folder is for monitoring
			continue
		}
		text, err := manifests.Base.ReadFile("base/" + name)
		must(t, err)
		all += "---\n" + string(text)
	}
	i.kubectl(t, all, "apply", "-f", "-")
}

// registryArgs are the arguments that a guard gets besides those of the manifests.
func (i *installation) registryArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig", kubeconfig, "--allow-loopback", "--registry-ca", filepath.Join(i.dir, "registry.pem"),
		"--resolve", load.MirrorHost + "=" + i.front.Addr(load.MirrorHost), "--resolve", load.SourceHost + "=" + i.front.Addr(load.SourceHost),
	}
}

func (i *installation) kubectl(t *testing.T, stdin string, args ...string) {
	t.Helper()
	if out, err := i.Kubectl(t.Context(), stdin, args...); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// pods returns the guard's.
func (i *installation) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := i.kube.CoreV1().Pods(webhook.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// settle waits until there are so many replicas, all of them ready, and none that is ending. It
// returns the node of each pod.
func (i *installation) settle(t *testing.T, replicas int) map[string]string {
	t.Helper()
	var where map[string]string
	load.Await(t, fmt.Sprintf("%d replicas are ready", replicas), func(ctx context.Context) error {
		pods, err := i.pods(ctx)
		where = map[string]string{}
		for _, p := range pods {
			if p.DeletionTimestamp == nil && isReady(p) {
				where[p.Name] = p.Spec.NodeName
			}
		}
		if err == nil && (len(where) != replicas || len(pods) != replicas) {
			err = fmt.Errorf("%d pods, of which these are ready: %v", len(pods), where)
		}
		return err
	})
	return where
}

func isReady(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
