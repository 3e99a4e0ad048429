package environment

import (
	"context"
	"crypto/x509"
	"errors"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A caSource provides the CAs that nodes trust, and would trust. *trust.Follower is one.
type caSource interface {
	CAs(ctx context.Context, name string) (map[string]string, error)
	HostRootCAs(cas map[string]string) map[string]*x509.CertPool
}

var (
	_ caSource = (*trust.Follower)(nil)
	_ caSource = dumpedCAs{}
)

// dumpedCAs is the caSource of a dump.
type dumpedCAs struct{ trust.Settings }

// CAs implements caSource. A ConfigMap that the dump lacks may exist in the cluster:
// people dump those that are named, and a change names another.
func (d dumpedCAs) CAs(_ context.Context, name string) (map[string]string, error) {
	cas := d.Settings.CAs(name)
	if cas == nil {
		return nil, errors.New("it is not in the dump")
	}
	return cas, nil
}

// A proposer is a review.Trust whose proposals ask through a Store.
type proposer struct {
	caSource
	store *presence.Store
}

var _ review.Trust = proposer{}

// Propose implements review.Trust.
func (p proposer) Propose(cas map[string]string) (review.Registries, func()) {
	proposal := p.store.Proposed(p.HostRootCAs(cas))
	return proposal, proposal.Close
}
