package port

import (
	"net"
	"slices"
	"sync"
)

// firstFactor is by how many times more connections an address that goes first may have than others.
const firstFactor = 4

// A listener closes the connections that its limits leave no room for. Where all are taken, the address that has most of
// them gives one up for one that has less: so no client keeps others out, from however many addresses.
type listener struct {
	net.Listener

	limits Limits

	mu     sync.Mutex
	open   map[string][]*conn // by address
	shared int                // those of addresses that do not go first
}

// A conn is an open connection.
type conn struct {
	net.Conn

	listener *listener
	address  string
	first    bool
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, listener: l, address: AddressOf(accepted.RemoteAddr().String())}
		c.first = l.limits.First != nil && l.limits.First(c.address)
		victim := l.admit(c)
		if victim != nil {
			_ = victim.Conn.Close() // who uses it finds out
		}
		if victim != c {
			return c, nil
		}
	}
}

// admit counts c, and returns a connection that has to be closed, which may be c; nil for none.
func (l *listener) admit(c *conn) (victim *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := l.limits.PerAddress
	if c.first {
		most *= firstFactor
	}
	own := l.open[c.address]
	if len(own) >= most {
		return c
	}
	if !c.first && l.shared >= l.limits.Connections {
		if victim = l.greediest(); victim == nil || len(l.open[victim.address]) <= len(own)+1 {
			return c
		}
		l.forget(victim)
	}
	l.open[c.address] = append(l.open[c.address], c)
	if !c.first {
		l.shared++
	}
	return victim
}

// greediest returns the last connection of the address that has most, of those that do not go first.
func (l *listener) greediest() (last *conn) {
	for _, conns := range l.open {
		if newest := conns[len(conns)-1]; !newest.first && (last == nil || len(conns) > len(l.open[last.address])) {
			last = newest
		}
	}
	return last
}

// forget takes note that c is closed. It may be called more than once.
func (l *listener) forget(c *conn) {
	conns := l.open[c.address]
	i := slices.Index(conns, c)
	if i < 0 {
		return
	}
	if !c.first {
		l.shared--
	}
	if conns = slices.Delete(conns, i, i+1); len(conns) == 0 {
		delete(l.open, c.address)
	} else {
		l.open[c.address] = conns
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.forget(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// AddressOf returns the host of an address with a port.
func AddressOf(hostPort string) string {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return hostPort
	}
	return host
}
