package presence

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	host        = "mirror.example.com"
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	ociIndex    = "application/vnd.oci.image.index.v1+json"
)

var manifestSum = digest.FromString("a manifest")

func tagged() mirrors.Location { return mirrors.Location{Ref: host + "/app/web:1"} }

func digested() mirrors.Location {
	return mirrors.Location{Ref: host + "/app/web@" + manifestSum.String()}
}

// A ProberFunc is a function that is a Prober, whose answers hold for good.
type ProberFunc func(context.Context, mirrors.Location) policy.Fact

func (f ProberFunc) Probe(ctx context.Context, l mirrors.Location) policy.Fact { return f(ctx, l) }
func (ProberFunc) Generation() uint64                                          { return 0 }
func (ProberFunc) Platforms() []string                                         { return nil }
func (ProberFunc) Prepare(context.Context, []mirrors.Location) bool            { return true }

// A counter answers from facts and counts.
type counter struct {
	ProberFunc // the rest of a Prober
	facts      policy.Facts
	platforms  []string
	probed     atomic.Int32
}

func (c *counter) Probe(_ context.Context, l mirrors.Location) policy.Fact {
	c.probed.Add(1)
	return *c.facts.At(l)
}

func (c *counter) Platforms() []string { return c.platforms }

// sleep waits for d, or until ctx ends, which is an error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
