package inventory

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// wired returns a wire to where cfg leads.
func wired(t *testing.T, cfg *rest.Config) *cluster.Wire {
	t.Helper()
	w, err := cluster.NewWire(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// F16: the watches of a real API server are cut, and what happens meanwhile is
// missed. That is known, and made good afterwards.
func TestClusterKnowsThatItIsCutOff(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	const ns, image = "cutoff", "quay.io/missed:1"
	namespace(t, kube, ns)
	w := wired(t, cfg)
	c := running(t, w.Config, Options{StaleAfter: 100 * time.Millisecond})
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no gap while all is well", func() bool { return len(c.Gaps()) == 0 })

	w.Cut()
	pod := &corev1.Pod{ObjectMeta: named(ns, "missed"), Spec: containers(image)}
	if _, err := kube.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var gap policy.Gap
	eventually(t, "there is a gap where pods are", func() bool {
		gaps := c.Gaps()
		i := slices.IndexFunc(gaps, func(g policy.Gap) bool { return g.Source == "pods" })
		if i >= 0 {
			gap = gaps[i]
		}
		return i >= 0
	})
	if gap.Kind != "Pod" || !strings.HasPrefix(gap.Detail, "out of reach for ") {
		t.Errorf("got %+v, want pods out of reach", gap)
	}
	for _, g := range c.Gaps() {
		if strings.Contains(g.Source, "openshift") {
			t.Errorf("a gap in %s, which this cluster does not serve", g.Source)
		}
	}
	eventually(t, "a note says so in one line", func() bool {
		notes := c.Notes()
		return len(notes) == 1 && strings.HasPrefix(notes[0], "pods, replicationcontrollers and ")
	})
	if users := usersOf(t, c, ns, image); len(users) != 0 {
		t.Errorf("nobody can know of %v", users)
	}

	w.Mend()
	eventually(t, "what was missed is known, and there is no gap", func() bool {
		return len(c.Gaps()) == 0 && len(c.Notes()) == 0 && len(usersOf(t, c, ns, image)) == 1
	})
}
