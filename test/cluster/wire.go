package cluster

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// A Wire forwards TCP connections to an API server until it is cut: the client then sees
// a server that is away, although it keeps running for others.
type Wire struct {
	// Config is the way to the API server through the wire.
	Config *rest.Config

	to       string
	listener net.Listener

	mu     sync.Mutex
	state  wireState
	turned *sync.Cond // wakes connections that wait while the wire is held
	conns  []net.Conn
}

type wireState int

const (
	mended wireState = iota
	cut
	held
)

// NewWire returns a wire to the API server of config, which it does not change. The
// caller closes it.
func NewWire(config *rest.Config) (*Wire, error) {
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("host of the API server: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &Wire{Config: rest.CopyConfig(config), to: server.Host, listener: listener}
	w.turned = sync.NewCond(&w.mu)
	w.Config.Host = "https://" + listener.Addr().String()
	go w.accept()
	return w, nil
}

// Close cuts the wire for good.
func (w *Wire) Close() {
	w.listener.Close()
	w.Cut()
}

// Cut closes all connections, present and future.
func (w *Wire) Cut() { w.turn(cut) }

// Hold closes all connections, and makes new ones wait.
func (w *Wire) Hold() { w.turn(held) }

// Mend lets connections through again, waiting ones first.
func (w *Wire) Mend() { w.turn(mended) }

func (w *Wire) turn(s wireState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = s
	if s != mended {
		for _, c := range w.conns {
			c.Close()
		}
		w.conns = nil
	}
	w.turned.Broadcast()
}

func (w *Wire) accept() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		go w.connect(conn)
	}
}

func (w *Wire) connect(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer to.Close()
	if !w.join(from, to) {
		return
	}
	Forward(from, to)
}

// Forward carries bytes both ways between two connections until one of them ends. The caller
// closes both.
func Forward(a, b net.Conn) {
	go func() {
		io.Copy(b, a) //nolint:errcheck // ends with either side
		b.Close()
	}()
	io.Copy(a, b) //nolint:errcheck // ends with either side
}

// join reports whether the wire carries a connection of these two ends, as soon as that
// is known.
func (w *Wire) join(ends ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.state == held {
		w.turned.Wait()
	}
	if w.state == cut {
		return false
	}
	w.conns = append(w.conns, ends...)
	return true
}
