// Package ports finds ports for programs that take theirs from a flag.
package ports

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// The ports that are given out. They are below those that Linux chooses for connections and for
// listeners on port 0 (ip_local_port_range, 32768 to 60999): one of those may be taken by anybody
// between the moment it is found free and the moment a program listens on it.
const first, last = 10000, 29999

var (
	mu    sync.Mutex
	given = map[int]bool{}
)

// Free returns n unused addresses of a host of this machine ("127.0.0.1"). A process gets each port
// only once.
func Free(host string, n int) ([]string, error) {
	mu.Lock()
	defer mu.Unlock()
	var addresses []string
	for len(addresses) < n {
		if len(given) > last-first {
			return nil, errors.New("all ports were given out")
		}
		port := first + rand.IntN(last-first+1)
		if given[port] {
			continue
		}
		given[port] = true
		address := net.JoinHostPort(host, strconv.Itoa(port))
		l, err := net.Listen("tcp", address)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			continue
		case err != nil:
			return nil, err
		}
		l.Close()
		addresses = append(addresses, address)
	}
	return addresses, nil
}
