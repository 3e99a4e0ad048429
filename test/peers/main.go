// Command peers copies images with libraries that `sync` is compared with (make bench-sync): eight at once, each as its
// documentation does it, between registries in plain HTTP.
//
//	peers regclient|oras SOURCE MIRROR IMAGE...
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/regclient/regclient"
	"github.com/regclient/regclient/config"
	"github.com/regclient/regclient/types/ref"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"
)

// atOnce is how many images are copied at once.
const atOnce = 8

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: peers regclient|oras SOURCE MIRROR IMAGE...")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, library, source, mirror string, images []string) error {
	one := withOras
	switch library {
	case "oras":
	case "regclient":
		one = withRegclient(source, mirror)
	default:
		return fmt.Errorf("%q: want regclient or oras", library)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, image := range images {
		group.Go(func() error {
			if err := one(ctx, source+"/"+image, mirror+"/"+image); err != nil {
				return fmt.Errorf("%s: %w", image, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func withRegclient(hosts ...string) func(ctx context.Context, from, to string) error {
	var known []config.Host
	for _, h := range hosts {
		known = append(known, config.Host{Name: h, Hostname: h, TLS: config.TLSDisabled, ReqConcurrent: 64})
	}
	client := regclient.New(regclient.WithConfigHost(known...))
	return func(ctx context.Context, from, to string) error {
		source, err := ref.New(from)
		if err != nil {
			return err
		}
		target, err := ref.New(to)
		if err != nil {
			return err
		}
		return client.ImageCopy(ctx, source, target, regclient.ImageWithReferrers(), regclient.ImageWithDigestTags())
	}
}

func withOras(ctx context.Context, from, to string) error {
	source, err := repository(from)
	if err != nil {
		return err
	}
	target, err := repository(to)
	if err != nil {
		return err
	}
	_, tag, _ := strings.Cut(from[strings.LastIndex(from, "/"):], ":")
	_, err = oras.ExtendedCopy(ctx, source, tag, target, tag, oras.DefaultExtendedCopyOptions)
	return err
}

func repository(image string) (*remote.Repository, error) {
	r, err := remote.NewRepository(image)
	if err == nil {
		r.PlainHTTP = true
	}
	return r, err
}
