package registry

import (
	"context"
	"crypto/x509"
	"maps"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// notProposed is the answer about a Location with ProposedTrust where nothing is
// proposed: the CAs in force say nothing about it.
var notProposed = unreachable("was not asked with the certificate authorities that are proposed")

// Propose returns a Client that trusts hostRoots instead of the CAs that c trusts for
// single hosts, and is otherwise as c is, whatever becomes of c: it shares the pace of
// each registry, and gets new credentials, CAs for all hosts and proxies when c does.
// Connections, sessions, tokens and failures are its own. It is to be closed; closing c
// closes it too.
func (c *Client) Propose(hostRoots map[string]*x509.CertPool) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.options
	o.HostRootCAs = maps.Clone(hostRoots)
	p := newClient(o, c.paces)
	if c.closed {
		p.closed = true
		p.view.end()
		return p
	}
	c.proposals[p] = struct{}{}
	return p
}

// withdraw makes c forget a proposal, which is to be closed.
func (c *Client) withdraw(p *Client) {
	c.mu.Lock()
	delete(c.proposals, p)
	c.mu.Unlock()
	p.Close()
}

// handDown gives proposals what has changed.
func (c *Client) handDown() {
	c.handOver.Lock() // or an older state could arrive after a newer one
	defer c.handOver.Unlock()
	c.mu.Lock()
	o := c.options
	proposals := make([]*Client, 0, len(c.proposals))
	for p := range c.proposals {
		proposals = append(proposals, p)
	}
	c.mu.Unlock()
	for _, p := range proposals {
		p.change(func() bool {
			p.options.Credentials, p.options.RootCAs, p.options.Proxy = o.Credentials, o.RootCAs, o.Proxy
			return true
		})
	}
}

// A proposer can ask with other CAs.
type proposer interface {
	Propose(hostRoots map[string]*x509.CertPool) *Client
	withdraw(*Client)
}

var _ proposer = (*Client)(nil)

// A Proposal answers as its Store does and, about Locations with ProposedTrust, by
// asking with CAs that are not in force yet. What it learns of those is kept in it,
// and is never found by questions about the CAs in force, nor the reverse. It is safe
// for concurrent use.
type Proposal struct {
	store   *Store
	own     *Store // whose Locations have no ProposedTrust; nil if it cannot ask
	release func()
}

// Proposed returns a Proposal that trusts hostRoots, by the host or host and port that
// a reference names, instead of the CAs that are trusted for single hosts now
// (Options.HostRootCAs, Client.SetTrust). It is for one review and is to be closed
// after it, before the Store and its Client are. Without it, Locations with
// ProposedTrust are Unreachable.
func (s *Store) Proposed(hostRoots map[string]*x509.CertPool) *Proposal {
	p := &Proposal{store: s, release: func() {}}
	if from, ok := s.prober.(proposer); ok {
		client := from.Propose(hostRoots)
		o := s.options
		o.Path = ""
		p.own = NewStore(client, o)
		p.release = func() { from.withdraw(client) }
	}
	return p
}

// Presence implements review.Registries, as Store.Presence does.
func (p *Proposal) Presence(ctx context.Context, locs []mirrors.Location) policy.Facts {
	return p.ask(ctx, locs, (*Store).Presence)
}

// Recall implements review.RecallSource, as Store.Recall does.
func (p *Proposal) Recall(ctx context.Context, locs []mirrors.Location) policy.Facts {
	return p.ask(ctx, locs, (*Store).Recall)
}

func (p *Proposal) ask(ctx context.Context, locs []mirrors.Location,
	by func(*Store, context.Context, []mirrors.Location) policy.Facts,
) policy.Facts {
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
		return by(p.store, ctx, inForce)
	}
	answers := make(chan policy.Facts, 1)
	go func() { answers <- by(p.own, ctx, proposed) }()
	facts := by(p.store, ctx, inForce)
	for l, f := range <-answers {
		l.ProposedTrust = true
		facts[l] = f
	}
	return facts
}

// Notes implements review.Noter: those of the Store.
func (p *Proposal) Notes() []string { return p.store.Notes() }

// Close ends what is under way for p alone, and waits for it. It may be called twice.
func (p *Proposal) Close() {
	if p.own != nil {
		p.own.Close()
	}
	p.release()
}
