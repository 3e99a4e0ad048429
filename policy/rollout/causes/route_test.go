package causes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

const (
	cartAt     = "quay.io/shop/cart:v1"
	cartMirror = "mirror.example.com/shop/cart:v1"
	forNode    = " && oc wait machineconfigpool/worker --for=jsonpath='{.spec.configuration.name}'=1 --timeout=5m && oc annotate node b --overwrite machineconfiguration.openshift.io/desiredConfig=1"
)

// turned is the deadlock where nodes had what set before makes of registries.conf, and node b has what after
// makes, by which cart is not pulled there. Places are those that have it; all others do not.
func turned(t *testing.T, before, after mirrors.Set, has ...string) status.Input {
	t.Helper()
	in := deadlock(nil, "failing=ImagePullBackOff")
	in.Rendered = map[string]*rollout.Rendered{}
	for name, set := range map[string]mirrors.Set{"1": before, "2": after} {
		files, err := mirrors.Rendered(set)
		if err != nil {
			t.Fatal(err)
		}
		in.Rendered[name] = &rollout.Rendered{Name: name, Files: files}
	}
	in.Evidence.Places = map[status.Place]status.Answer{}
	for range 2 {
		for _, p := range Diagnose(in, after).Asks.Places {
			in.Evidence.Places[p.Place] = status.Answer{Presence: policy.Absent}
			if slices.Contains(has, p.Ref) {
				in.Evidence.Places[p.Place] = status.Answer{Presence: policy.Present}
			}
		}
	}
	return in
}

// commands returns what changes something.
func commands(f HoldUp) []string {
	var all []string
	for _, r := range f.Remedies {
		if !r.ReadOnly {
			all = append(all, r.Command)
		}
	}
	return all
}

// TestLostRoute: the object that took the route away is named, and that it is the way back.
func TestLostRoute(t *testing.T) {
	blocked := mirrors.Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{"example.com", "quay.io/shop"}}}
	otherBlocked := mirrors.Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{"example.com"}}}
	allowed := mirrors.Set{Registries: configv1.RegistrySources{AllowedRegistries: []string{"example.com"}}}
	alsoAllowed := mirrors.Set{Registries: configv1.RegistrySources{AllowedRegistries: []string{"example.com", "quay.io/shop/cart"}}}
	for _, tt := range []struct {
		reason        string
		before, after mirrors.Set
		has           []string
		link, first   string
	}{
		{
			"blockedRegistries", otherBlocked, blocked,
			[]string{cartAt},
			"nodes with 1 look for it at " + cartAt + " as well; blockedRegistries of Image cluster lists quay.io/shop now",
			`oc patch image.config.openshift.io cluster --type=json -p '[{"op":"test","path":"/spec/registrySources/blockedRegistries/1","value":"quay.io/shop"},{"op":"remove","path":"/spec/registrySources/blockedRegistries/1"}]'` + forNode,
		},
		{
			"allowedRegistries", alsoAllowed, allowed,
			[]string{cartAt},
			"allowedRegistries of Image cluster does not list it now",
			`oc patch image.config.openshift.io cluster --type=json -p '[{"op":"add","path":"/spec/registrySources/allowedRegistries/-","value":"quay.io/shop/cart"}]'` + forNode,
		},
		{
			"the source, by NeverContactSource",
			mirrors.Set{},
			pools.TagSet(configv1.NeverContactSource),
			[]string{cartAt},
			"ImageTagMirrorSet shop says NeverContactSource",
			copyOf(cartAt, cartMirror),
		},
	} {
		in := turned(t, tt.before, tt.after, tt.has...)
		f := Diagnose(in, tt.after).HoldUps[0]
		if !strings.Contains(strings.Join(f.Chain.Lines(), "\n"), tt.link) {
			t.Errorf("%s: got\n%s\nwithout %q", tt.reason, strings.Join(f.Chain.Lines(), "\n"), tt.link)
		}
		if got := commands(f); got[0] != tt.first {
			t.Errorf("%s: got %q, want %q", tt.reason, got, tt.first)
		}
	}
	in := turned(t, otherBlocked, blocked) // the source has lost it
	for _, command := range commands(Diagnose(in, blocked).HoldUps[0]) {
		if strings.Contains(command, "oc patch image.config") {
			t.Errorf("it would not help: %s", command)
		}
	}
}

// TestMirrorPutBack: a mirror that is gone is put back with the policy that its source had, unless another object wants another
// policy for that source by now: MCO would reject both.
func TestMirrorPutBack(t *testing.T) {
	const allow, never = configv1.AllowContactingSource, configv1.NeverContactSource
	for _, tt := range []struct{ was, is configv1.MirrorSourcePolicy }{{allow, ""}, {never, ""}, {allow, allow}, {never, never}, {allow, never}, {never, allow}} {
		after, want := mirrors.Set{}, `printf %s '{"kind":"ImageTagMirrorSet","apiVersion":"config.openshift.io/v1","metadata":{"name":"put-back"},"spec":{"imageTagMirrors":[{"source":"quay.io/shop","mirrors":["old.example.com/shop"],"mirrorSourcePolicy":"`+string(tt.was)+`"}]},"status":{}}' | oc create -f -`
		if tt.is != "" {
			after = pools.TagSet(tt.is)
		} else {
			want += forNode
		}
		before := mirrors.Put(mirrorObject("old", "quay.io/shop", "old.example.com/shop", tt.was, false)).Apply(mirrors.Set{})
		f := Diagnose(turned(t, before, after, "old.example.com/shop/cart:v1"), after).HoldUps[0]
		if !strings.Contains(f.Chain.String(), "the mirror object that had this mirror of quay.io/shop has been deleted or changed since") {
			t.Errorf("%v: got %q", tt, f.Chain)
		}
		if i := slices.IndexFunc(commands(f), func(c string) bool { return strings.Contains(c, "put-back") }); (i >= 0) != (tt.is == "" || tt.is == tt.was) || i >= 0 && commands(f)[i] != want {
			t.Errorf("%v: got %q, want %s", tt, commands(f), want)
		}
	}
}

// TestSecondRound: what a remedy did not reach is said by the next diagnosis.
func TestSecondRound(t *testing.T) {
	set := pools.TagSet(configv1.NeverContactSource)
	in := turned(t, mirrors.Set{}, set, cartAt)
	in.Cluster.Pools[0].Spec.Configuration.Name = "1" // the set is deleted, and MCO has rendered
	f := Diagnose(in, mirrors.Set{}).HoldUps[0]
	if got := commands(f); got[0] != "oc annotate node b --overwrite machineconfiguration.openshift.io/desiredConfig=1" || slices.ContainsFunc(got, func(c string) bool { return strings.Contains(c, "oc delete") }) {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(strings.Join(f.Chain.Lines(), "\n"), "pool worker is to have 1, by which it could be pulled; node b has 2") {
		t.Errorf("got %q", f.Chain)
	}
	in.Cluster.Nodes = append(in.Cluster.Nodes, pools.Node("c", "has=2", "wants=2"))
	in.Cluster.Pools[0].Status.MachineCount = 3
	const moved = ` && oc wait node/b --for=jsonpath='{.metadata.annotations.machineconfiguration\.openshift\.io/currentConfig}'=1 --timeout=1h && oc -n shop delete pod -l 'app=cart' --field-selector status.phase=Pending`
	if got := commands(Diagnose(in, mirrors.Set{}).HoldUps[0]); got[0] != "oc annotate node b --overwrite machineconfiguration.openshift.io/desiredConfig=1"+moved {
		t.Errorf("with another node to which it may be moved: got %q", got)
	}
	in.Cluster.Nodes[1].Annotations[pools.Prefix+"desiredConfig"] = "1"
	if got := commands(Diagnose(in, mirrors.Set{}).HoldUps[0]); strings.Contains(got[0], "annotate") {
		t.Errorf("it has been given: got %q", got)
	}
}

// TestToCome: what the node of a pod lacks is brought to where its pool is to look for it.
func TestToCome(t *testing.T) {
	set := pools.TagSet(configv1.NeverContactSource)
	in := turned(t, mirrors.Set{}, set)
	for name, value := range map[string]string{"currentConfig": "1", "desiredConfig": "1"} {
		in.Cluster.Nodes[1].Annotations[pools.Prefix+name] = value
	}
	f := Diagnose(in, set).HoldUps[0]
	if got := commands(f); got[0] != "oc debug node/a -- chroot /host podman push --authfile /var/lib/kubelet/config.json "+cartAt+" docker://"+cartMirror {
		t.Errorf("got %q", got)
	}
	for _, link := range []string{"pool worker is to have 2, by which nodes look for it at " + cartMirror, "asked just now: " + cartMirror + " does not have it"} {
		if !strings.Contains(strings.Join(f.Chain.Lines(), "\n"), link) {
			t.Errorf("got %q without %q", f.Chain, link)
		}
	}
}

// TestElsewhere: another pod instead is proposed where every node to which it may go can pull.
func TestElsewhere(t *testing.T) {
	const elsewhere = "oc -n shop delete pod 2"
	waits := func(in *status.Input) { // node c, for the update
		in.Cluster.Nodes[2].Spec.Taints = []corev1.Taint{{Key: "UpdateInProgress", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	for _, tt := range []struct {
		reason string
		change func(*status.Input)
		has    []string
		want   bool
		link   string
	}{
		{"neither route leads to it", func(*status.Input) {}, nil, false, ""},
		{"by the route of the node, by now, from which it may come to the other", waits, []string{cartMirror}, false, ""},
		{"by both routes, by now", waits, []string{cartMirror, cartAt}, true, ""},
		{"on the other node", func(in *status.Input) { in.Cluster.Nodes[1].Spec.Unschedulable = true }, []string{cartAt}, true, ""},
		{"on one of two", func(*status.Input) {}, []string{cartAt}, false, "another pod instead could be pulled on c, but not on b"},
		{"the scheduler avoids what waits", waits, []string{cartAt}, false, ""},
		{"unless it has to be there", func(in *status.Input) { waits(in); in.Cluster.Nodes[1].Spec.Unschedulable = true }, []string{cartAt}, true, ""},
		{"nodes that have it", func(in *status.Input) {
			for _, n := range in.Cluster.Nodes[1:] {
				n.Status.Images = []corev1.ContainerImage{{Names: []string{cartAt}}}
			}
			for i := range in.Cluster.Pods {
				spec := *in.Cluster.Pods[i].Spec
				spec.Containers = []rollout.Container{{Name: "c", Image: cartAt, Pull: corev1.PullIfNotPresent}}
				in.Cluster.Pods[i].Spec = &spec
			}
		}, nil, true, ""},
		{"nobody was asked", func(in *status.Input) { in.Evidence.Places = nil }, []string{cartAt}, false, ""},
	} {
		set := pools.TagSet(configv1.NeverContactSource)
		in := turned(t, mirrors.Set{}, set, tt.has...)
		in.Cluster.Nodes = append(in.Cluster.Nodes, pools.Node("c"))
		in.Cluster.Pools[0].Status.MachineCount = 3
		tt.change(&in)
		holdUps := Diagnose(in, set).HoldUps
		f := holdUps[len(holdUps)-1] // that a node is cordoned is one as well
		if got := slices.Contains(commands(f), elsewhere); got != tt.want {
			t.Errorf("%s: got %q", tt.reason, commands(f))
		}
		if !strings.Contains(strings.Join(f.Chain.Lines(), "\n"), tt.link) {
			t.Errorf("%s: got %q", tt.reason, f.Chain)
		}
	}
}

// copyOf is the command that copies an image.
func copyOf(from, to string) string {
	return "skopeo copy --all --preserve-digests docker://" + from + " docker://" + to
}

// TestSparse: a place that has an image without the platform of a node has none for it. The image is copied there from one that has it for the
// node, and its signature, and another pod instead is proposed only where that can be pulled.
func TestSparse(t *testing.T) {
	const pod, arm = "oc -n shop delete pod 2", "linux/arm64"
	for _, tt := range []struct {
		node               string // its architecture
		atMirror, atSource []string
		copy, delete       bool
	}{
		{"arm64", []string{arm}, nil, true, false},
		{"arm64", []string{"linux/amd64", arm + "/v8"}, []string{"linux/amd64"}, true, false},
		{"arm64", []string{arm}, []string{arm}, false, false},
		{"arm", []string{arm}, nil, false, true},
		{"amd64", []string{arm}, []string{arm}, false, true},
		{"", []string{arm}, nil, false, false},
	} {
		set := pools.TagSet("")
		in := turned(t, mirrors.Set{}, set)
		in.Cluster.Nodes[1].Status.NodeInfo.Architecture = tt.node
		in.Evidence.Places[status.Place{Location: place(cartMirror)}] = status.Answer{Presence: policy.Present, Without: tt.atMirror}
		in.Evidence.Places[status.Place{Location: place(cartAt)}] = status.Answer{Presence: policy.Present, Without: tt.atSource, Signatures: []status.SignatureAnswer{{Digest: "sha256:" + hex, At: cartAt + ".sig", Accepted: true}}}
		got := commands(Diagnose(in, set).HoldUps[0])
		if slices.Contains(got, copyOf(cartAt, cartMirror)) != tt.copy || slices.Contains(got, pod) != tt.delete || strings.Contains(fmt.Sprint(got), hex) != (tt.node == "arm64") || strings.Contains(fmt.Sprint(got), "podman push") {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
}

// TestCopies: what its source does not have is copied from another place that has it, and from nowhere else.
func TestCopies(t *testing.T) {
	const was = "old.example.com/shop/cart:v1"
	set := pools.TagSet(configv1.NeverContactSource)
	before := mirrors.Put(mirrorObject("old", "quay.io/shop", "old.example.com/shop", configv1.AllowContactingSource, false)).Apply(mirrors.Set{})
	if got := commands(Diagnose(turned(t, before, set, was), set).HoldUps[0]); got[0] != copyOf(was, cartMirror) {
		t.Errorf("got %q", got)
	}
	for _, other := range []string{"evil.example.com/x/cart:v1", "mirror.example.com/team-b/cart:v1"} { // another tenant's pod wants it, and a place has it
		in := turned(t, before, set)
		pod := cart("other", "b", "failing=ImagePullBackOff")
		pod.Spec.Containers[0].Image = other
		in.Cluster.Pods = slices.Insert(in.Cluster.Pods, 1, pod)
		in.Evidence.Places[status.Place{Location: place(other)}] = status.Answer{Presence: policy.Present}
		said := fmt.Sprint(Diagnose(in, set).HoldUps)
		if !strings.Contains(said, other+" has it") || strings.Contains(said, "docker://"+other) || !strings.Contains(said, "podman push") {
			t.Errorf("%s: got %s", other, said)
		}
	}
	in := turned(t, before, set)
	spec := *in.Cluster.Pods[0].Spec
	spec.Containers, in.Cluster.Pods[0].Spec = nil, &spec
	for _, command := range commands(Diagnose(in, set).HoldUps[0]) {
		if strings.Contains(command, "skopeo") || strings.Contains(command, "podman") {
			t.Errorf("it is nowhere: %s", command)
		}
	}
}
