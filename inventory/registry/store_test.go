package registry

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
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

// TestFactOfALargeIndex: what a Client remembers of an index is bounded.
func TestFactOfALargeIndex(t *testing.T) {
	var entries []string
	for i := range 2 * maxPlatforms {
		_, entry := child(fmt.Sprintf("linux/%d%s", i, strings.Repeat("x", 2*wire.MaxQuote)))
		entries = append(entries, entry)
	}
	amd64, entry := child("linux/amd64")
	index := indexOf(append(entries, entry)...)
	c := newTestClient(t, newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case ping(w, r):
		case strings.HasSuffix(r.URL.Path, sumOf(index)):
			serve(ociIndex, sumOf(index), index)(w, r)
		default:
			sparse("", amd64)(w, r)
		}
	}), reading("linux/amd64"))
	l := mirrors.Location{Ref: host + "/app/web@" + sumOf(index)}
	fact := c.Probe(t.Context(), l)
	wantFact(t, fact, policy.Present)
	if len(fact.Platforms) != maxPlatforms || len(fact.Children) != maxPlatforms {
		t.Errorf("%d platforms, %d children, want %d", len(fact.Platforms), len(fact.Children), maxPlatforms)
	}
}
