package registry

import (
	"context"
	"crypto/x509"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/goroutines"
)

func proposed(l mirrors.Location) mirrors.Location {
	l.ProposedTrust = true
	return l
}

// presences asks about locations and returns what was found.
func presences(t *testing.T, r interface {
	Presence(context.Context, []mirrors.Location, policy.Freshness) policy.Facts
}, locs ...mirrors.Location,
) map[mirrors.Location]policy.Presence {
	t.Helper()
	found := map[mirrors.Location]policy.Presence{}
	for l, f := range r.Presence(t.Context(), locs, policy.Freshness{}) {
		found[l] = f.Presence
	}
	return found
}

// TestProposed: one registry is asked with the CAs in force and with those proposed,
// and neither answer is taken for the other's, whichever comes first.
func TestProposed(t *testing.T) {
	l := digested()
	pool := map[string]*x509.CertPool{host: certificates.OfHTTPTest()}
	none := map[string]*x509.CertPool{host: x509.NewCertPool()}
	for _, tc := range []struct {
		reason            string
		inForce, proposed map[string]*x509.CertPool
		want              map[mirrors.Location]policy.Presence
	}{
		{
			"the change brings the CA", none, pool,
			map[mirrors.Location]policy.Presence{l: policy.Unreachable, proposed(l): policy.Present},
		},
		{
			"the change takes the CA away", pool, none,
			map[mirrors.Location]policy.Presence{l: policy.Present, proposed(l): policy.Unreachable},
		},
		{
			"the change takes the entry of the host away, which leaves the CAs for all hosts", none, nil,
			map[mirrors.Location]policy.Presence{l: policy.Unreachable, proposed(l): policy.Present},
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			c := newTestClient(t, newTLSServer(t, healthy), func(o *clientOptions) { o.HostRootCAs = tc.inForce })
			store := newStore(c, presence.Options{})
			defer store.Close()
			for range 2 { // the second time from what is kept
				p := store.Proposed(tc.proposed)
				if diff := cmp.Diff(tc.want, presences(t, p, l, proposed(l))); diff != "" {
					t.Error(diff)
				}
				p.Close()
				p.Close()
			}
			want := map[mirrors.Location]policy.Presence{l: tc.want[l], proposed(l): policy.Unreachable}
			if diff := cmp.Diff(want, presences(t, store, l, proposed(l))); diff != "" {
				t.Error("without the proposal:", diff)
			}
			if known := store.Known([]mirrors.Location{proposed(l)}); len(known) != 0 {
				t.Errorf("the Store has kept %v", known)
			}
		})
	}
}

// TestNothingIsProposed: a Client in force does not pretend to be a proposed one.
func TestNothingIsProposed(t *testing.T) {
	client := newTestClient(t, newTLSServer(t, healthy))
	wantFact(t, probe(t, client, proposed(tagged())), policy.Unreachable, "was not asked with the proposed certificate authorities")
}

// TestProposalAfterAChange: a proposal never uses a credential that was replaced, and
// ends with its client.
func TestProposalAfterAChange(t *testing.T) {
	s := newTLSServer(t, challenged("Basic", basic(canary)))
	before := runtime.NumGoroutine()
	c := newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: "old:one"})))
	p := c.Propose(map[string]*x509.CertPool{host: certificates.OfHTTPTest()})
	wantFact(t, probe(t, p, tagged()), policy.Denied)
	c.SetCredentials(credentials(t, map[string]string{host: canary}))
	wantFact(t, probe(t, p, tagged()), policy.Present)
	c.SetTrust(x509.NewCertPool(), nil, nil)
	wantFact(t, probe(t, p, tagged()), policy.Present) // by the CA that is proposed for the host
	c.Close()
	if got := p.Probe(t.Context(), tagged()); got.Presence != policy.Unknown {
		t.Errorf("after the end: %v", got)
	}
	if late := c.Propose(nil).Probe(t.Context(), tagged()); late.Presence != policy.Unknown {
		t.Errorf("proposed after the end: %v", late)
	}
	goroutines.Await(t, before)
}

// TestProposalsAreForgotten: each review of a change may make one.
func TestProposalsAreForgotten(t *testing.T) {
	c := newTestClient(t, newTLSServer(t, healthy))
	store := newStore(c, presence.Options{})
	defer store.Close()
	before := runtime.NumGoroutine()
	for range 10 {
		p := store.Proposed(nil)
		presences(t, p, proposed(tagged()))
		p.Close()
	}
	goroutines.Await(t, before)
}
