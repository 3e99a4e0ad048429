package presence

import (
	"context"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Prober finds out what a node would get at a location. The Fact is Unknown if
// ctx ends first. It may also be a GenerationSource, a PlatformSource and a Preparer;
// registry.Client is all of them.
type Prober interface {
	Probe(ctx context.Context, l mirrors.Location) policy.Fact
}

// ProberFunc is a function that is a Prober.
type ProberFunc func(context.Context, mirrors.Location) policy.Fact

// Probe implements Prober.
func (f ProberFunc) Probe(ctx context.Context, l mirrors.Location) policy.Fact { return f(ctx, l) }

// A GenerationSource is a Prober that says when its earlier answers may no longer hold,
// because it asks with other credentials or other trust.
type GenerationSource interface{ Generation() uint64 }

// A PlatformSource is a Prober that answers for the platforms of the nodes.
type PlatformSource interface{ Platforms() []string }

// A Preparer is a Prober that can get ready for many probes of one registry. Prepare
// returns false if the registry does not answer.
type Preparer interface {
	Prepare(ctx context.Context, locs []mirrors.Location) bool
}

// A ProposedProber asks with certificate authorities that are not in force. Close ends its
// probes, and waits for them.
type ProposedProber interface {
	Prober
	Close()
}
