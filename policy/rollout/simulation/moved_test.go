package simulation

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
