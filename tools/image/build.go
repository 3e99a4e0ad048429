package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// program is the name of the binary.
const program = "mirrorset-guard"

// build compiles the guard for a platform, as the Dockerfile does. Without -trimpath and -buildvcs the
// binary would depend on where the source is, and on whether git is there.
func (j *job) build(ctx context.Context, platform v1.Platform, to string) error {
	fmt.Fprintf(os.Stderr, "building %s for %s\n", program, platform)
	goBuild := exec.CommandContext(ctx, "go", //nolint:gosec // the version was checked
		"build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+j.version, "-o", to, "./cmd/"+program)
	goBuild.Dir = j.root
	goBuild.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	goBuild.Stdout, goBuild.Stderr = os.Stderr, os.Stderr
	if err := goBuild.Run(); err != nil {
		return fmt.Errorf("building %s for %s: %w", program, platform, err)
	}
	return nil
}
