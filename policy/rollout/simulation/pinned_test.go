package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// pinning has the nodes of pool worker hold images.
func pinning(in Input, nodes []string, images ...string) Input {
	role := map[string]string{mcfgv1.MachineConfigRoleLabelKey: "worker"}
	set := &mcfgv1.PinnedImageSet{ObjectMeta: metav1.ObjectMeta{Name: "pinned", Generation: 1, Labels: role}}
	for _, image := range images {
		set.Spec.PinnedImages = append(set.Spec.PinnedImages, mcfgv1.PinnedImageRef{Name: mcfgv1.ImageDigestFormat(image)})
	}
	pool := in.Cluster.Pool("worker")
	pool.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchLabels: role}
	pool.Spec.PinnedImageSets = []mcfgv1.PinnedImageSetRef{{Name: "pinned"}}
	in.Cluster.PinnedSets = []*mcfgv1.PinnedImageSet{set}
	for _, n := range in.Cluster.Nodes {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
	}
	for _, name := range nodes {
		in.Cluster.NodePins = append(in.Cluster.NodePins, rollout.NodePins{
			Node: name, Pool: "worker", Works: true, Settled: time.Unix(1, 0),
			Sets: []mcfgv1.MachineConfigNodeStatusPinnedImageSet{{Name: "pinned", CurrentGeneration: 1, DesiredGeneration: 1}},
		})
	}
	return in
}

// TestPinned: what nodes hold by a PinnedImageSet need not be pulled, unless kubelets ask all the same.
func TestPinned(t *testing.T) {
	for _, tt := range []struct {
		reason, kubelet, web, other string
		nodes                       []string
		images                      []string
		policies                    []string
		finishes                    bool
	}{
		{"nothing is pinned", "v1.34.0", "", "", nil, nil, nil, false},
		{"everywhere", "v1.34.0", "", "", []string{"w1", "w2", "w3"}, []string{"fails"}, nil, true},
		{"another image", "v1.34.0", "", "", []string{"w1", "w2", "w3"}, []string{"works"}, nil, false},
		{"not on the node that is updated first", "v1.34.0", "", "", []string{"w2", "w3"}, []string{"fails"}, nil, false},
		{"kubelets ask each time", "v1.34.0", "always", "", []string{"w1", "w2", "w3"}, []string{"fails"}, nil, false},
		{"nobody brings a secret", "v1.36.0", "", "", []string{"w1", "w2", "w3"}, []string{"fails"}, nil, true},
		{"all bring the same, and a kubelet may have pulled it with a former pod's", "v1.36.0", "secret=a", "", []string{"w1", "w2", "w3"}, []string{"fails"}, nil, true},
		{"which does not matter before 1.35", "v1.34.0", "secret=a", "", []string{"w1", "w2", "w3"}, []string{"fails"}, nil, true},
		{"a kubelet may have pulled it with another's", "v1.36.0", "secret=a", "secret=b", []string{"w1", "w2", "w3"}, []string{"fails"}, nil, false},
		{"which kubelets did not ask for before 1.35", "v1.34.0", "secret=a", "secret=b", []string{"w1", "w2", "w3"}, []string{"fails"}, nil, true},
		{"a signature policy of the namespace", "v1.34.0", "", "", []string{"w1", "w2", "w3"}, []string{"fails"}, []string{"app"}, false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			other := "image=else"
			if tt.other != "" {
				other = "image=fails " + tt.other
			}
			in := scene(strings.NewReplacer("KUBELET", tt.kubelet, "WEB", tt.web, "OTHER", other).Replace(`
				pool worker
				node w1 worker kubelet=KUBELET
				node w2 worker kubelet=KUBELET
				node w3 worker kubelet=KUBELET
				ReplicaSet w2,w3 web image=fails apart WEB
				DaemonSet w3 other OTHER
				budget web app=web max=1`)).input(t)
			in = pinning(in, tt.nodes, tt.images...)
			in.OwnPolicies = tt.policies
			got := Run(in)
			if got.Finishes() != tt.finishes {
				t.Errorf("want finishes %t; got %s", tt.finishes, said(got))
			}
		})
	}
}

// TestTemplateNeeded: a controller may make a pod of another image than the one that is evicted had, which is needed then too.
func TestTemplateNeeded(t *testing.T) {
	next, fails := []rollout.Container{{Image: "next", Pull: corev1.PullIfNotPresent}}, []rollout.Container{{Image: "fails", Pull: corev1.PullIfNotPresent}}
	for _, tt := range []struct {
		reason, namespace string
		template          []rollout.Container
		needs             string
		finishes          bool
	}{
		{"the same", "app", nil, "now", true},
		{"another", "app", next, "next now", true},
		{"that of a namesake", "other", fails, "now", true},
		{"one that cannot be pulled", "app", fails, "fails now", false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			in := scene(`
				pool worker
				node w1 worker
				node w2 worker
				ReplicaSet w1 api image=now
				Parallel w1,w2 db image=now
				budget db app=db max=1`).input(t)
			in.Cluster.Controllers[0].Template, in.Cluster.Controllers[0].Namespace = tt.template, tt.namespace
			var needs []string
			for _, n := range Needs(in) {
				needs = append(needs, n.Image)
			}
			if got := strings.Join(needs, " "); got != tt.needs {
				t.Errorf("needs %s, want %s", got, tt.needs)
			}
			if got := Run(in); got.Finishes() != tt.finishes || slices.ContainsFunc(got.Moved, func(m Moved) bool { return m.Image == "fails" }) == tt.finishes {
				t.Errorf("want finishes %t; got %s, and moves %v", tt.finishes, said(got), got.Moved)
			}
		})
	}
}

// TestNeeds: of each pool, the images of what drains move there, whoever is updated.
func TestNeeds(t *testing.T) {
	in := scene(`
		pool worker
		pool infra reload
		node w1 worker
		node w2 worker
		node i1 infra
		ReplicaSet w1 web image=works always
		ReplicaSet w2 api image=fails secret=a
		DaemonSet w1,w2 log image=else`).input(t)
	var got []string
	for _, n := range Needs(in) {
		line := n.Pool + " " + n.Image
		if n.Always {
			line += " always"
		}
		if n.OwnSecrets {
			line += " secret"
		}
		got = append(got, line)
	}
	want := "infra fails secret, infra works always, worker fails secret, worker works always"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}
