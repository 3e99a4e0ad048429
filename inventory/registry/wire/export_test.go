package wire

import (
	"context"
	"net"
)

// What tests from outside, which ask as the guard does, need of the inside.

// Host is host.
const Host = host

// Their twins.
var (
	NewServer = newServer
	Bearer    = bearer
)

// DialBy makes c reach Host by dial.
func (c *Client) DialBy(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	c.Endpoint(web).transport.base.DialContext = dial
}

// SetPace allows up to most requests at once to Host.
func (c *Client) SetPace(most int) { c.paces.byHost[host] = newPace(most, 0) }

// SharesPace reports whether c and other ask Host at one pace.
func (c *Client) SharesPace(other *Client) bool {
	return c.Endpoint(web).pace == other.Endpoint(web).pace
}
