// Image builds the guard's container image without a container engine: for each platform one static
// binary, CAs and a licence, as an OCI layout with an SBOM of each binary. The same commit, compiler,
// CAs and version give the same digest.
//
//	cd tools && go run ./image -version v0.1.0 [-push REGISTRY/NAME:TAG [-key FILE]]
//
// It prints that digest or, if the image was pushed, its reference by digest. The tag is set last, so that
// a pull by tag always finds the SBOMs and the signatures. With -release it also writes the files of a
// release, and pushes a bundle and a catalog for OLM beside the image; with -packages it makes these and the
// Helm chart for an image that was pushed before.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tools/image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("image", flag.ExitOnError)
	flags.StringVar(&o.version, "version", "devel", "what the binary and the labels say")
	flags.StringVar(&o.platforms, "platforms", supported, "which of these to build, separated by commas")
	flags.StringVar(&o.cas, "ca-bundle", "/etc/ssl/certs/ca-certificates.crt", "the CAs by which registries are verified")
	flags.StringVar(&o.push, "push", "", "where to push to: REGISTRY/NAME:TAG")
	flags.StringVar(&o.key, "key", "", "sign what is pushed with the key in this file: ECDSA P-256, PEM, not encrypted")
	flags.BoolVar(&o.release, "release", false, "write archives, checksums and install.yaml as well")
	flags.BoolVar(&o.packages, "packages", false, "write only the chart, and the bundle and the catalog for OLM, for an image that was pushed before")
	flags.StringVar(&o.image, "image", "", "what install.yaml and packages run: REGISTRY/NAME (default: that of -push); with -packages REGISTRY/NAME@DIGEST")
	flags.StringVar(&o.kubectl, "kubectl", "kubectl", "the program that makes install.yaml")
	flags.StringVar(&o.maintainer, "maintainer", "", "who answers for the bundle for OLM: NAME <ADDRESS>")
	flags.StringVar(&o.out, "out", "../dist", "the folder to write to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q: no arguments are expected", flags.Args())
	}
	j, err := newJob(ctx, o)
	if err != nil {
		return err
	}
	return j.run(ctx)
}
