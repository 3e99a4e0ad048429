// Command pool starts clusters, runs a command for whose tests they are (see cluster.New), and ends
// them. Its exit code is that of the command.
//
//	go run ./test/cluster/pool go test -tags=integration ./...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// size is how many clusters there are: as many as packages are tested at once on two cores.
const size = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "pool:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command []string) error {
	dir, err := os.MkdirTemp("", "clusters")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it has a name of its own
	pool, err := cluster.NewPool(dir, size)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), pool.Environment())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if n, failed := pool.Started(); failed == nil {
		fmt.Fprintln(os.Stderr, n, "API servers were started")
	}
	return errors.Join(err, pool.Stop())
}
