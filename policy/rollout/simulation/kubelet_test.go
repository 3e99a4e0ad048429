package simulation

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestImagesOfOthers: an image that a pod brought to a node starts any other pod, until kubelets
// verify credentials (Kubernetes 1.35, KEP-2535).
func TestImagesOfOthers(t *testing.T) {
	const (
		starts = "finishes"
		stalls = "w2's drain stalls: the replacement of app/web-0 on w3 cannot pull fails; budget app/web allows no eviction [image]"
		may    = "may finish, depending on where pods go"
	)
	for _, tt := range []struct {
		name, kubelet, others, web string
		worst, best                string
	}{
		{"an older kubelet", "v1.34.9", "secret=a", "", starts, starts},
		{"a version that cannot be read", "1.x", "secret=a", "", starts, starts},
		{"the image was pulled with a secret", "v1.35.0", "secret=a", "", stalls, may},
		{"with another secret", "v1.35.0", "secret=a", "secret=b", stalls, may},
		{"with the same", "v1.36.1+abc", "secret=a", "secret=a", starts, starts},
		{"with none, so that the node's own did", "v1.35.0", "", "secret=a", starts, starts},
		{"nobody brings a secret", "v1.35.0", "", "", starts, starts},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := scene(strings.NewReplacer("KUBELET", tt.kubelet, "OTHERS", tt.others, "WEB", tt.web).Replace(`
				pool worker
				node w1 worker kubelet=KUBELET
				node w2 worker kubelet=KUBELET
				node w3 worker kubelet=KUBELET
				ReplicaSet w1,w2 web image=fails apart WEB
				ReplicaSet w1,w2,w3 other image=fails OTHERS
				budget web app=web max=1`)).input(t)
			got := Run(in)
			if diff := cmp.Diff([]string{tt.worst, tt.best}, []string{said(got.Worst), said(got.Best)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOtherNamespace: a secret of the same name in another namespace is another one.
func TestOtherNamespace(t *testing.T) {
	in := scene(`
		pool worker
		node w1 worker kubelet=v1.35.0
		node w2 worker kubelet=v1.35.0
		node w3 worker kubelet=v1.35.0
		ReplicaSet w1,w2 web image=fails apart secret=a
		budget web app=web max=1
		in elsewhere
		ReplicaSet w3 other image=fails secret=a`).input(t)
	if got := Run(in); len(got.Worst.Stalls) == 0 {
		t.Error("it finishes")
	}
}

// TestImagesThatNodesList: with which credentials an image was pulled that only the node's status
// names is not known.
func TestImagesThatNodesList(t *testing.T) {
	in := scene(`
		pool worker
		node w1 worker kubelet=v1.35.0
		node w2 worker kubelet=v1.35.0
		node w3 worker kubelet=v1.35.0 images=fails
		ReplicaSet w1 web image=fails apart
		ReplicaSet w2 web image=fails apart
		ReplicaSet w1,w2 other image=fails secret=a
		budget web app=web max=1`).input(t)
	got := Run(in)
	if len(got.Worst.Stalls) == 0 || len(got.Best.Stalls) > 0 {
		t.Errorf("at worst %s, at best %s", got.Worst, got.Best)
	}
}

// TestMoved: which images have to be pulled again, by whom, whether that works or not.
func TestMoved(t *testing.T) {
	in := scene(`
		pool worker
		pool infra reload
		node w1 worker
		node w2 worker images=listed
		node w3 infra
		ReplicaSet w1,w2 web image=works apart
		ReplicaSet w1 here image=listed
		ReplicaSet w1,w2 everywhere image=everywhere
		ReplicaSet w3 stays image=stays
		ReplicaSet w1,w2 always image=always always on=node-role.kubernetes.io/worker:
		ReplicaSet w1 never image=never never
		bare w1 gone image=gone
		DaemonSet w1,w2,w3 agent image=agent
		in other
		ReplicaSet w1 too image=works`).input(t)
	var got []string
	for _, m := range Run(in).Moved {
		got = append(got, strings.Join([]string{m.Image, m.Namespace, m.Pool, m.Pod}, " "))
	}
	want := []string{
		"always app worker app/always-0",
		"everywhere app infra app/everywhere-0",
		"listed app infra app/here-0",
		"works app infra app/web-0",
		"works other infra other/too-0",
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
