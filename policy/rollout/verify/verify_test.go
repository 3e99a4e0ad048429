package verify

import (
	"errors"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
)

// release is the image of a cluster.
const release = "quay.io/openshift-release-dev/ocp-release@sha256:0000000000000000000000000000000000000000000000000000000000000000"

// lists puts the lists of Image cluster into force.
func lists(in Input, payload string, r configv1.RegistrySources) Input {
	in.Mirrors.Registries, in.Mirrors.Payload = r, payload
	return in
}

// TestVerifyCAs: all is well but for what no rendered config tells.
func TestVerifyCAs(t *testing.T) {
	pool := pools.Worker("2")
	pool.Status.Configuration.Name = "2"
	in := Input{Input: input(pool, pools.Node("a", "has=2", "wants=2")), Mirrors: pools.TagSet("")}
	in.Mirrors.TrustedCA = "registry-cas"
	if v := Verify(in); v.Result != Well || len(v.NotCompared) != 1 || !strings.Contains(v.NotCompared[0], "registry-cas") {
		t.Errorf("got %s, not compared %q", v.Result, v.NotCompared)
	}
}

func TestVerify(t *testing.T) {
	done := pools.Node("a", "has=2", "wants=2")
	settled := func(nodes ...*corev1.Node) Input {
		pool := pools.Worker("2")
		pool.Status.Configuration.Name = "2"
		in := Input{Input: input(pool, nodes...), Mirrors: pools.TagSet("")}
		allows := pools.Rendered("3", pools.Shop)
		allows.Files[policyfile.PolicyJSONPath] = []byte(`{"default":[{"type":"reject"}],"transports":{"docker":{"quay.io":[{"type":"insecureAcceptAnything"}]}}}`)
		in.Rendered["3"] = allows
		return in
	}
	allowing := func(nodes ...*corev1.Node) Input {
		in := settled(nodes...)
		in.Cluster.Pools[0].Spec.Configuration.Name, in.Cluster.Pools[0].Status.Configuration.Name = "3", "3"
		return in
	}
	with := func(in Input, change func(*Input)) Input {
		change(&in)
		return in
	}
	for _, tt := range []struct {
		reason string
		in     Input
		want   Result
		part   string // of what is left, unknown, or said of a node
	}{
		{"all have it", settled(done), Well, ""},
		{"one has the old file", settled(done, pools.Node("b", "wants=2", "state=Working")), NotWell, "its registries.conf is not what the objects ask for"},
		{"the objects ask for something else", with(settled(done), func(in *Input) { in.Mirrors = pools.TagSet(configv1.NeverContactSource) }), NotWell, "its registries.conf is not what the objects ask for"},
		{"a blocked registry that holds the release image is left out", lists(settled(done), release, configv1.RegistrySources{BlockedRegistries: []string{"quay.io/openshift-release-dev"}}), Well, ""},
		{"another is not", lists(settled(done), release, configv1.RegistrySources{BlockedRegistries: []string{"quay.io/bad"}}), NotWell, "its registries.conf and policy.json are not what the objects ask for"},
		{"a namespace beside that of the release image is not", lists(settled(done), release, configv1.RegistrySources{BlockedRegistries: []string{"quay.io/openshift-release"}}), NotWell, "its registries.conf and policy.json are not what the objects ask for"},
		{"which image that is, is not known", lists(settled(done), "", configv1.RegistrySources{BlockedRegistries: []string{"quay.io/bad"}}), Unknown, "no ClusterVersion was read"},
		{"nor is that any reason for another difference", lists(settled(done), "", configv1.RegistrySources{BlockedRegistries: []string{"quay.io/bad"}, InsecureRegistries: []string{"quay.io/old"}}), NotWell, "its registries.conf and policy.json are not"},
		{"registries are allowed", lists(settled(done), release, configv1.RegistrySources{AllowedRegistries: []string{"quay.io"}}), NotWell, "its policy.json is not what the objects ask for"},
		{"and were before", lists(allowing(pools.Node("a", "has=3", "wants=3")), release, configv1.RegistrySources{AllowedRegistries: []string{"quay.io"}}), Well, ""},
		{"and no longer are", settled(pools.Node("a", "has=3", "wants=3")), NotWell, "its policy.json is not what the objects ask for"},
		{"insecure ones", lists(settled(done), release, configv1.RegistrySources{InsecureRegistries: []string{"quay.io/old"}}), NotWell, "its registries.conf is not what the objects ask for"},
		{"search registries", lists(settled(done), release, configv1.RegistrySources{ContainerRuntimeSearchRegistries: []string{"quay.io"}}), NotWell, "its registries.conf is not what the objects ask for"},
		{"no objects any more", with(settled(done), func(in *Input) { in.Mirrors = mirrors.Set{} }), NotWell, "its registries.conf is not what the objects ask for"},
		{"it has the file, and gave up on something", settled(pools.Node("a", "has=2", "wants=2", "state=Degraded", "reason=content mismatch")), NotWell, "is degraded: content mismatch"},
		{"its config was not read", with(settled(done), func(in *Input) { in.Rendered = nil; in.Unread = map[string]error{"2": errors.New("forbidden")} }), Unknown, "node a: it is not known what is in its rendered config: forbidden"},
		{"one is not known, another is not well", with(settled(pools.Node("b", "has=4", "wants=4"), pools.Node("c", "wants=2", "state=Working")), func(*Input) {}), NotWell, "it is not known what is in its rendered config"},
		{"no daemon", settled(done, pools.Node("b", "new")), Unknown, "node b: does not say which rendered config it has"},
		{"pods may not be read", with(settled(done), func(in *Input) { in.Cluster.Unknown = []string{"pods"} }), Unknown, "pods could not be read"},
		{"nodes may not be read", with(settled(), func(in *Input) { in.Cluster.Unknown = []string{"nodes"} }), Unknown, "nodes could not be read"},
		{"a part of the dump is broken", with(settled(done), func(in *Input) { in.Incomplete = []string{"not read: x"} }), Unknown, "not read: x"},
		{"a node in no pool", with(settled(done), func(in *Input) {
			in.Cluster.Nodes = append(in.Cluster.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stray"}})
		}), Unknown, "node stray is selected by no pool, and keeps what it has"},
		{"a node that runs Windows pulls by no registries.conf", with(settled(done), func(in *Input) {
			in.Cluster.Nodes = append(in.Cluster.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w", Labels: map[string]string{corev1.LabelOSStable: "windows"}}})
		}), Well, ""},
		{"a paused pool waits", Input{Input: input(pools.Worker("2", "paused"), pools.Node("a")), Mirrors: pools.TagSet("")}, NotWell, "mirrorset-guard rollout resume worker"},
		{"MCO rejects the objects", with(settled(done), func(in *Input) {
			in.Mirrors = pools.TagSet(configv1.NeverContactSource)
			other := in.Mirrors.Objects[0].(*configv1.ImageTagMirrorSet).DeepCopy()
			other.Name, other.Spec.ImageTagMirrors[0].MirrorSourcePolicy = "other", configv1.AllowContactingSource
			in.Mirrors = mirrors.Put(other).Apply(in.Mirrors)
		}), NotWell, "MCO rejects the mirror objects"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			v := Verify(tt.in)
			said := slices.Clone(v.Unknown)
			for _, task := range v.Left {
				said = append(said, task.What, task.Command)
			}
			for _, n := range v.Nodes {
				said = append(said, n.Why)
			}
			if v.Result != tt.want || !strings.Contains(strings.Join(said, "\n"), tt.part) {
				t.Errorf("got %s, %q, want %s, %q", v.Result, said, tt.want, tt.part)
			}
		})
	}
}

// TestVerifyPulls: pods that fail alike are one failure, with the route of their nodes.
func TestVerifyPulls(t *testing.T) {
	pod := func(name, on, reason string) rollout.Pod {
		spec := &rollout.PodSpec{Containers: []rollout.Container{{Name: "c", Image: "quay.io/shop/cart:v1"}}}
		return rollout.Pod{Namespace: "shop", Name: name, Node: on, Failing: reason, FailingContainer: "c", Spec: spec}
	}
	pool := pools.Worker("2")
	in := Input{Input: input(pool, pools.Node("a", "has=2", "wants=2"), pools.Node("b"), pools.Node("c", "has=3", "wants=3")), Mirrors: pools.TagSet("")}
	in.Cluster.Pods = []rollout.Pod{
		pod("1", "a", "ImagePullBackOff"), pod("2", "a", "ErrImagePull"), pod("3", "b", "ImagePullBackOff"), pod("4", "c", "ImagePullBackOff"),
		pod("5", "a", "CrashLoopBackOff"), pod("6", "gone", "ImagePullBackOff"),
	}
	v := Verify(in)
	got := map[string]string{}
	for _, f := range v.Pulls {
		got[strings.Join(f.Pods, ", ")] = strings.Join(f.Route, ", ") + f.RouteUnknown
	}
	want := map[string]string{
		"shop/1 on a, shop/2 on a": "mirror.example.com/shop/cart:v1, quay.io/shop/cart:v1",
		"shop/3 on b":              "quay.io/shop/cart:v1",
		"shop/4 on c":              "rendered config 3 of the node was not read",
		"shop/6 on gone":           "the node is not known",
	}
	if len(got) != len(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for pods, route := range want {
		if got[pods] != route {
			t.Errorf("%s: got %q, want %q", pods, got[pods], route)
		}
	}
	if v.Result != NotWell {
		t.Errorf("got %s with images that cannot be pulled", v.Result)
	}
}

func input(pool *mcfgv1.MachineConfigPool, nodes ...*corev1.Node) status.Input {
	return status.Input{Cluster: pools.Cluster(pool, nodes...), Rendered: pools.Configs()}
}
