package presence

import (
	"context"
	"time"

	"github.com/opencontainers/go-digest"

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

// sleep waits for d, or until ctx ends, which is an error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
