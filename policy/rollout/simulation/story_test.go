package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// TestStories is what is said of rollouts, in full: the worst course, then the best where it
// differs.
func TestStories(t *testing.T) {
	const three = "pool worker\nnode w1 worker\nnode w2 worker\nnode w3 worker\n"
	const six = three + "node w4 worker\nnode w5 worker\nnode w6 worker\n"
	for _, tt := range []struct {
		name  string
		scene string
		want  string
	}{
		{"the seed: two replicas, and nodes updated first that never ran the image", six + `
			ReplicaSet w2,w3 router port=80 image=router-new-fails
			budget router app=router max=1`, ``},
		{"the same, and the registry is always asked", six + `
			ReplicaSet w2,w3 router port=80 image=router-new-fails always
			budget router app=router max=1`, ``},
		{"a source that is dead already", three + `
			ReplicaSet w1,w2 router port=80 image=router-old-fails
			budget router app=router max=1`, ``},
		{"strict anti-affinity with as many replicas as nodes, always asked", three + `
			ReplicaSet w1,w2,w3 router apart image=router-new-fails always
			budget router app=router max=1`, ``},
		{"nobody knows the image", three + `
			ReplicaSet w1,w2 router image=unknown
			budget router app=router max=1`, ``},
		{"a budget of 0", three + `
			ReplicaSet w1,w2 web image=works
			budget web app=web max=0`, ``},
		{"a budget for all replicas", three + `
			ReplicaSet w1,w2 web image=works
			budget web app=web min=100%`, ``},
		{"two budgets", three + `
			ReplicaSet w1,w2 web image=works
			budget a app=web max=1
			budget b all max=1`, ``},
		{"a bare pod with a budget", three + `
			bare w1,w2 web image=works
			budget web app=web min=1`, ``},
		{"a pod that is not ready", three + `
			ReplicaSet w1,w2!unready web image=works
			budget web app=web max=1`, ``},
		{"no room", `pool worker
			node w1 worker cpu=4
			node w2 worker cpu=4
			ReplicaSet w1,w1,w2,w2 web cpu=2 image=works
			budget web app=web max=1`, ``},
		{"many replicas of which few can be missing", six + `
			ReplicaSet w1,w2,w3,w4,w5,w6,w1,w2 web image=new-fails
			budget web app=web max=2`, ``},
		{"a cycle of pods that wait for each other", `pool worker
			node w1 worker
			node w2 worker taint=x
			ReplicaSet w1 a with=b
			ReplicaSet w1 b with=a
			budget a app=a max=1
			budget b app=b max=1`, ``},
		{"nothing to drain", "pool worker paused\nnode w1 worker\nReplicaSet w1 web image=fails\nbudget web app=web max=0", ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Run(scene(tt.scene).input(t))
			said := got.Worst.String() + kind(got.Worst) + "\n" + got.Best.String() + kind(got.Best)
			t.Logf("%s\n-- worst\n%s\n-- best\n%s\n-- obstacles\n%s", said, lines(got.Worst.Steps), lines(got.Best.Steps), lines(got.Obstacles))
		})
	}
	_ = json.Marshal
	_ = fmt.Sprint
	_ = slices.Sort[[]string]
	_ = strings.Join
	_ = rollout.Takes
}

func kind(c Course) string {
	if len(c.Stalls) == 0 {
		return ""
	}
	if c.Stalls[0].ByImage {
		return " [image]"
	}
	return " [not by an image]"
}
