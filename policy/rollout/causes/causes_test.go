package causes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

// mcoPod makes a pod of MCO that is ready, changed by words as cart is.
func mcoPod(app, on string, words ...string) rollout.Pod {
	p := cart(app+"-"+on, on, words...)
	p.Namespace, p.Spec = mcoNamespace, &rollout.PodSpec{
		Labels: map[string]string{"k8s-app": app}, Containers: []rollout.Container{{Name: "c", Image: "quay.io/shop/mco:v1"}},
	}
	p.Owner = rollout.Owner{}
	return p
}

// daemons are those of nodes, and the controller.
func daemons(on ...string) []rollout.Pod {
	pods := []rollout.Pod{mcoPod("machine-config-controller", "m")}
	for _, n := range on {
		pods = append(pods, mcoPod("machine-config-daemon", n))
	}
	return pods
}

// deadlock is the input where node a is drained, cart-1 runs there and cart-2 does not on b,
// changed.
func deadlock(change func(*status.Input), words ...string) status.Input {
	in := input(pools.Worker("2"), pools.Node("a", "wants=2", "state=Working", "asked=drain-2", "drained=uncordon-1"), pools.Node("b", "has=2", "wants=2"))
	in.Cluster.Pods = []rollout.Pod{cart("1", "a"), cart("2", "b", words...)}
	in.Cluster.Budgets = []*policyv1.PodDisruptionBudget{cartBudget("cart", 0, 1, 1)}
	if change != nil {
		change(&in)
	}
	return in
}

// signed lays image policies on the nodes of in. The source has the image with a good signature, the
// mirror has it as given.
func signed(atMirror policy.Presence, signedAt string) func(*status.Input) {
	return func(in *status.Input) {
		files := in.Rendered["2"].Files
		files[policyfile.PolicyJSONPath] = []byte(`{"default":[{"type":"insecureAcceptAnything"}],"transports":{"docker":{"quay.io/shop":[{"type":"sigstoreSigned","keyData":"a2V5"}]}}}`)
		files[policyfile.AttachmentsPath] = []byte("docker:\n  quay.io/shop:\n    use-sigstore-attachments: true\n  mirror.example.com/shop:\n    use-sigstore-attachments: true\n")
		for i := range in.Cluster.Pods {
			in.Cluster.Pods[i].Detail = "Source image rejected: A signature was required, but no signature exists"
		}
		at := status.Answer{Presence: atMirror}
		if signedAt != "" {
			at.Signatures = []status.SignatureAnswer{{Digest: "sha256:" + hex, At: signedAt}}
		}
		in.Evidence.Places = map[status.Place]status.Answer{
			{Location: place("mirror.example.com/shop/cart:v1")}: at,
			{Location: place("quay.io/shop/cart:v1")}:            {Presence: policy.Present, Signatures: []status.SignatureAnswer{{Digest: "sha256:" + hex, At: "quay.io/shop/cart:sha256-" + hex + ".sig", Accepted: true}}},
		}
	}
}

// hex is of no digest.
const hex = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// byDeployment makes the pods of in those of Deployment cart.
func byDeployment(in *status.Input) {
	for i := range in.Cluster.Pods {
		reviseTo(&in.Cluster.Pods[i], "5d")
	}
}

// reviseTo makes a pod of Deployment cart one of another version.
func reviseTo(p *rollout.Pod, hash string) {
	spec := *p.Spec
	spec.Labels = map[string]string{"app": "cart", "pod-template-hash": hash, "topology.kubernetes.io/zone": "a"}
	p.Spec, p.Owner = &spec, rollout.Owner{Kind: "ReplicaSet", Name: "cart-" + hash}
}

func place(ref string) mirrors.Location { return mirrors.Location{Ref: ref} }

// TestCauses: each cause is named with its evidence, and the first thing that does something
// about it.
func TestCauses(t *testing.T) {
	failing := "failing=ImagePullBackOff"
	const mirror, source = "mirror.example.com/shop/cart:v1", "quay.io/shop/cart:v1"
	const always = `oc -n shop patch pdb cart --type=merge -p '{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}'`
	answered := func(atMirror, atSource policy.Presence) func(*status.Input) {
		return func(in *status.Input) {
			in.Evidence.Places = map[status.Place]status.Answer{{Location: place(mirror)}: {Presence: atMirror, Words: "404"}, {Location: place(source)}: {Presence: atSource}}
		}
	}
	itself := func(in *status.Input) { // is not ready, on the node that is being drained
		in.Cluster.Budgets[0], in.Cluster.Pods = cartBudget("cart", 0, 0, 1), in.Cluster.Pods[1:]
		in.Cluster.Pods[0].Node, in.Cluster.Pods[0].Started = "a", true
	}
	full := func(least intstr.IntOrString, counted int32) func(*status.Input) {
		return func(in *status.Input) {
			in.Cluster.Budgets[0] = cartBudget("cart", 0, 2, 2)
			in.Cluster.Budgets[0].Spec.MinAvailable, in.Cluster.Budgets[0].Status.ExpectedPods = &least, counted
			byDeployment(in)
		}
	}
	gaveUp := func(reason string, words ...string) status.Input {
		return input(pools.Worker("2"), pools.Node("a", append(words, "wants=2", "state=Degraded", "reason="+reason)...))
	}
	for _, tt := range []struct {
		reason    string
		in        status.Input
		cause     Cause
		link      string // in the chain
		effective string // the first remedy that changes something, "" for none
	}{
		{"neither place has the image", deadlock(answered(policy.Absent, policy.Absent), failing), ImageNotPulled, "asked just now: " + mirror + " does not have it (404); " + source + " does not have it", "oc debug node/a -- chroot /host podman push --authfile /var/lib/kubelet/config.json " + source + " docker://" + mirror},
		{"the mirror has it by now", deadlock(answered(policy.Present, policy.Unknown), failing), ImageNotPulled, mirror + " has it", "oc -n shop delete pod 2"},
		{"the source has it, and nodes get that far", deadlock(answered(policy.Absent, policy.Present), failing), ImageNotPulled, source + " has it", "oc -n shop delete pod 2"},
		{"the mirror wants credentials", deadlock(answered(policy.Denied, policy.Absent), failing), ImageNotPulled, mirror + " does not let the nodes in", "oc set data secret/pull-secret -n openshift-config --from-file=.dockerconfigjson=FILE"},
		{"the kubelet says why", deadlock(func(in *status.Input) { in.Cluster.Pods[1].Detail = "manifest unknown" }, failing), ImageNotPulled, "its kubelet says: manifest unknown", copyOf(source, mirror)},
		{"pull secrets of its own", deadlock(func(in *status.Input) {
			spec := *in.Cluster.Pods[1].Spec
			spec.PullSecrets = []string{"vendor"}
			in.Cluster.Pods[1].Spec = &spec
		}, failing), ImageNotPulled, "the pod has pull secrets of its own", copyOf(source, mirror)},
		{"no constraint lets it go anywhere", deadlock(func(in *status.Input) {
			in.Cluster.Pods[1].Detail = "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match pod anti-affinity rules."
			in.Cluster.Pods[1].Node = ""
			in.Cluster.Nodes = append(in.Cluster.Nodes, pools.Node("c", "has=2", "wants=2", "cordoned"))
		}, "pending"), PodNotPlaced, "2 node(s) didn't match pod anti-affinity rules.", "oc adm uncordon c"},
		{"scheduling gates", deadlock(func(in *status.Input) {
			in.Cluster.Pods[1].Node, in.Cluster.Pods[1].Spec = "", &rollout.PodSpec{Labels: map[string]string{"app": "cart"}, Gated: true}
		}, "pending"), PodNotPlaced, "it has scheduling gates", "oc -n shop patch pdb cart"},
		{"a new version that crashes", deadlock(func(in *status.Input) {
			in.Cluster.Pods[1].Detail = "it ended with exit code 1 (Error), 7 times"
			byDeployment(in)
			reviseTo(&in.Cluster.Pods[1], "6e")
		}, "failing=CrashLoopBackOff"), PodFails, "its kubelet says: it ended with exit code 1 (Error), 7 times", "oc -n shop rollout undo deployment/cart"},
		{"a bare pod waits for its image, which a place has", deadlock(func(in *status.Input) {
			answered(policy.Absent, policy.Present)(in)
			in.Cluster.Pods[1].Owner = rollout.Owner{}
		}, failing), ImageNotPulled, source + " has it", copyOf(source, mirror)},
		{
			"the mirror lacks the signature", deadlock(signed(policy.Unsigned, ""), "failing=SignatureValidationFailed"), ImageNotPulled, "nodes require a signature of it (the policy.json of a MachineConfig, scope quay.io/shop)",
			"skopeo copy --preserve-digests docker://quay.io/shop/cart:sha256-" + hex + ".sig docker://mirror.example.com/shop/cart:sha256-" + hex + ".sig",
		},
		{
			"nodes reject the signature at the mirror", deadlock(signed(policy.Missigned, "mirror.example.com/shop/cart:sha256-"+hex+".sig"), "failing=SignatureValidationFailed"), ImageNotPulled, "mirror.example.com/shop/cart:v1 has it, and signatures that nodes reject",
			"skopeo copy --preserve-digests docker://quay.io/shop/cart:sha256-" + hex + ".sig docker://mirror.example.com/shop/cart:sha256-" + hex + ".sig",
		},
		{"the mirror has neither", deadlock(signed(policy.Absent, ""), failing), ImageNotPulled, "its kubelet says: Source image rejected", "oc -n shop delete pod 2"},
		{"a pod that is not ready", deadlock(nil, "unready"), PodNotReady, "pod shop/2 on b is not ready", "oc -n shop delete pod 2"},
		{"the only pod crashes, and is to go", deadlock(itself, "failing=CrashLoopBackOff"), PodFails, "pod shop/2 on a does not start: CrashLoopBackOff", always},
		{"the only pod is not ready, and is to go", deadlock(itself, "unready"), PodNotReady, "pod shop/2 on a is not ready", always},
		{"a budget without room, which counts pods that have ended", deadlock(full(intstr.FromInt32(2), 5)), BudgetFull, "it leaves no room for a drain", "n=$(oc -n shop get deployment/cart -o jsonpath='{.spec.replicas}') && oc -n shop scale deployment/cart --replicas=$((n + 1))"},
		{"a budget that asks for a third pod, too", deadlock(full(intstr.FromString("90%"), 2)), BudgetFull, "it leaves no room for a drain", `oc -n shop patch pdb cart --type=merge -p '{"spec":{"minAvailable":null,"maxUnavailable":1}}'`},
		{"a budget that asks for a third pod, which nobody scales", deadlock(func(in *status.Input) {
			full(intstr.FromInt32(3), 2)(in)
			in.Cluster.Pods[0].Owner = rollout.Owner{}
		}), BudgetFull, "it leaves no room for a drain", "oc -n shop delete pod 1"},
		{"a budget that an operator lowers while another of its pods is down", deadlock(func(in *status.Input) {
			in.Cluster.Budgets[0] = ownedBy(cartBudget("cart", 0, 1, 1))
			in.Cluster.Pods[1].Spec = &rollout.PodSpec{Labels: map[string]string{"app": "store"}}
		}, "failing=CrashLoopBackOff"), BudgetFull, "CephCluster data made budget cart, and changes or deletes it by itself\npod shop/2 on b does not start", ""},
		{"an app that an operator counts", deadlock(func(in *status.Input) {
			full(intstr.FromInt32(2), 2)(in)
			in.Cluster.Controllers = []rollout.Controller{{Namespace: "shop", Owner: rollout.Owner{Kind: "Deployment", Name: "cart"}, Maker: "Shop main"}}
		}), BudgetFull, "it leaves no room for a drain", "oc -n shop delete pod 1"},
		{"the routers of OpenShift", deadlock(func(in *status.Input) {
			full(intstr.FromInt32(2), 2)(in)
			for i := range in.Cluster.Pods {
				in.Cluster.Pods[i].Namespace, in.Cluster.Pods[i].Owner.Name = "openshift-ingress", "router-default-5d"
			}
			in.Cluster.Budgets[0].Namespace = "openshift-ingress"
		}), BudgetFull, "it leaves no room for a drain", "n=$(oc -n openshift-ingress get deployment/router-default -o jsonpath='{.spec.replicas}') && oc -n openshift-ingress-operator patch ingresscontroller default --type=merge -p '{\"spec\":{\"replicas\":'$((n + 1))'}}'"},
		{"two budgets", deadlock(func(in *status.Input) { in.Cluster.Budgets = append(in.Cluster.Budgets, cartBudget("other", 1, 2, 1)) }), SeveralBudgets, "pod shop/1 is not evicted: budgets cart and other cover it, and no pod of several budgets is evicted", "oc -n shop delete pdb other"},
		{"nobody keeps budgets up to date", deadlock(func(in *status.Input) { in.Cluster.Budgets[0].Generation = 2 }), BudgetNotObserved, "older than its spec", "oc patch kubecontrollermanager cluster --type=merge -p "},
		{"nobody counts after an eviction", deadlock(func(in *status.Input) { in.Cluster.Budgets[0] = cartBudget("cart", 0, 2, 1) }), BudgetNotObserved, "older than the last eviction", "oc patch kubecontrollermanager cluster --type=merge -p "},
		{"another pod of the same name counts as the one that went", deadlock(func(in *status.Input) {
			in.Cluster.Budgets[0] = cartBudget("cart", 0, 1, 1)
		}), BudgetNotObserved, "counts 1 pod as healthy, and 2 are: for up to two minutes", "oc patch kubecontrollermanager cluster --type=merge -p "},
		{"a budget of bare pods", deadlock(func(in *status.Input) {
			in.Cluster.Budgets[0] = cartBudget("cart", 0, 1, 0)
			in.Cluster.Budgets[0].Status.ExpectedPods = 0
			in.Cluster.Pods[0].Owner = rollout.Owner{}
		}), BudgetNotObserved, "cannot compute the expected number of pods: no controller makes them", `oc -n shop patch pdb cart --type=merge -p '{"spec":{"maxUnavailable":null,"minAvailable":0}}'`},
		{"a budget of pods that nobody scales, of which one is not ready", deadlock(func(in *status.Input) {
			in.Cluster.Pods = append(in.Cluster.Pods, cart("3", "b", "unready"))
			in.Cluster.Budgets[0].Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: "False", Reason: policyv1.SyncFailedReason, Message: "jobs.batch does not implement the scale subresource"}}
		}), BudgetNotObserved, "cannot compute the expected number of pods: jobs.batch does not", `oc -n shop patch pdb cart --type=merge -p '{"spec":{"maxUnavailable":null,"minAvailable":1}}'`},
		{"the API server says by which budget", deadlock(func(in *status.Input) {
			in.Cluster.Budgets[0] = cartBudget("cart", 1, 2, 1)
			in.Evidence.Evictions = map[status.PodName]status.Eviction{{Namespace: "shop", Name: "1"}: {Budgets: true, Words: "The disruption budget cart needs 1 healthy pods and has 1 currently"}}
		}, failing), ImageNotPulled, "the API server says: The disruption budget cart needs 1", copyOf(source, mirror)},
		{"the API server refuses for another reason", deadlock(func(in *status.Input) {
			in.Cluster.Budgets = nil
			in.Evidence.Evictions = map[status.PodName]status.Eviction{{Namespace: "shop", Name: "1"}: {Words: `admission webhook "vm.example.com" denied the request: it runs`}}
		}), EvictionRefused, `admission webhook "vm.example.com" denied`, "oc -n shop delete pod 1"},
		{"a drain past the hour", deadlock(func(in *status.Input) {
			in.Cluster.Nodes[0].Annotations[pools.Prefix+"state"], in.Cluster.Nodes[0].Annotations[pools.Prefix+"reason"] = "Degraded", "failed to drain node: a after 1 hour. Please see machine-config-controller logs for more information"
		}, failing), ImageNotPulled, "its drain did not end within an hour", copyOf(source, mirror)},
		{"a pod that does not end", deadlock(func(in *status.Input) {
			in.Now, in.Cluster.Budgets = pools.Noon, nil
			in.Cluster.Pods[0].Deleted, in.Cluster.Pods[0].Ends = true, pools.Noon.Add(-time.Hour)
		}), PodNotEnding, "was over at 2026-03-01 11:00 UTC (1h0m ago)", "oc -n shop delete pod 1 --force --grace-period=0"},
		{"a pod with a finalizer", deadlock(func(in *status.Input) {
			in.Now, in.Cluster.Budgets = pools.Noon, nil
			in.Cluster.Pods[0].Deleted, in.Cluster.Pods[0].Ends, in.Cluster.Pods[0].Finalizers = true, pools.Noon.Add(-time.Hour), "example.com/keep"
		}), PodNotEnding, "the controllers that set them remove them: example.com/keep", `oc -n shop patch pod 1 --type=merge -p '{"metadata":{"finalizers":null}}'`},
		{
			"a file changed by hand", gaveUp(`unexpected on-disk state validating against rendered-worker-1: content mismatch for file "/etc/containers/registries.conf"`), FileChanged,
			"MCO expects /etc/containers/registries.conf as it is in rendered config rendered-worker-1", "f=$(mktemp) && oc get machineconfig rendered-worker-1 -o jsonpath=",
		},
		{"a mode changed by hand", gaveUp(`mode mismatch for file: "/etc/x"; expected: 420`), FileChanged, "rendered config 1 has no file /etc/x", "oc debug node/a -- chroot /host touch /run/machine-config-daemon-force"},
		{"an OS image that is nowhere", func() status.Input {
			in := gaveUp("failed to update OS to quay.io/shop/os:2: error running rpm-ostree rebase: manifest unknown: exit status 1", "has=2")
			in.Rendered["2"].OSImage = "quay.io/shop/os:2"
			return in
		}(), SystemNotUpdated, "node a looks for it at mirror.example.com/shop/os:2, then quay.io/shop/os:2", copyOf("quay.io/shop/os:2", "mirror.example.com/shop/os:2")},
		{"a disk that is full", gaveUp("error running rpm-ostree rebase: No space left on device"), SystemNotUpdated, "could not be updated", "oc debug node/a -- chroot /host systemctl restart rpm-ostreed"},
		{"a reason of its own", gaveUp("the moon is full"), NodeGaveUp, "the moon is full", ""},
		{"a target that is gone", func() status.Input {
			in := input(pools.Worker("2"), pools.Node("a", "wants=0", "state=Degraded", `reason=machineconfigs "0" not found`))
			in.Unread = map[string]error{"0": fmt.Errorf("MachineConfig 0: %w", rollout.ErrGone)}
			return in
		}(), ConfigMissing, "annotation desiredConfig names rendered config 0, which is gone", "oc annotate node a --overwrite machineconfiguration.openshift.io/desiredConfig=2"},
		{
			"what it has is gone, by the words of its daemon", input(pools.Worker("2"), pools.Node("a", "has=0", "wants=2", "state=Degraded", "reason=missing MachineConfig 0")), ConfigMissing,
			"annotation currentConfig names rendered config 0", "oc annotate node a --overwrite machineconfiguration.openshift.io/desiredConfig=2 machineconfiguration.openshift.io/currentConfig=2 && oc debug node/a -- chroot /host touch /run/machine-config-daemon-force",
		},
		{"no daemon on the node", func() status.Input {
			in := input(pools.Worker("2"), pools.Node("a", "wants=2", "state=Working"), pools.Node("b", "has=2", "wants=2"))
			in.Cluster.Pods = daemons("b")
			return in
		}(), DaemonDown, "DaemonSet machine-config-daemon has no pod there", inMCO + "rollout restart daemonset machine-config-daemon"},
		{"a daemon without its image", func() status.Input {
			in := input(pools.Worker("2"), pools.Node("a", "has=2", "wants=1"))
			in.Cluster.Pods = append(daemons(), mcoPod("machine-config-daemon", "a", failing))
			return in
		}(), DaemonDown, "node a looks for it at mirror.example.com/shop/mco:v1", copyOf("quay.io/shop/mco:v1", "mirror.example.com/shop/mco:v1")},
		{"no controller", func() status.Input {
			in := input(pools.Worker("2"), pools.Node("a"))
			in.Cluster.Pods = daemons("a")[1:]
			return in
		}(), ControllerDown, "its Deployment is scaled to 0", inMCO + "scale deployment machine-config-controller --replicas=1"},
		{"a kubelet that is away", input(pools.Worker("1"), pools.Node("a", "notready")), NodeNotReady, "its kubelet says: Kubelet", "ssh core@a sudo systemctl restart crio kubelet"},
		{"a kubelet without a certificate", func() status.Input {
			in := input(pools.Worker("1"), pools.Node("a", "notready"))
			in.Evidence.Requests = []status.CertificateRequest{{Name: "csr-x", Node: "a"}, {Name: "csr-y", Node: "b"}}
			return in
		}(), CertificatePending, "CertificateSigningRequest csr-x is not approved", "oc adm certificate approve csr-x"},
		{"paused for too long", func() status.Input {
			pool := pools.Worker("1", "paused")
			pool.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "oc", Time: &metav1.Time{Time: pools.Noon}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:paused":{}}}`)}}
			in := input(pool, pools.Node("a"))
			in.Cluster.Certificates = []mcfgv1.ControllerCertificate{{Subject: "CN=openshift-kube-apiserver-operator_kube-apiserver-to-kubelet-signer@1", NotBefore: &metav1.Time{Time: pools.Noon.Add(time.Hour)}}}
			return in
		}(), CertificateWaits, "was made anew on 2026-03-01", "mirrorset-guard rollout resume worker"},
		{"a pool that is being deleted", input(pools.Worker("2", "deleted"), pools.Node("a")), PoolDeletion, "it is being deleted", "oc label node -l 'node-role.kubernetes.io/worker=' node-role.kubernetes.io/worker-"},
		{"a number that MCO cannot read", func() status.Input {
			in := input(pools.Worker("2"), pools.Node("a"))
			in.Cluster.Pools[0].Spec.MaxUnavailable = new(intstr.FromString("many"))
			return in
		}(), Unknown, "no node of pool worker is taken\nits maxUnavailable is invalid", ""},
		{"nodes that nobody takes", input(pools.Worker("2"), pools.Node("a")), Unknown, "nothing that is known keeps MCO from taking one", ""},
		{"a node that cannot hold a set", pinsFailed(source, "failed to pull images: "+source+": manifest unknown"), PinsNotHeld, "node a looks for it at", "oc edit pinnedimageset shop"},
		{"a set that does not fit", pinsFailed(source, "storage available is less than minimum required"), PinsNotHeld, "twice the size", "oc edit pinnedimageset shop"},
		{"an update without end", func() status.Input {
			in := input(pools.Worker("2"), pools.Node("a", "wants=2", "state=Working", "asked=drain-2", "drained=drain-2"))
			machine := &mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			machine.Status.Conditions = []metav1.Condition{{Type: string(mcfgv1.MachineConfigNodeUpdated), Status: "False", LastTransitionTime: metav1.Time{Time: pools.Noon}}}
			in.MachineNodes, in.Now = []*mcfgv1.MachineConfigNode{machine}, pools.Noon.Add(3*time.Hour)
			return in
		}(), Unknown, "its update began at 2026-03-01 12:00 UTC (3h0m ago)", ""},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			d := Diagnose(tt.in, asked(tt.in))
			if len(d.HoldUps) != 1 {
				t.Fatalf("got %+v, want one", d.HoldUps)
			}
			f := d.HoldUps[0]
			if chain := strings.Join(f.Chain.Lines(), "\n"); f.Cause != tt.cause || !strings.Contains(chain, tt.link) {
				t.Errorf("got %s:\n%s\nwant %s: %s", f.Cause, chain, tt.cause, tt.link)
			}
			effective := ""
			if i := slices.IndexFunc(f.Remedies, func(r Remedy) bool { return !r.ReadOnly }); i >= 0 {
				effective = f.Remedies[i].Command
			}
			there := tt.in.Evidence.Places[status.Place{Location: place(mirror)}].Presence
			for _, r := range f.Remedies {
				nothing := there == policy.Absent && strings.HasSuffix(r.Command, mirror) || there == policy.Unsigned && strings.HasSuffix(r.Command, ".sig")
				if strings.Contains(r.Command, " docker://mirror.") && strings.Contains(r.Effect, "is replaced") == nothing {
					t.Errorf("that a tag may be moved is said, or not, as is wrong: %+v", r)
				}
			}
			if !strings.HasPrefix(effective, tt.effective) || (effective == "") != (tt.effective == "") {
				t.Errorf("the first remedy that changes something: got %q, want %q", effective, tt.effective)
			}
			wantLeftToOwner(t, tt.in)
		})
	}
}

// pinsFailed is the input where node a could not hold set shop, in the words of its MachineConfigNode.
func pinsFailed(image, words string) status.Input {
	in := input(pools.Worker("1"), pools.Node("a"))
	set := &mcfgv1.PinnedImageSet{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: mcfgv1.PinnedImageSetSpec{PinnedImages: []mcfgv1.PinnedImageRef{{Name: mcfgv1.ImageDigestFormat(image)}}}}
	in.Cluster.PinnedSets = []*mcfgv1.PinnedImageSet{set}
	in.Cluster.NodePins = []rollout.NodePins{{Node: "a", Pool: "worker", Fails: true, Sets: []mcfgv1.MachineConfigNodeStatusPinnedImageSet{
		{Name: "shop", DesiredGeneration: 2, LastFailedGeneration: 2, LastFailedGenerationError: words},
	}}}
	return in
}

// ownedBy makes a budget that of a CephCluster, as Rook's are.
func ownedBy(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	b = b.DeepCopy()
	b.OwnerReferences = []metav1.OwnerReference{{APIVersion: "ceph.rook.io/v1", Kind: "CephCluster", Name: "data", Controller: new(true)}}
	return b
}

// wantLeftToOwner: were the same budgets an operator's, no remedy would change, outnumber or go around them, and its owner would be
// looked at.
func wantLeftToOwner(t *testing.T, in status.Input) {
	t.Helper()
	in.Cluster.Budgets = convert.Each(in.Cluster.Budgets, ownedBy)
	for _, h := range Diagnose(in, asked(in)).HoldUps {
		asksOwner := false
		for _, r := range h.Remedies {
			asksOwner = asksOwner || strings.Contains(r.Command, "describe cephcluster.ceph.rook.io data")
			refused := slices.ContainsFunc(h.pods, func(p string) bool {
				return strings.HasSuffix(r.Command, " delete pod "+strings.TrimPrefix(p, "shop/"))
			})
			if len(in.Cluster.Budgets) > 0 && (refused || strings.Contains(r.Command+r.Effect, "pdb") || strings.Contains(r.Command+r.Effect, "more replicas") || strings.Contains(r.Command, "scale deployment/")) {
				t.Errorf("a remedy against the owner of a budget: %s (%s)", r.Command, r.Effect)
			}
		}
		if len(in.Cluster.Budgets) > 0 && len(h.pods) > 0 && h.Cause != EvictionRefused && !asksOwner {
			t.Errorf("the owner of the budget is not asked: %+v", h.Remedies)
		}
	}
}

// TestNoHoldUp: what goes its way, and what the API server says is no longer so, is none.
func TestNoHoldUp(t *testing.T) {
	for reason, in := range map[string]status.Input{
		"the objects are behind": deadlock(func(in *status.Input) {
			in.Evidence.Evictions = map[status.PodName]status.Eviction{{Namespace: "shop", Name: "1"}: {Allowed: true}}
		}, "failing=ImagePullBackOff"),
		"a pod within its grace period": deadlock(func(in *status.Input) {
			in.Now, in.Cluster.Budgets = pools.Noon, nil
			in.Cluster.Pods[0].Deleted, in.Cluster.Pods[0].Ends = true, pools.Noon.Add(-time.Minute)
		}),
		"a node that reboots": func() status.Input {
			in := input(pools.Worker("2"), pools.Node("a", "wants=2", "state=Working", "notready"))
			in.Now = pools.Noon.Add(10 * time.Minute)
			return in
		}(),
		"dumps without the pods of MCO": func() status.Input {
			in := input(pools.Worker("1"), pools.Node("a"))
			in.Cluster.Pods, in.Cluster.Namespaces = []rollout.Pod{cart("1", "a")}, map[string]labels.Set{"shop": nil}
			return in
		}(),
		"a pool that is well": func() status.Input {
			in := input(pools.Worker("1"), pools.Node("a"))
			in.Cluster.Pods = daemons("a")
			return in
		}(),
	} {
		if d := Diagnose(in, asked(in)); len(d.HoldUps) > 0 || len(d.Unknown) > 0 {
			t.Errorf("%s: got %+v, %q", reason, d.HoldUps, d.Unknown)
		}
	}
}

// TestMerged: one budget that holds up three nodes is one cause, and so is one reason of many.
func TestMerged(t *testing.T) {
	in := deadlock(func(in *status.Input) {
		for _, name := range []string{"c", "d"} {
			in.Cluster.Nodes = append(in.Cluster.Nodes, pools.Node(name, "wants=2", "state=Working", "asked=drain-2", "drained=uncordon-1"))
			in.Cluster.Pods = append(in.Cluster.Pods, cart("on-"+name, name))
		}
		in.Cluster.Pools[0].Status.MachineCount = 4
	}, "failing=ImagePullBackOff")
	d := Diagnose(in, asked(in))
	if len(d.HoldUps) != 1 {
		t.Fatalf("got %+v", d.HoldUps)
	}
	f := d.HoldUps[0]
	if f.Node != "a" || !slices.Equal(f.AlsoNodes, []string{"c", "d"}) || f.Others() != "the same holds up 2 more nodes: c, d" || f.Chain.Links[1] != "so it is for 2 more pods: shop/on-c, shop/on-d" {
		t.Errorf("got %q, %+v", f.Others(), f)
	}

	var nodes []*corev1.Node
	for i := range 50 {
		name := fmt.Sprintf("worker-%d", i)
		nodes = append(nodes, pools.Node(name, "state=Degraded", "wants=2", "reason=failed to update OS on "+name+": disk is full"))
	}
	in = input(pools.Worker("2"), nodes...)
	if d := Diagnose(in, asked(in)); len(d.HoldUps) != 1 || len(d.HoldUps[0].AlsoNodes) != 49 || len(d.HoldUps[0].Others()) > 200 {
		t.Errorf("got %+v", d.HoldUps)
	}
}

// TestAsks: what would help to know is asked for, each once and not without end.
func TestAsks(t *testing.T) {
	in := deadlock(func(in *status.Input) {
		for i := range 200 {
			in.Cluster.Pods = append(in.Cluster.Pods, cart(fmt.Sprint("more-", i), "a"))
		}
	}, "failing=ImagePullBackOff")
	d := Diagnose(in, asked(in))
	if len(d.Asks.Evictions) != maxEvictions || d.Asks.Evictions[0] != (status.PodName{Namespace: "shop", Name: "1"}) || d.Asks.Requests {
		t.Errorf("got %+v", d.Asks)
	}
	places := convert.Each(d.Asks.Places, func(p status.PlaceAsked) mirrors.Location { return p.Location })
	if want := []mirrors.Location{place("mirror.example.com/shop/cart:v1"), place("quay.io/shop/cart:v1")}; !slices.Equal(places, want) {
		t.Errorf("got %+v, want %+v", places, want)
	}
	if in := input(pools.Worker("1"), pools.Node("a")); !Diagnose(in, asked(in)).Asks.IsEmpty() {
		t.Error("something is asked about a cluster that is well")
	}
	if in := input(pools.Worker("1"), pools.Node("a", "notready")); !Diagnose(in, asked(in)).Asks.Requests {
		t.Error("nothing is asked about a node that is not ready")
	}
}

// TestRevert: the mirror object that sends nodes to a mirror, and what its deletion does.
func TestRevert(t *testing.T) {
	in := deadlock(nil, "failing=ImagePullBackOff")
	set := pools.TagSet("")
	remedies := Diagnose(in, set).HoldUps[0].Remedies
	i := slices.IndexFunc(remedies, func(r Remedy) bool {
		return r.Command == "oc delete imagetagmirrorset shop && oc wait machineconfigpool/worker --for=jsonpath='{.spec.configuration.name}'=1 --timeout=5m && oc annotate node b --overwrite machineconfiguration.openshift.io/desiredConfig=1"
	})
	if i < 0 || !strings.Contains(remedies[i].Effect, "Then 2 nodes of pool worker: each drains and reloads CRI-O. Drains wait") {
		t.Errorf("got %+v", remedies)
	}
	odd, plain := mirrors.Location{Ref: "quay.io/a;b:1"}, mirrors.Location{Ref: "m.example.com/a@sha256:1", Insecure: true}
	if got := copyCommand(odd, plain); got != "skopeo copy --all --preserve-digests --dest-tls-verify=false docker://'quay.io/a;b:1' docker://m.example.com/a@sha256:1" {
		t.Errorf("got %s", got)
	}
}

// TestUnknown: what could not be read is said with the right that it takes, and never counts
// as well.
func TestUnknown(t *testing.T) {
	in := input(pools.Worker("1"), pools.Node("a"))
	in.Now = pools.Noon
	in.Cluster.Unknown = []string{"deployments", "nodes", "poddisruptionbudgets", "pods"}
	in.MirrorsUnknown = errors.New("forbidden")
	in.Evidence.Notes = []string{"evictions were not asked for"}
	d := Diagnose(in, mirrors.Set{})
	for _, part := range []string{
		"nodes could not be read: which node waits for what is not known (it takes the right to list and watch nodes)", "list and watch deployments.apps", "list and watch poddisruptionbudgets.policy", "pods could not be read: what holds drains up is not known", "MCO rejects the mirror objects",
	} {
		if !strings.Contains(strings.Join(append(d.Notes, d.Unknown...), "\n"), part) {
			t.Errorf("%q is not in %q", part, d.Unknown)
		}
	}
	if !slices.Contains(d.Notes, "evictions were not asked for") {
		t.Errorf("got %q", d.Notes)
	}
	in = input(pools.Worker("1"), pools.Node("a"))
	in.Rendered, in.Unread = nil, map[string]error{"1": errors.New("forbidden")}
	if d := Diagnose(in, mirrors.Set{}); len(d.Unknown) != 1 || !strings.HasSuffix(d.Unknown[0], "is not known: forbidden") {
		t.Errorf("a config that was not read: got %q", d.Unknown)
	}
	in = input(pools.Worker("1"), pools.Node("a"))
	in.Cluster.Pools[0].Status.MachineCount = 3
	if d := Diagnose(in, mirrors.Set{}); len(d.Unknown) != 1 {
		t.Errorf("nodes that are missing: got %q", d.Unknown)
	}
}

// TestRejected: each party to a contradiction can repair it.
func TestRejected(t *testing.T) {
	for name, want := range map[string]string{
		"ImageTagMirrorSet shop": "oc edit imagetagmirrorset shop", "ImagePolicy team/a": "oc -n team edit imagepolicy a", "quay.io/shop": "", "blockedRegistries of Image cluster": "",
	} {
		if got := editCommand(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestAccessed: that somebody logged in is said with a node that is degraded, and noted.
func TestAccessed(t *testing.T) {
	n := pools.Node("a", "wants=2", "state=Degraded", `reason=content mismatch for file "/etc/x"`)
	n.Annotations[sshAccess] = "accessed"
	in := input(pools.Worker("2"), n)
	d := Diagnose(in, asked(in))
	if !slices.Contains(d.HoldUps[0].Chain.Links, "somebody has logged into the node by ssh") || !strings.Contains(strings.Join(d.Notes, "\n"), "(annotation machineconfiguration.openshift.io/ssh): a") {
		t.Errorf("got %+v", d)
	}
}
