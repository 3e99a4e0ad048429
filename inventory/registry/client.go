package registry

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Client finds out what nodes would get from registries. It is safe for concurrent use.
type Client struct {
	*wire.Client
	nodes   nodePlatforms
	configs configs
}

// NewClient returns a Client, which has to be closed. Platforms returns those of the nodes, as os/architecture
// ("linux/arm64"), none where they are not known. With it, every index is read, and its children for these are looked up;
// where it is nil, only indexes at Locations of DepthManifest and beyond are. It is called at most once a second.
func NewClient(o wire.Options, platforms func() []string) *Client {
	return &Client{Client: wire.NewClient(o), nodes: nodePlatforms{read: platforms}}
}

// Propose returns a Client that trusts hostRoots and is otherwise as c is: see wire.Client.Propose.
func (c *Client) Propose(hostRoots map[string]*x509.CertPool) *Client {
	return &Client{Client: c.Client.Propose(hostRoots), nodes: nodePlatforms{read: c.nodes.read}}
}

// Probe asks the registry at l what a node would get there. The Fact is Unknown if
// and only if ctx ended before there was an answer.
func (c *Client) Probe(ctx context.Context, l mirrors.Location) (fact policy.Fact) {
	if l.ProposedTrust {
		return policy.NotAskedAsProposed(time.Now())
	}
	t, unreadable := parseTarget(l)
	if unreadable != nil {
		return unreadable.Fact(time.Now())
	}
	asNodes, err := c.Ask(ctx, t.Repository, func(ctx context.Context, x wire.Exchange) (err error) {
		fact, err = (&lookup{x, &c.nodes, &c.configs, t}).look(ctx)
		return err
	})
	if f := new(wire.Failure); errors.As(err, &f) {
		fact = f.Fact(time.Now())
	} else if err != nil {
		return policy.Fact{Detail: "no answer yet"}
	}
	fact.AsNodes = asNodes
	return fact
}
