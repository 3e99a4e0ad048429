package presence

import (
	"context"
	"crypto/x509"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Proposal answers as its Store does and, about Locations with ProposedTrust, by
// asking with CAs that are not in force yet. What it learns of those stays in it and
// never answers for the CAs in force, nor the reverse. It is safe for concurrent use.
type Proposal struct {
	store  *Store
	own    *Store         // its Locations have no ProposedTrust; nil if nothing can be proposed
	prober ProposedProber // that of own
}

// Proposed returns a Proposal that trusts hostRoots, by the host or host and port that a
// reference names, instead of the CAs that are trusted for single hosts now
// (Options.HostRootCAs, Client.SetTrust). It serves one review and must be closed after it,
// before the Store and its Client are. Without it, Locations with ProposedTrust are
// Unreachable.
func (s *Store) Proposed(hostRoots map[string]*x509.CertPool) *Proposal {
	s.mu.Lock()
	o := s.options // SetLifetimes changes some
	s.mu.Unlock()
	p := &Proposal{store: s}
	if o.Propose != nil {
		p.prober = o.Propose(hostRoots)
		p.own = NewStore(p.prober, o)
	}
	return p
}

// Presence implements review.Registries, as Store.Presence does.
func (p *Proposal) Presence(ctx context.Context, locs []mirrors.Location, fresh policy.Freshness) policy.Facts {
	var inForce, proposed []mirrors.Location
	for _, l := range locs {
		if l.ProposedTrust && p.own != nil {
			l.ProposedTrust = false
			proposed = append(proposed, l)
		} else {
			inForce = append(inForce, l)
		}
	}
	if len(proposed) == 0 {
		return p.store.Presence(ctx, inForce, fresh)
	}
	answers := make(chan policy.Facts, 1)
	go func() { answers <- p.own.Presence(ctx, proposed, fresh) }()
	facts := p.store.Presence(ctx, inForce, fresh)
	for l, f := range <-answers {
		l.ProposedTrust = true
		facts[l] = f
	}
	return facts
}

// Notes implements review.NoteSource: those of the Store.
func (p *Proposal) Notes() []string { return p.store.Notes() }

// Close ends the probes that only p needs, and waits for them. It may be called twice.
func (p *Proposal) Close() {
	if p.own != nil {
		p.own.Close()
		p.prober.Close()
	}
}
