package inventory

import (
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A wire passes TCP connections on to an API server until it is cut.
type wire struct {
	to       string
	listener net.Listener

	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

// wired returns cfg by way of a wire.
func wired(t *testing.T, cfg *rest.Config) (*wire, *rest.Config) {
	t.Helper()
	host, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: host.Host, listener: listener}
	t.Cleanup(func() {
		listener.Close()
		w.cut()
	})
	go w.accept()
	cfg = rest.CopyConfig(cfg)
	cfg.Host = "https://" + listener.Addr().String()
	return w, cfg
}

func (w *wire) accept() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		go w.connect(conn)
	}
}

func (w *wire) connect(from net.Conn) {
	to, err := net.Dial("tcp", w.to)
	if err != nil {
		from.Close()
		return
	}
	w.mu.Lock()
	w.conns = append(w.conns, from, to)
	cut := w.isCut
	w.mu.Unlock()
	if cut {
		w.cut()
		return
	}
	go io.Copy(to, from)
	io.Copy(from, to)
	from.Close()
}

// cut ends all connections, and those that are made from now on.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}

// F16: the watches of a real API server are cut, and what happens meanwhile is
// missed. That is known, and made good afterwards.
func TestClusterKnowsThatItIsCutOff(t *testing.T) {
	cfg := fromAPIServer(t)
	kube := kubernetes.NewForConfigOrDie(cfg)
	const ns, image = "cutoff", "quay.io/missed:1"
	namespace(t, kube, ns)
	w, through := wired(t, cfg)
	c := running(t, through, Options{StaleAfter: 100 * time.Millisecond})
	if err := c.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no gap while all is well", func() bool { return len(c.Gaps()) == 0 })

	w.cut()
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

	w.mend()
	eventually(t, "what was missed is known, and there is no gap", func() bool {
		return len(c.Gaps()) == 0 && len(c.Notes()) == 0 && len(usersOf(t, c, ns, image)) == 1
	})
}
