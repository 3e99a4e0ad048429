package registry

import (
	"crypto/x509"
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// What the Store finds in a Client.
var (
	_ presence.Prober         = (*Client)(nil)
	_ presence.ProposedProber = (*Client)(nil)
)

// newStore returns a Store that asks c, and can propose.
func newStore(c *Client, o presence.Options) *presence.Store {
	o.Propose = func(hostRoots map[string]*x509.CertPool) presence.ProposedProber { return c.Propose(hostRoots) }
	return presence.NewStore(c, o)
}

func locations(n int, format string) []mirrors.Location {
	locs := make([]mirrors.Location, n)
	for i := range locs {
		locs[i] = mirrors.Location{Ref: fmt.Sprintf(format, i)}
	}
	return locs
}
