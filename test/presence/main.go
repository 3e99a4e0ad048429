// Command presence measures what it costs to ask a registry about many images: by
// the guard's Store, by alternatives to it, and by bare net/http, the floor under them
// all.
//
// The registry is distribution's, behind a front on loopback that speaks TLS and
// HTTP/2, waits before each answer as a distant registry would, wants a Bearer token
// for each repository and, for some rows, throttles as Quay's published limits do. It
// prints a table; the numbers that matter are the ratios, because all rows come from
// one run on one machine. Up to 2,000 images, each row is the median of three.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are the choices on the command line.
type options struct {
	images []int
	delays []time.Duration
	tools  int
}

func run(args []string, out, errs io.Writer) int {
	o, err := parse(args, errs)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2 // the flag set has printed why
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx, out, errs); err != nil {
		fmt.Fprintln(errs, "presence:", err)
		return 1
	}
	return 0
}

func parse(args []string, errs io.Writer) (options, error) {
	o := options{images: []int{200, 2_000, 20_000}, delays: []time.Duration{20 * time.Millisecond, 100 * time.Millisecond}}
	flags := flag.NewFlagSet("presence", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Func("images", "how many images, separated by commas (200,2000,20000)", list(&o.images, strconv.Atoi))
	flags.Func("delays", "how long the registry waits before each answer (20ms,100ms)", list(&o.delays, time.ParseDuration))
	flags.IntVar(&o.tools, "tools", 20, "how many images to ask skopeo and crane about, one after the other; 0 for none")
	return o, flags.Parse(args)
}

// list returns a flag's function that reads values separated by commas.
func list[T int | time.Duration](to *[]T, parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		*to = nil
		for _, part := range strings.Split(text, ",") {
			value, err := parse(part)
			if err != nil || value < 0 {
				return fmt.Errorf("%q is not a list of them", text)
			}
			*to = append(*to, value)
		}
		return nil
	}
}

func (o options) run(ctx context.Context, out, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "presence-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	s, err := newStage(dir)
	if err != nil {
		return err
	}
	defer s.close()
	most := slices.Max(o.images)
	fmt.Fprintf(progress, "putting %d images into the registry ...\n", most)
	if err := s.fill(ctx, most); err != nil {
		return fmt.Errorf("filling the registry: %w", err)
	}
	t := newTable(out)
	defer t.flush()
	for _, images := range o.images {
		for _, delay := range o.delays {
			fmt.Fprintf(progress, "%d images at %v ...\n", images, delay)
			s.front.delay = delay
			if err := o.compare(ctx, s, images, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare measures all contenders with the same images, the floor first.
func (o options) compare(ctx context.Context, s *stage, images int, t *table) error {
	everybody := contenders(o.tools)
	results := make([][]result, len(everybody))
	for round := range rounds(images) {
		for i, c := range everybody {
			if c.limits && (images > maxShort || round >= fewRounds) || c.sample > 0 && round > 0 {
				continue
			}
			r, err := s.measure(ctx, c, c.share(images))
			if err != nil {
				return fmt.Errorf("%s, %d images at %v: %w", c.name, images, s.front.delay, err)
			}
			results[i] = append(results[i], r.scale(images, c.share(images)))
		}
	}
	for i, c := range everybody {
		if len(results[i]) > 0 {
			t.add(s.front.delay, images, c.name, median(results[i]), median(results[0]).took)
		}
	}
	return nil
}

// maxShort is the number of images up to which a measurement takes seconds, so that it
// can be repeated.
const maxShort = 2_000

// rounds returns how often each contender is measured, in turn: other load on the machine
// must not decide a comparison. A measurement of a tenth of a second needs more rounds than
// one of seconds.
func rounds(images int) int {
	switch {
	case images > maxShort:
		return 1
	case images > maxShort/10:
		return manyRounds / 3
	default:
		return manyRounds
	}
}

const (
	manyRounds = 21
	// fewRounds is for contenders whose time is determined by the registry's limits.
	fewRounds = 3
)

// median returns the result with the median time.
func median(results []result) result {
	slices.SortFunc(results, func(a, b result) int { return cmp.Compare(a.took, b.took) })
	return results[len(results)/2]
}
