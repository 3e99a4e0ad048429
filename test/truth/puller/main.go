// Puller pulls one image the way CRI-O does: with copy.Image of containers/image,
// in the version that the guard follows, which no packaged skopeo has. Unlike
// skopeo it supports short names, each candidate of which is a separate pull.
//
//	puller -registries-conf FILE -policy FILE -authfile FILE -arch ARCH IMAGE FOLDER
//	puller judge < QUESTIONS
//
// It exits with 0 if the image is in FOLDER, with 1 and the reason if it is not. With judge it
// reads questions, one a line, and answers each: would a node accept an image by these
// signatures?
// It is a separate module because copy.Image needs a hundred modules that the
// guard must not have.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/containers/image/v5/copy"
	"github.com/containers/image/v5/directory"
	"github.com/containers/image/v5/docker"
	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/shortnames"
	"github.com/containers/image/v5/signature"
	"github.com/containers/image/v5/types"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 1 && args[0] == "judge" {
		return judgeAll(os.Stdin, os.Stdout)
	}
	disabled := types.ShortNameModeDisabled // CRI-O cannot ask anyone
	sys := &types.SystemContext{OSChoice: "linux", ShortNameMode: &disabled}
	var creds string
	flags := flag.NewFlagSet("puller", flag.ContinueOnError)
	flags.StringVar(&sys.SystemRegistriesConfPath, "registries-conf", "", "")
	flags.StringVar(&sys.SystemRegistriesConfDirPath, "registries-conf-dir", "", "")
	flags.StringVar(&sys.SignaturePolicyPath, "policy", "", "")
	flags.StringVar(&sys.RegistriesDirPath, "registries.d", "", "")
	flags.StringVar(&sys.AuthFilePath, "authfile", "", "")
	flags.StringVar(&sys.ArchitectureChoice, "arch", "", "")
	flags.StringVar(&creds, "creds", "", "user:password of the pod's own pull secret")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("want an image and a folder")
	}
	if user, password, ok := strings.Cut(creds, ":"); ok {
		sys.DockerAuthConfig = &types.DockerAuthConfig{Username: user, Password: password}
	}
	return pull(context.Background(), sys, flags.Arg(0), flags.Arg(1))
}

// pull tries each candidate for image until one works, as CRI-O does.
func pull(ctx context.Context, sys *types.SystemContext, image, folder string) error {
	policy, err := signature.DefaultPolicy(sys)
	if err != nil {
		return err
	}
	trust, err := signature.NewPolicyContext(policy)
	if err != nil {
		return err
	}
	defer trust.Destroy() //nolint:errcheck // the process ends
	names, err := shortnames.Resolve(sys, image)
	if err != nil {
		return err
	}
	var failed error
	for _, candidate := range names.PullCandidates {
		err := pullCandidate(ctx, sys, trust, candidate.Value, folder)
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", candidate.Value, err))
	}
	return failed
}

func pullCandidate(ctx context.Context, sys *types.SystemContext, trust *signature.PolicyContext, name reference.Named, folder string) error {
	name, err := canonical(name)
	if err != nil {
		return err
	}
	from, err := docker.NewReference(name)
	if err != nil {
		return err
	}
	to, err := directory.NewReference(folder)
	if err != nil {
		return err
	}
	_, err = copy.Image(ctx, trust, to, from, &copy.Options{SourceCtx: sys})
	return err
}

// canonical drops the tag if there is a digest, and adds one if there is neither.
func canonical(name reference.Named) (reference.Named, error) {
	digested, ok := name.(reference.Digested)
	if !ok {
		return reference.TagNameOnly(name), nil
	}
	return reference.WithDigest(reference.TrimNamed(name), digested.Digest())
}
