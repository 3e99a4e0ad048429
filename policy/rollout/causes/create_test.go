package causes

import (
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// alone is the deadlock with one pod of two, of Deployment cart, which says why it makes no other.
func alone(refused string) status.Input {
	return deadlock(func(in *status.Input) {
		in.Cluster.Pods = in.Cluster.Pods[:1]
		byDeployment(in)
		if refused != "" {
			in.Evidence.Owners = map[status.OwnerName]status.Made{{Namespace: "shop", Owner: rollout.Owner{Kind: "ReplicaSet", Name: "cart-5d"}}: {Wanted: 2, Made: 1, Refused: refused}}
		}
	})
}

// TestNotCreated: replacements that are forbidden are named as that, and what forbids them is what is
// to change.
func TestNotCreated(t *testing.T) {
	const again = "ReplicaSet cart-5d has not made 1 of its 2 pods"
	for _, tt := range []struct {
		reason, refused, effective string
	}{
		{"a quota", `pods "cart-5d-x" is forbidden: exceeded quota: small, requested: pods=1,requests.cpu=500m, used: pods=1,requests.cpu=1500m, limited: pods=1,requests.cpu=2`, `oc -n shop patch resourcequota small --type=merge -p '{"spec":{"hard":{"pods":"2","requests.cpu":"2"}}}'`},
		{"a quota whose numbers cannot be read", `exceeded quota: small, requested: pods=a, used: pods=1, limited: pods=1`, "oc -n shop patch pdb cart"},
		{"pod security", `pods "cart-5d-x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`, "oc label --overwrite namespace shop pod-security.kubernetes.io/enforce=baseline"},
		{"pod security, once more", `violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`, "oc label --overwrite namespace shop pod-security.kubernetes.io/enforce=privileged"},
		{"no service account", `pods "cart-5d-" is forbidden: error looking up service account shop/cart: serviceaccount "cart" not found`, "oc -n shop create serviceaccount cart"},
		{"a policy for admission", `ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`, "oc -n shop patch pdb cart"},
		{"a webhook", `admission webhook "x.example.com" denied the request: no`, "oc -n shop patch pdb cart"},
		{"for another reason", `it rains`, "oc -n shop patch pdb cart"},
	} {
		in := alone(tt.refused)
		f := Diagnose(in, asked(in)).HoldUps[0]
		chain := strings.Join(f.Chain.Lines(), "\n")
		if f.Cause != PodNotCreated || f.Passing || !strings.Contains(chain, again+"\nit says: "+tt.refused) || strings.Contains(chain, "all pods that count") {
			t.Errorf("%s: got %s, passing %v:\n%s", tt.reason, f.Cause, f.Passing, chain)
		}
		i := slices.IndexFunc(f.Remedies, func(r Remedy) bool { return !r.ReadOnly })
		if !strings.HasPrefix(f.Remedies[i].Command, tt.effective) {
			t.Errorf("%s: got %+v, want %s", tt.reason, f.Remedies, tt.effective)
		}
		if command := f.Remedies[i].Command; !strings.Contains(command, "patch pdb") && !strings.HasSuffix(command, ` && oc -n shop annotate replicaset cart-5d --overwrite mirrorset-guard.io/try-again="$(date +%s)"`) {
			t.Errorf("%s: the controller is not to try at once: %s", tt.reason, command)
		}
		if fewer := f.Remedies[len(f.Remedies)-2]; fewer.Command != `oc -n shop patch pdb cart --type=merge -p '{"spec":{"maxUnavailable":null,"minAvailable":0}}'` || !mayWorsen(fewer) {
			t.Errorf("%s: got %+v", tt.reason, fewer)
		}
	}

	in := alone("")
	d := Diagnose(in, asked(in))
	if f := d.HoldUps[0]; f.Cause != PodNotCreated || !f.Passing || !slices.Contains(f.Chain.Links, again) {
		t.Errorf("nobody was asked: got %+v", f)
	}
	if len(d.Asks.Owners) != 1 || len(d.Asks.Without(status.Evidence{Owners: map[status.OwnerName]status.Made{d.Asks.Owners[0]: {}}}).Owners) != 0 {
		t.Errorf("got %+v", d.Asks)
	}
	in.Evidence.Owners = map[status.OwnerName]status.Made{d.Asks.Owners[0]: {Wanted: 1, Made: 1}}
	if f := Diagnose(in, asked(in)).HoldUps[0]; f.Cause != BudgetFull || commands(f)[0] != "oc -n shop delete pod 1" { // no budget has room while another app's are missing
		t.Errorf("a controller that has made all: got %+v", f)
	}
}
