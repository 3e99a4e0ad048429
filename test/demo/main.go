// Command demo tells the story of a mirror change on a real API server with real
// registries: it starts them on loopback, runs the guard as its manifests
// register it, types kubectl as an administrator would, and shows what comes
// back. It exits with 1 if anything turns out differently from what it should.
//
// With -keep, everything keeps running until the demo is interrupted.
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
	keep := flag.Bool("keep", false, "leave everything running after the story")
	binary := flag.String("guard", "bin/mirrorset-guard", "the guard's program")
	fips := flag.Bool("fips", false, "refuse the guard's program all cryptography that FIPS 140-3 does not approve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binary, *keep, *fips); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary string, keep, fips bool) error {
	var env []string
	if fips {
		env = []string{"GODEBUG=fips140=only"}
	}
	s, err := setUp(ctx, binary, os.Stdout, env...)
	if err != nil {
		return err
	}
	defer s.tearDown()
	if err := s.tell(ctx); err != nil {
		return err
	}
	if !keep {
		return nil
	}
	if err := s.renderConfigs(ctx); err != nil {
		return err
	}
	fmt.Printf("\nEverything is still running. In another terminal:\n\n%s\nand then, for example:\n\n", s.settings())
	for _, t := range s.trials() {
		fmt.Println(t.command)
	}
	fmt.Print("\nCtrl-C ends it.\n")
	<-ctx.Done()
	return nil
}
