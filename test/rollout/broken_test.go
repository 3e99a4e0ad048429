package rollout

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/rollout/stage"
)

// A broken is a pool that does not get through a rollout, for one cause.
type broken struct {
	// pool is its name, and begins those of its nodes.
	pool           string
	nodes          int
	maxUnavailable string
	paused         bool
	apps           []app
	// prepare breaks it before the change, later once the change is rendered.
	prepare, later func(context.Context, *scene)
	// cause is what is to be found, with link in its chain. InDump is the cause that a dump
	// shows, where that is another: it has no answers to questions.
	cause  causes.Cause
	link   string
	inDump causes.Cause
}

// nothing is the cause where a dump shows none.
const nothing causes.Cause = "nothing"

// shop is an app of a pool, with two replicas of which one has to be there.
func shop(pool string) app {
	return app{name: pool, replicas: 2, image: sources + "/" + pool + ":v1", role: pool, budget: "minAvailable: 1"}
}

func (a app) withBudget(budget string) app { a.budget = budget; return a }
func (a app) apartFromEachOther() app      { a.apart = true; return a }
func (a app) times(n int) app              { a.replicas = n; return a }

// brokens are pools of one cluster, which a single change of mirrors is to reach.
var brokens = []broken{
	{
		pool: "image", nodes: 2, apps: []app{shop("image").apartFromEachOther().pulledAlways()},
		cause: causes.ImageNotPulled, link: atMirror + "/image:v1 does not have it",
	},
	{
		pool: "late", nodes: 2, apps: []app{shop("late").apartFromEachOther().pulledAlways()},
		prepare: func(_ context.Context, s *scene) {
			s.nodes.Impatient("late-1", 3*time.Second)
			s.nodes.Impatient("late-2", 3*time.Second)
		},
		cause: causes.ImageNotPulled, link: "its drain did not end within an hour",
	},
	{
		pool: "crash", nodes: 2, apps: []app{shop("crash")},
		prepare: func(ctx context.Context, s *scene) {
			s.shell.run(ctx, `kubectl -n app patch deployment crash --type=merge -p '{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}},"template":{"metadata":{"labels":{"`+stage.CrashLabel+`":"yes"}}}}}'`)
			s.await(ctx, "a pod that crashes", func(p *corev1.Pod) bool {
				return p.Labels[stage.CrashLabel] != "" && p.Status.Phase == corev1.PodRunning
			})
		},
		cause: causes.PodFails, link: "it ended with exit code 1 (Error), 4 times",
	},
	{pool: "room", nodes: 2, apps: []app{shop("room").withBudget("minAvailable: 2")}, cause: causes.BudgetFull, link: "it leaves no room for a drain"},
	{pool: "zero", nodes: 2, apps: []app{shop("zero").withBudget("maxUnavailable: 0")}, cause: causes.BudgetFull, link: "it leaves no room for a drain"},
	{
		pool: "two", nodes: 2, apps: []app{shop("two")},
		prepare: func(ctx context.Context, s *scene) {
			s.stage.Apply(ctx, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: two-more, namespace: app}, spec: {maxUnavailable: 1, selector: {matchLabels: {app: two}}}}")
		},
		cause: causes.SeveralBudgets, link: "no pod of several budgets is evicted",
	},
	{
		pool: "place", nodes: 3, maxUnavailable: "2", apps: []app{shop("place").times(3).apartFromEachOther().withBudget("minAvailable: 2")},
		prepare: func(ctx context.Context, s *scene) { // somebody drains a node by hand
			s.nodes.Cordon(ctx, true, "place-3")
			s.shell.run(ctx, "kubectl -n app delete pod -l app=place --field-selector spec.nodeName=place-3")
		},
		cause: causes.PodNotPlaced, link: "node place-3 is cordoned, and not for an update",
	},
	{
		pool: "held", nodes: 2, prepare: func(ctx context.Context, s *scene) { s.nodes.Cordon(ctx, true, "held-2") },
		cause: causes.NodesUnavailable, link: "node held-2 is cordoned",
	},
	{pool: "paused", nodes: 1, paused: true, cause: causes.PoolPaused, link: "pool paused is paused"},
	{
		pool: "file", nodes: 1,
		prepare: func(_ context.Context, s *scene) {
			s.nodes.ChangeFile("file-1", "/etc/containers/registries.conf", []byte("# edited by hand\n"))
		},
		cause: causes.FileChanged, link: "MCO expects /etc/containers/registries.conf as it is in rendered config rendered-file-",
	},
	{
		pool: "gone", nodes: 1, prepare: func(_ context.Context, s *scene) { s.nodes.Hold("gone-1", true) },
		later: func(ctx context.Context, s *scene) {
			s.shell.run(ctx, "kubectl delete machineconfig "+s.before["gone"])
			s.nodes.Hold("gone-1", false)
		},
		cause: causes.ConfigMissing, link: "which is gone: somebody has deleted it",
	},
	{
		pool: "silent", nodes: 1, prepare: func(_ context.Context, s *scene) { s.nodes.Silence("silent-1", true) },
		cause: causes.NodeNotReady, link: "its kubelet says: Kubelet stopped posting node status.",
	},
	{
		pool: "csr", nodes: 1,
		prepare: func(ctx context.Context, s *scene) {
			s.stage.Apply(ctx, kubeletRequest(s.T, "csr-of-csr-1", "csr-1"))
			s.nodes.AwaitCertificate("csr-1", "csr-of-csr-1")
		},
		cause: causes.CertificatePending, link: "CertificateSigningRequest csr-of-csr-1 is not approved", inDump: causes.NodeNotReady,
	},
	{
		// Paused until the mirrors are rendered: once the node has been cordoned for a config without them, and
		// failed, MCO gives it no other.
		pool: "os", nodes: 1, paused: true,
		prepare: func(ctx context.Context, s *scene) {
			bare := s.nodes.Configs(ctx)["os"]
			s.stage.Apply(ctx, "{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfig, metadata: {name: 50-os, labels: {machineconfiguration.openshift.io/role: os}}, spec: {osImageURL: '"+sources+"/os:v2'}}")
			s.stage.Rendered(ctx, "os", bare)
		},
		later: func(ctx context.Context, s *scene) {
			s.registries.Push(sources + "/os:v2") // from where it can be copied
			s.shell.run(ctx, `kubectl patch machineconfigpool os --type=merge -p '{"spec":{"paused":false}}'`)
		},
		cause: causes.SystemNotUpdated, link: "asked just now: " + atMirror + "/os:v2 does not have it",
	},
	{pool: "daemon", nodes: 1, cause: causes.DaemonDown, link: "cannot pull quay.io/mco/daemon:v1"},
	{
		pool: "render", nodes: 1,
		prepare: func(ctx context.Context, s *scene) {
			s.stage.Apply(ctx, "{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfig, metadata: {name: 50-render, labels: {machineconfiguration.openshift.io/role: render}}, spec: {config: {ignition: {version: 9.9.9}}}}")
		},
		cause: causes.NotRendered, link: "MachineConfig 50-render is not in what MCO last rendered for the pool",
	},
	{
		pool: "vm", nodes: 1, apps: []app{shop("vm").times(1).withBudget("")},
		prepare: func(ctx context.Context, s *scene) { s.stage.Apply(ctx, noEviction) },
		cause:   causes.EvictionRefused, link: "it is migrated first", inDump: nothing,
	},
}

// noEviction is how an add-on keeps its pods from being evicted.
const noEviction = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: vm}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods/eviction], operations: [CREATE]}]}
  validations: [{expression: "!object.metadata.name.startsWith('vm-')", message: it is migrated first}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: vm}
spec: {policyName: vm, validationActions: [Deny]}
`

// mcoPods are those of MCO. The controller runs on a node that no change reaches.
const mcoPods = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: machine-config-daemon, namespace: openshift-machine-config-operator}
spec:
  selector: {matchLabels: {k8s-app: machine-config-daemon}}
  template:
    metadata: {labels: {k8s-app: machine-config-daemon}}
    spec:
      automountServiceAccountToken: false
      tolerations: [{operator: Exists}]
      containers: [{name: machine-config-daemon, image: "quay.io/mco/daemon:v1", imagePullPolicy: IfNotPresent}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: machine-config-controller, namespace: openshift-machine-config-operator}
spec:
  selector: {matchLabels: {k8s-app: machine-config-controller}}
  template:
    metadata: {labels: {k8s-app: machine-config-controller}}
    spec:
      automountServiceAccountToken: false
      nodeSelector: {node-role.kubernetes.io/outside: ""}
      containers: [{name: machine-config-controller, image: "quay.io/mco/daemon:v1", imagePullPolicy: IfNotPresent}]
---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: mco}
spec: {imageTagMirrors: [{source: quay.io/mco, mirrors: [mirror.example.com/mco]}]}
`

// A scene is a cluster in which everything is broken that a pool can be broken by.
type scene struct {
	*testing.T
	stage      *stage.Stage
	registries *stage.Registries
	nodes      *stage.Nodes
	shell      *shell
	guard      string
	hosts      []string          // of registries, beside those that are always there
	before     map[string]string // the config of each pool before the change
	served     []string          // the references that registries serve
}

// newScene makes a cluster with all pools, whose apps run.
func newScene(t *testing.T) *scene {
	t.Helper()
	setup := stage.Setup{Pools: []stage.Pool{{Name: "worker"}}, Retry: 2 * time.Second, ControllerPod: true, NotReadyAfter: 50 * time.Second}
	const mcoImage = "quay.io/mco/daemon:v1"
	nodes := []stage.Node{{Name: "outside", Roles: []string{"outside"}, Cached: []string{mcoImage}, Unmanaged: true}}
	var serves []string
	for _, b := range brokens {
		setup.Pools = append(setup.Pools, stage.Pool{Name: b.pool, MaxUnavailable: b.maxUnavailable, Paused: b.paused})
		for _, a := range b.apps {
			serves = append(serves, a.image)
			if b.cause != causes.ImageNotPulled {
				serves = append(serves, strings.Replace(a.image, sources, atMirror, 1))
			}
		}
	}
	for i := range 3 { // the first of each pool, then the second: those of a pool differ in age
		for _, b := range brokens {
			if i < b.nodes {
				n := stage.Node{Name: fmt.Sprintf("%s-%d", b.pool, i+1), Roles: []string{b.pool, "worker"}}
				if b.pool != "daemon" {
					n.Cached = []string{mcoImage}
				}
				nodes = append(nodes, n)
			}
		}
	}
	s := &scene{T: t, stage: stage.New(t, setup), registries: stage.NewRegistries(t), guard: filepath.Join(t.TempDir(), "mirrorset-guard")}
	if err := cluster.BuildGuard(s.guard); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	s.registries.Push(serves...)
	bare := map[string]string{}
	for _, p := range setup.Pools {
		bare[p.Name] = s.stage.Rendered(ctx, p.Name, "")
	}
	s.stage.Apply(ctx, mcoPods)
	for _, p := range setup.Pools { // in any order; a node with a config of before would have a rollout of its own
		s.stage.Rendered(ctx, p.Name, bare[p.Name])
	}
	s.nodes = s.stage.AddNodes(ctx, s.registries, nodes...)
	s.shell = newShell(t, s.stage.KubectlPath(), s.stage.Kubeconfig, s.guard, s.play)
	s.await(ctx, "the controller", func(p *corev1.Pod) bool {
		return p.Labels["k8s-app"] == "machine-config-controller" && p.Status.Phase == corev1.PodRunning
	})
	s.nodes.FollowPods()
	s.startApps(ctx)
	return s
}

func (s *scene) startApps(ctx context.Context) {
	s.Helper()
	told := &telling{T: s.T, stage: s.stage, nodes: s.nodes}
	manifests := "{apiVersion: v1, kind: Namespace, metadata: {name: app}}\n"
	for _, b := range brokens {
		for _, a := range b.apps {
			told.apps = append(told.apps, a)
			manifests += "---" + a.manifest()
		}
	}
	s.stage.Apply(ctx, manifests)
	s.stage.Wait(ctx, "the apps to run", func() (bool, error) {
		var pods corev1.PodList
		err := s.stage.Client.List(ctx, &pods, client.InNamespace("app"))
		want := 0
		for _, a := range told.apps {
			want += a.replicas
		}
		return len(pods.Items) == want && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning }), err
	})
}

// await waits for a pod.
func (s *scene) await(ctx context.Context, what string, is func(*corev1.Pod) bool) {
	s.Helper()
	s.stage.Wait(ctx, what, func() (bool, error) {
		var pods corev1.PodList
		err := s.stage.Client.List(ctx, &pods)
		return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return is(&p) }), err
	})
}

// play does what commands do outside of the API server.
func (s *scene) play(args []string, input []byte) (string, error) {
	command := strings.Join(args, " ")
	switch {
	case strings.HasPrefix(command, "skopeo copy "):
		from, to := args[len(args)-2], args[len(args)-1]
		return "", s.registries.Mirror(s.Context(), strings.TrimPrefix(from, "docker://"), strings.TrimPrefix(to, "docker://"))
	case strings.HasPrefix(command, "ssh core@") && strings.HasSuffix(command, " sudo systemctl restart crio kubelet"):
		s.nodes.Silence(strings.TrimPrefix(args[1], "core@"), false)
		return "", nil
	}
	node, onNode, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(command, "oc debug "), "-i "), " -- chroot /host ")
	node = strings.TrimPrefix(node, "node/")
	if push, ok := strings.CutPrefix(onNode, "podman push --authfile /var/lib/kubelet/config.json "); ok {
		image, to, _ := strings.Cut(push, " docker://")
		if !s.nodes.Has(node, image) {
			return "", fmt.Errorf("%s: image not known", image)
		}
		return "", s.registries.Copy(to)
	}
	switch file, tee := strings.CutPrefix(onNode, "tee "); {
	case ok && onNode == "touch /run/machine-config-daemon-force":
		s.nodes.Force(node)
		return "", nil
	case ok && tee:
		s.nodes.ChangeFile(node, file, input)
		return string(input), nil
	}
	return "", fmt.Errorf("nobody knows how to play %q", command)
}

// diagnose runs the command. Dump is a file, "" for the cluster.
func (s *scene) diagnose(ctx context.Context, dump string) (v1alpha1.Diagnosis, int) {
	s.Helper()
	args := []string{"rollout", "diagnose", "-o", "json", "--from", dump}
	if dump == "" {
		args = []string{"rollout", "diagnose", "-o", "json", "--kubeconfig", s.stage.Kubeconfig, "--registry-ca", s.registries.CA}
		for _, host := range append([]string{"quay.io", mirrorHost}, s.hosts...) {
			args = append(args, "--resolve", host+"="+s.registries.Front.Addr(host))
		}
	}
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, s.guard, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	var d v1alpha1.Diagnosis
	if err := json.Unmarshal([]byte(out.String()), &d); err != nil {
		s.Fatalf("%v: %v\n%s%s", args, err, out.String(), errs.String())
	}
	return d, cmd.ProcessState.ExitCode()
}

// awaitCauses diagnoses until all causes are found that there are, and no others.
func (s *scene) awaitCauses(ctx context.Context, found func(v1alpha1.Diagnosis) string) v1alpha1.Diagnosis {
	s.Helper()
	var d v1alpha1.Diagnosis
	missing := ""
	deadline := time.Now().Add(10 * time.Minute) // a minute with nothing else to do
	for ctx.Err() == nil {
		var code int
		if d, code = s.diagnose(ctx, ""); code == 1 {
			last := missing
			if missing = found(d); missing == "" {
				return d
			}
			if missing != last {
				s.Log(missing)
			}
		}
		if time.Now().After(deadline) {
			break
		}
	}
	text, _ := json.MarshalIndent(d, "", " ")
	s.Fatalf("%s\n%s", missing, text)
	return d
}

// isFound says what is missing of what a pool is broken by, or what else is found; "" if all is
// right.
func isFound(d v1alpha1.Diagnosis, inDump bool) string {
	for _, b := range brokens {
		cause, link := b.cause, b.link
		if inDump {
			link = ""
			if b.inDump != "" {
				cause = b.inDump
			}
		}
		f := findingOf(d, b.pool)
		switch {
		case f == nil && cause == nothing:
		case f == nil:
			return fmt.Sprintf("pool %s: nothing is found", b.pool)
		case f.Cause != string(cause) || !strings.Contains(strings.Join(f.Chain, "\n"), link):
			return fmt.Sprintf("pool %s: %s is not found, or without %q", b.pool, cause, link)
		}
	}
	for _, f := range d.Findings {
		if !slices.ContainsFunc(brokens, func(b broken) bool { return b.pool == f.Pool }) {
			return fmt.Sprintf("%s is found for %q", f.Cause, f.Pool)
		}
	}
	return ""
}

// findingOf returns the first finding about a pool, nil for none.
func findingOf(d v1alpha1.Diagnosis, pool string) *v1alpha1.HoldUp {
	i := slices.IndexFunc(d.Findings, func(f v1alpha1.HoldUp) bool { return f.Pool == pool })
	if i < 0 {
		return nil
	}
	return &d.Findings[i]
}

// effective returns the first remedy that changes something.
func effective(f *v1alpha1.HoldUp) string {
	i := slices.IndexFunc(f.Remedies, func(r v1alpha1.Remedy) bool { return !r.ReadOnly })
	if i < 0 {
		return ""
	}
	return f.Remedies[i].Command
}

// TestBroken breaks each pool of a cluster in a way of its own, and changes the mirrors. Diagnose
// names each cause, live and from dumps; the first remedy that it names and that changes
// something lets each pool finish.
func TestBroken(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ctx := t.Context()
	for _, b := range brokens {
		if b.prepare != nil {
			b.prepare(ctx, s)
		}
	}
	s.before = s.nodes.Configs(ctx)
	s.stage.Apply(ctx, manifest(t, tagSet()))
	for _, b := range brokens {
		if b.cause != causes.NotRendered {
			s.stage.Rendered(ctx, b.pool, s.before[b.pool])
		}
	}
	for _, b := range brokens {
		if b.later != nil {
			b.later(ctx, s)
		}
	}
	d := s.awaitCauses(ctx, func(d v1alpha1.Diagnosis) string { return isFound(d, false) })
	s.inDumps(ctx)
	for _, b := range brokens {
		command := effective(findingOf(d, b.pool))
		s.nodes.Note(stage.Changed, command)
		s.shell.run(ctx, command)
	}
	s.awaitRender(ctx, "render")
	s.nodes.AwaitUpdated(ctx)
	s.nodes.Note(stage.Changed, "all pools are updated")
	s.well(ctx)
	s.rejected(ctx)
	s.withoutController(ctx)
}

// awaitRender waits until MCO has rendered a pool that it could not render before, and says that it can: until then the pool
// looks as updated as it was.
func (s *scene) awaitRender(ctx context.Context, pool string) {
	s.Helper()
	s.stage.Rendered(ctx, pool, s.before[pool])
	s.stage.Wait(ctx, "MCO to say that it renders pool "+pool, func() (bool, error) {
		var p mcfgv1.MachineConfigPool
		err := s.stage.Client.Get(ctx, client.ObjectKey{Name: pool}, &p)
		return !slices.ContainsFunc(p.Status.Conditions, func(c mcfgv1.MachineConfigPoolCondition) bool {
			return c.Type == mcfgv1.MachineConfigPoolRenderDegraded && c.Status == corev1.ConditionTrue
		}), err
	})
}

// well checks that nothing is found any more. What passes may take longer than diagnose waits for it
// where the controllers of MCO get little of a busy machine.
func (s *scene) well(ctx context.Context) {
	s.Helper()
	s.stage.Wait(ctx, "diagnose to find nothing", func() (bool, error) {
		d, code := s.diagnose(ctx, "")
		if slices.ContainsFunc(d.Findings, func(f v1alpha1.HoldUp) bool { return !f.Passing }) {
			s.Fatalf("exit code %d: %+v", code, d)
		}
		if code != 0 {
			return false, fmt.Errorf("exit code %d: %+v", code, d)
		}
		return true, nil
	})
}

// rejected has MCO reject the mirror objects, and repairs the first that diagnose names.
func (s *scene) rejected(ctx context.Context) {
	s.Helper()
	before := s.nodes.Configs(ctx)
	// In this order: if MCO renders the first by itself, that is what it makes of both once they are
	// repaired, and no drain comes after it.
	for _, o := range []struct{ name, policy string }{{"other", "AllowContactingSource"}, {"one", "NeverContactSource"}} {
		s.stage.Apply(ctx, fmt.Sprintf("{apiVersion: config.openshift.io/v1, kind: ImageDigestMirrorSet, metadata: {name: %s}, spec: {"+
			"imageDigestMirrors: [{source: quay.io/other, mirrors: [%s/other], mirrorSourcePolicy: %s}]}}", o.name, mirrorHost, o.policy))
	}
	d := s.awaitCauses(ctx, func(d v1alpha1.Diagnosis) string {
		if len(d.Findings) != 1 || d.Findings[0].Cause != string(causes.ObjectsRejected) {
			return "only ObjectsRejected is wanted"
		}
		return ""
	})
	s.shell.run(ctx, effective(&d.Findings[0]), "KUBE_EDITOR=sed -i s/NeverContactSource/AllowContactingSource/")
	s.finish(ctx, before)
}

// withoutController stops the controllers of MCO as somebody scales them to 0.
func (s *scene) withoutController(ctx context.Context) {
	s.Helper()
	before := s.nodes.Configs(ctx)
	s.shell.run(ctx, "kubectl -n openshift-machine-config-operator scale deployment machine-config-controller --replicas=0")
	s.nodes.AwaitControllers(ctx, false)
	s.stage.Apply(ctx, manifest(s.T, digestSet("more", "quay.io/more"))) // by digest, so that no node is drained
	d := s.awaitCauses(ctx, func(d v1alpha1.Diagnosis) string {
		if len(d.Findings) != 1 || d.Findings[0].Cause != string(causes.ControllerDown) {
			return "only ControllerDown is wanted"
		}
		return ""
	})
	s.shell.run(ctx, effective(&d.Findings[0]))
	s.finish(ctx, before)
}

// finish waits until all pools have another config than before.
func (s *scene) finish(ctx context.Context, before map[string]string) {
	s.Helper()
	for pool, config := range before {
		s.stage.Rendered(ctx, pool, config)
	}
	s.well(ctx) // diagnose waits for what passes; a change without drains holds nothing up
	s.nodes.AwaitUpdated(ctx)
}

// kubeletRequest returns a CertificateSigningRequest of the kubelet of a node.
func kubeletRequest(t *testing.T, name, node string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return fmt.Sprintf(`{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: %s}, spec: {
		request: %s, signerName: kubernetes.io/kube-apiserver-client-kubelet, usages: [digital signature, client auth]}}`, name, base64.StdEncoding.EncodeToString(request))
}
