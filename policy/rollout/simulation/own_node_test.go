package simulation

import "testing"

// TestOwnNode: pods that can wait for their own node only, while it is drained. Where it is the only one
// that is cordoned then, they get it back. Of each kind there is one that differs in a
// detail by which it can stall. The model says so of both.
func TestOwnNode(t *testing.T) {
	const nodes = `
		node w0 worker zone=a
		node w1 worker zone=b
		node w2 worker zone=c
	`
	for _, tt := range []struct {
		name, scene string
		stalls      bool
	}{
		{"one for each zone", "pool worker" + nodes + `
			ReplicaSet w0,w1,w2 web spread=topology.kubernetes.io/zone image=works
			budget web app=web max=1`, false},
		{"one for each zone, and two nodes at once", "pool worker max=2" + nodes + `
			ReplicaSet w0,w1,w2 web spread=topology.kubernetes.io/zone image=works
			budget web app=web max=1`, false},
		{"one for each zone, and an image that only the nodes of before can pull", "pool worker" + nodes + `
			ReplicaSet w0,w1,w2 web spread=topology.kubernetes.io/zone image=new-fails always
			budget web app=web max=1`, true},
		{"one for each zone, of which one can be left out while its node is drained", "pool worker" + nodes + `
			ReplicaSet w0,w1,w2 web spread=topology.kubernetes.io/zone honor image=works
			budget web app=web max=1`, false},
		{"one for each zone, and another node in a zone that only the others can use", "pool worker" + nodes + `
			node w3 worker zone=a label=disk:ssd
			ReplicaSet w0,w1,w2 web spread=topology.kubernetes.io/zone image=works
			budget web app=web max=1`, false},
		{"two nodes in each zone", `pool worker
			node w0 worker zone=a
			node w1 worker zone=a
			node w2 worker zone=b
			node w3 worker zone=b
			ReplicaSet w0,w1,w2,w3 web spread=topology.kubernetes.io/zone image=works
			budget web app=web max=1`, false},
		{"two nodes in each zone, and one in another zone where no pod can go", `pool worker
			node w0 worker zone=a
			node w1 worker zone=a
			node w2 worker zone=b
			node w3 worker zone=b
			node w4 worker zone=c taint=x
			ReplicaSet w0,w1,w2,w3 web spread=topology.kubernetes.io/zone image=works
			budget web app=web max=1`, true},
		{"room for one on each node", "pool worker" + nodes + `
			ReplicaSet w0,w1,w2 web cpu=6 image=works
			budget web app=web max=1`, false},
		{"room for one on each node, and another app takes it", "pool worker" + nodes + `
			ReplicaSet w0,w1,w2 web cpu=4 image=works
			ReplicaSet w0 other cpu=4
			ReplicaSet w1,w2 more cpu=3
			budget web app=web max=1`, true},
		{"a volume on each node", "pool worker" + nodes + `
			volume c0 w0
			volume c1 w1
			volume c2 w2
			Parallel w0 db claim=c0 image=works
			Parallel w1 db2 claim=c1 image=works
			Parallel w2 db3 claim=c2 image=works
			budget db all max=1`, false},
		{"a volume on each node, and two nodes at once", "pool worker max=2" + nodes + `
			volume c0 w0
			volume c1 w1
			volume c2 w2
			Parallel w0 db claim=c0 image=works
			Parallel w1 db2 claim=c1 image=works
			Parallel w2 db3 claim=c2 image=works
			budget db all max=1`, false},
		{"a volume on each node, where another budget holds one of them", "pool worker max=2" + nodes + `
			volume c0 w0
			volume c1 w1
			volume c2 w2
			Parallel w0 db claim=c0 image=works
			Parallel w1 db2 claim=c1 image=works
			in app
			bare w0 held
			budget held app=held max=0
			budget db app=db max=0`, true},
		{"two volumes on one node", "pool worker" + nodes + `
			volume c0 w0
			Parallel w0,w0 db claim=c0 image=works
			budget db app=db max=1`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := scene(tt.scene).input(t)
			some, _, _, ok := newModel(in).explore(400000)
			if !ok || some != tt.stalls {
				t.Fatalf("a course stalls: %t, explored: %t", some, ok)
			}
			got := Run(in)
			if stalls := len(got.Worst.Stalls) > 0; stalls != tt.stalls {
				t.Errorf("%s\n%s", lines(got.Worst.Stalls), lines(got.Worst.Steps))
			}
			if !tt.stalls && (got.Best.Undecided || len(got.Best.Stalls) > 0) {
				t.Errorf("at best: %s", got.Best)
			}
		})
	}
}
