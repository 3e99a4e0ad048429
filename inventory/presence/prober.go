package presence

import (
	"context"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Prober finds out what a node would get at a location. *registry.Client is one.
type Prober interface {
	// Probe returns a Fact that is Unknown if ctx ends first.
	Probe(ctx context.Context, l mirrors.Location) policy.Fact
	// Generation changes when earlier answers may no longer hold, because other credentials or
	// other trust are used.
	Generation() uint64
	// Platforms are those of the nodes, for which it answers.
	Platforms() []string
	// Prepare gets ready for many probes of one registry. It returns false if the registry does
	// not answer.
	Prepare(ctx context.Context, locs []mirrors.Location) bool
}

// A ProposedProber asks with certificate authorities that are not in force. Close ends its
// probes, and waits for them.
type ProposedProber interface {
	Prober
	Close()
}
