package main

import (
	"context"
	"crypto/x509"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/trust"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A caSource knows whom nodes trust, and would trust. *trust.Follower is one.
type caSource interface {
	CAs(ctx context.Context, name string) (map[string]string, error)
	HostRootCAs(cas map[string]string) map[string]*x509.CertPool
}

var _ caSource = (*trust.Follower)(nil)

// A proposer is a review.Trust: what it proposes is asked for by a Store.
type proposer struct {
	caSource
	store *registry.Store
}

var _ review.Trust = proposer{}

// Propose implements review.Trust.
func (p proposer) Propose(cas map[string]string) (review.Registries, func()) {
	proposal := p.store.Proposed(p.HostRootCAs(cas))
	return proposal, proposal.Close
}
