// Command scale measures what it costs to know a large cluster: by the guard's
// inventory, and by a plain cache of controller-runtime, which keeps whole objects.
// The floor under both is a bare LIST of the same objects, page by page.
//
// The objects live in a real kube-apiserver and etcd. Each contender runs in a process of
// its own, so that memory can be told apart. It prints a table; the numbers that matter
// are the ratios, because all rows come from one run on one machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are the choices on the command line.
type options struct {
	size       size
	role       string
	kubeconfig string
}

// A size says how large a cluster is.
type size struct{ pods, workloads, images int }

func run(args []string, out, errs io.Writer) int {
	var o options
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.IntVar(&o.size.pods, "pods", 100_000, "how many pods, of about 10 kB each")
	flags.IntVar(&o.size.workloads, "workloads", 10_000, "how many Deployments, StatefulSets, CronJobs and so on")
	flags.IntVar(&o.size.images, "images", 30_000, "how many different images they name")
	flags.StringVar(&o.role, "role", "", "be one of the contenders: list, guard, cache (used by the program itself)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "of the cluster that a contender reads")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2 // the flag set has printed why
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	do := o.compare
	if o.role != "" {
		do = o.contend
	}
	if err := do(ctx, out, errs); err != nil {
		fmt.Fprintln(errs, "scale:", err)
		return 1
	}
	return 0
}

// etcdQuota is enough for 100,000 pods and what etcd keeps of their history.
const etcdQuota = 8 << 30

// compare makes a cluster and measures everybody, the floor first and last: the
// API server is slower when it is cold.
func (o options) compare(ctx context.Context, out, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	c, err := cluster.Start(dir, cluster.WithEtcdQuota(etcdQuota))
	if err != nil {
		return err
	}
	defer c.Stop() //nolint:errcheck // it goes with its folder
	start := time.Now()
	if err := fill(ctx, c.Config, o.size, progress); err != nil {
		return fmt.Errorf("filling the cluster: %w", err)
	}
	fmt.Fprintf(progress, "filled in %v\n", time.Since(start).Round(time.Second))
	var reports []report
	for _, role := range []string{"list", "guard", "cache", "list", "guard", "cache", "list"} {
		fmt.Fprintf(progress, "measuring %s ...\n", role)
		r, err := spawn(ctx, role, c.Kubeconfig, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", role, err)
		}
		reports = append(reports, r)
	}
	return printTable(out, o.size, reports)
}
