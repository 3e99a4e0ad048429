package presence

import (
	"context"
	"testing"
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

// sleep waits for d, or until ctx ends, which is an error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func wantFact(t testing.TB, got policy.Fact, want policy.Presence) {
	t.Helper()
	if got.Presence != want {
		t.Fatalf("presence = %v (%s), want %v", got.Presence, got.Detail, want)
	}
}
