package disruption

import (
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/ports"
)

// A service forwards TCP connections to its endpoints in turn, as a Service does: a connection
// stays with its endpoint, also when that leaves the Service.
type service struct {
	address string

	mu        sync.Mutex
	listener  net.Listener // nil: nothing listens
	endpoints []string
	next      int
	carried   map[string]int // connections by endpoint
}

func newService(t *testing.T) *service {
	t.Helper()
	addresses, err := ports.Free("127.0.0.1", 1) // nobody else's while the service has stopped
	if err != nil {
		t.Fatal(err)
	}
	s := &service{address: addresses[0], carried: map[string]int{}}
	s.listen(t)
	t.Cleanup(s.stop)
	return s
}

// listen accepts connections, until stop is called.
func (s *service) listen(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.listener = l
	s.mu.Unlock()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.carry(conn)
		}
	}()
}

// stop has connections refused.
func (s *service) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
}

func (s *service) port(t *testing.T) int32 {
	t.Helper()
	address, err := net.ResolveTCPAddr("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	return int32(address.Port)
}

func (s *service) add(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = append(s.endpoints, endpoint)
}

func (s *service) remove(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = slices.DeleteFunc(s.endpoints, func(e string) bool { return e == endpoint })
}

// pick returns the endpoint of the next connection, "" if there is none.
func (s *service) pick() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.endpoints) == 0 {
		return ""
	}
	s.next++
	e := s.endpoints[s.next%len(s.endpoints)]
	s.carried[e]++
	return e
}

// connections returns how many an endpoint has been given.
func (s *service) connections(endpoint string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.carried[endpoint]
}

func (s *service) carry(from net.Conn) {
	defer from.Close()
	endpoint := s.pick()
	if endpoint == "" {
		return
	}
	to, err := net.Dial("tcp", endpoint)
	if err != nil {
		return
	}
	defer to.Close()
	cluster.Forward(from, to)
}
