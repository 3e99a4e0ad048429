package deployed

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/webhook"
)

// podNetwork is what the addresses of pods begin with. EndpointSlices cannot have those of
// loopback, where the pods really are.
const podNetwork = "10.128.0."

// A network leads from the API server to pods, and to the Service of the guard. The API server
// connects through it as through a proxy (EgressSelectorConfiguration).
type network struct {
	// proxy is the socket of it: kube-apiserver panics if told of a proxy by TCP without TLS.
	proxy string
	// loopback is what stands for podNetwork, a network that no other test uses.
	loopback string

	mu        sync.Mutex
	service   string   // the address of the Service
	endpoints []string // to which connections to the Service go in turn
	heard     int      // how often endpoints have been heard of
	current   int      // which of these endpoints are from
	next      int
	pods      int
	carried   map[string]int // connections by address of a pod
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{proxy: filepath.Join(t.TempDir(), "proxy"), carried: map[string]int{}}
	var reserved net.Listener
	for _, i := range rand.Perm(250) { // pods of a test that was killed may still be in the first
		n.loopback = fmt.Sprintf("127.7.%d.", i)
		if reserved, _ = net.Listen("tcp", n.loopback+"1:9443"); reserved != nil {
			break
		}
	}
	if reserved == nil {
		t.Fatal("no network of loopback is free")
	}
	t.Cleanup(func() { reserved.Close() })
	listener, err := net.Listen("unix", n.proxy)
	must(t, err)
	server := &http.Server{Handler: n}
	go server.Serve(listener) //nolint:errcheck // ends with the test
	t.Cleanup(func() { server.Close() })
	return n
}

// newPod returns the address of a new pod, and where it really is.
func (n *network) newPod() (ip, loopback string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods++
	return fmt.Sprint(podNetwork, n.pods+1), fmt.Sprint(n.loopback, n.pods+1)
}

// ServeHTTP connects to where a request says.
func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	endpoint := n.route(r.Host)
	to, err := net.Dial("tcp", endpoint)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	from, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer from.Close()
	if _, err := io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n"); err == nil {
		cluster.Forward(from, to)
	}
}

// route returns where a connection really goes, "" if nowhere.
func (n *network) route(address string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if address == n.service {
		if len(n.endpoints) == 0 {
			return ""
		}
		n.next++
		address = n.endpoints[n.next%len(n.endpoints)]
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || !strings.HasPrefix(host, podNetwork) {
		return ""
	}
	n.carried[host]++
	return net.JoinHostPort(strings.Replace(host, podNetwork, n.loopback, 1), port)
}

// connections returns how many a pod has been given.
func (n *network) connections(ip string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.carried[ip]
}

// serve has connections to the address of a Service go to its endpoints, of which no node has
// heard yet.
func (n *network) serve(service *corev1.Service) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.service = fmt.Sprintf("%s:%d", service.Spec.ClusterIP, webhook.ServicePort)
}

// follow sets the endpoints of the Service as kube-proxy does, which hears of them some time
// later (k8s.io/kubernetes, pkg/proxy/topology.go): those that are ready, and if there are none,
// those that end and still serve.
func (n *network) follow(slices []*discoveryv1.EndpointSlice, lag time.Duration) {
	var ready, ending []string
	for _, slice := range slices {
		for _, port := range slice.Ports {
			if *port.Name != "webhook" {
				continue
			}
			for _, e := range slice.Endpoints {
				address := fmt.Sprintf("%s:%d", e.Addresses[0], *port.Port)
				switch c := e.Conditions; {
				case *c.Ready:
					ready = append(ready, address)
				case *c.Serving && *c.Terminating:
					ending = append(ending, address)
				}
			}
		}
	}
	if len(ready) == 0 {
		ready = ending
	}
	n.mu.Lock()
	n.heard++
	heard := n.heard
	n.mu.Unlock()
	time.AfterFunc(lag, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if heard > n.current { // timers that end together do so in any order
			n.endpoints, n.current = ready, heard
		}
	})
}
