// Package port makes the servers of the guard. A client that can reach a port, with or without credentials,
// gets a bounded part of what the process has: connections, headers, and the time for them.
//
//	p := port.New(":8081", mux, nil, port.Limits{Header: 4 << 10, Connections: 64, PerAddress: 16}, log)
//	err = p.Serve(p.Listener(listener))
package port

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/panics"
)

// Limits are what clients of a port may have of it.
type Limits struct {
	// Header is how many bytes the header of a request may have. net/http adds 4 KiB.
	Header int
	// Connections is how many connections there are at once, PerAddress how many of one address.
	Connections, PerAddress int
	// First reports whether the clients of an address go first: they have four times PerAddress, beside
	// Connections. Nil: none do. It must not block.
	First func(address string) bool
	// Answer is how long an answer may take, from when the header was read until it is written.
	Answer time.Duration
}

// arrival is how long a TLS handshake may take, and then a request to arrive, which clients send in one go:
// connections without a request do not pile up. A handler that reads large bodies sets a time of its own.
const arrival = 5 * time.Second

// A Port is a server and what its clients may have of it.
type Port struct {
	*http.Server

	limits Limits
}

// New returns a server of h, over TLS if there is a config, at an address. The caller runs it, with the
// Listener that it makes, and ends it with Shutdown, which waits for the requests under way. Failed handshakes are
// logged to log at verbosity 1.
//
// It speaks HTTP/1.1 only: so does an API server to webhooks, to spread its requests over the replicas
// (https://issue.k8s.io/75791).
//
// Each request has a connection of its own. A connection that is kept for the next one is one that a replica must
// close when it ends, and HTTP/1.1 cannot do that without a risk: a review sent at the same moment is lost, the API
// server does not send a failed POST again, and the change is refused. Likewise, one to a replica whose node has died
// swallows reviews until they time out. Mirror sets change a few times a day, and a handshake takes a few
// milliseconds (webhook, BenchmarkConnections). So there are no idle connections either.
func New(address string, h http.Handler, config *tls.Config, l Limits, log logr.Logger) *Port {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server := &http.Server{
		Addr:              address,
		Handler:           arrived(answered(h, log)),
		TLSConfig:         config,
		Protocols:         protocols,
		ReadHeaderTimeout: arrival,
		ReadTimeout:       arrival,
		WriteTimeout:      l.Answer,
		MaxHeaderBytes:    l.Header,
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(log), slog.Level(-1)),
	}
	server.SetKeepAlivesEnabled(false)
	return &Port{server, l}
}

// arrived takes the limit of time off requests that have arrived: it would pass while the server listens for a
// client that hangs up, and be taken for one. An unread body has to arrive in time, since the server waits for
// some of it after the answer.
func arrived(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a ResponseWriter without is a test's
		}
		h.ServeHTTP(w, r)
	})
}

// answered logs a panic with its stack, and answers; net/http would end the connection, and say so at verbosity 1 only.
func answered(h http.Handler, log logr.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := panics.Recovered(func() error { h.ServeHTTP(w, r); return nil }); err != nil {
			log.Error(err, "A request ended in a panic", "stack", panics.StackOf(err))
			http.Error(w, "an internal error, of which the log has more", http.StatusInternalServerError)
		}
	})
}

// Listener returns l with the limits of p.
func (p *Port) Listener(l net.Listener) net.Listener {
	return &listener{Listener: l, limits: p.limits, open: map[string][]*conn{}}
}
