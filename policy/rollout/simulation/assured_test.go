package simulation

import (
	"fmt"
	"testing"
)

// TestAssured: how many nodes are updated in any case. TestGuarantee holds it to all that can happen.
func TestAssured(t *testing.T) {
	workers := func(n int, words string) (nodes string) {
		for i := range n {
			nodes += fmt.Sprintf("node w%d worker %s\n", i, words)
		}
		return nodes
	}
	for _, tt := range []struct{ name, scene, want string }{
		{"the second drain can be the first with nothing to spare", "pool worker\n" + workers(5, "") + `
			ReplicaSet w3,w4 web image=new-fails always
			ReplicaSet w0 other
			budget web app=web max=1`, "pool worker updates at least 4 of 5 nodes"},
		{"a pod that was evicted goes to the next node, and from there to the one after it", "pool worker\n" + workers(5, "") + `
			ReplicaSet w0,w4 web image=old-fails always
			budget web app=web max=1`, "pool worker updates at least 4 of 5 nodes"},
		{"a node that has two of the pods", "pool worker\n" + workers(5, "") + `
			ReplicaSet w1,w1 web image=new-fails always
			budget web app=web max=1`, "pool worker updates at least 1 of 5 nodes"},
		{"each of two drains has to stall before no node is taken", "pool worker max=2\n" + workers(6, "") + `
			bare w1,w3 web
			budget web app=web max=1`, "pool worker updates at least 2 of 6 nodes"},
		{"no more drains can stall than are under way", "pool worker max=3\n" + workers(6, "") + `
			bare w1 web
			budget web app=web max=1`, "pool worker updates at least 5 of 6 nodes"},
		{"arbiters wait for the masters", "pool master\npool arbiter\n" + `
			node m0 master
			node m1 master
			node a0 arbiter
			bare m1 web
			budget web app=web max=1`, "pool master updates at least 1 of 2 nodes\npool arbiter may update none of its nodes"},
		{"one pod is refused where it is", "pool worker\n" + workers(3, "cpu=4") + `
			ReplicaSet w0 first cpu=4
			ReplicaSet w2 web cpu=3
			budget web app=web min=1`, "pool worker updates at least 2 of 3 nodes"},
		{"and elsewhere if another one can push it out", "pool worker\n" + workers(3, "cpu=4") + `
			ReplicaSet w0 first cpu=4 priority=9
			ReplicaSet w2 web cpu=3
			budget web app=web min=1`, "pool worker may update none of its nodes"},
		{"a pod that was evicted and does not end keeps its port, also on a node that another pod tolerates", "pool worker max=2\n" + workers(3, "") + `
			ReplicaSet w0,w1,w2!kept web tolerates=* port=80 image=old-fails
			budget web app=web max=1`, "pool worker may update none of its nodes"},
		{"nothing stalls", "pool worker\n" + workers(3, "") + `
			ReplicaSet w0,w1 web
			budget web app=web max=1`, "pool worker updates all of its nodes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := lines(Run(scene(tt.scene).input(t)).Worst.Assured); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
