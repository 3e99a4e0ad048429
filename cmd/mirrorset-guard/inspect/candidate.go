package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/review/whatif"
)

// candidateFlags choose a change, and how long registries are asked about it.
type candidateFlags struct {
	cli.ReviewFlags
	timeout time.Duration
	// assume is the file of a mirroring that has not been done.
	assume string
}

// AddFlags adds the flags.
func (o *candidateFlags) AddFlags(flags *pflag.FlagSet) {
	o.ReviewFlags.AddFlags(flags)
	addTimeout(flags, &o.timeout)
	flags.StringVar(&o.assume, "assume", "", "file of lines SOURCE=DESTINATION, such as oc-mirror's dry-run/mapping.txt: count as present, and call assumed, what it would copy")
}

func addTimeout(flags *pflag.FlagSet, timeout *time.Duration) {
	flags.DurationVar(timeout, "timeout", 5*time.Minute, "how long to ask registries before answering with what is known")
}

var errNoChange = errors.New("no change: name it with -f FILE, -f FOLDER or -f -")

// A candidate is a change that was read, with the mirroring that is assumed.
type candidate struct {
	*cli.Candidate
	mapping *whatif.Mapping // nil where none is
}

// open reads the change, and opens the world, which is to be closed.
func (o *candidateFlags) open(ctx context.Context, streams cli.Streams) (*candidate, error) {
	if len(o.Change.Files) == 0 {
		return nil, errNoChange
	}
	mapping, err := o.mapping(streams)
	if err != nil {
		return nil, err
	}
	opened, err := o.Open(ctx, streams)
	if err != nil {
		return nil, err
	}
	if mapping != nil {
		r := &opened.Reviewer
		r.Registries, r.Trust = mapping.Of(r.Registries), mapping.TrustOf(r.Trust)
	}
	return &candidate{opened, mapping}, nil
}

// mapping returns the mirroring that is assumed, nil if none is.
func (o *candidateFlags) mapping(streams cli.Streams) (*whatif.Mapping, error) {
	if o.assume == "" {
		return nil, nil
	}
	file, err := cli.OpenInput(o.assume, streams)
	if err != nil {
		return nil, fmt.Errorf("--assume: %w", err)
	}
	defer file.Close()
	m, err := whatif.ReadMapping(o.assume, file)
	if err != nil {
		return nil, fmt.Errorf("--assume: %w", err)
	}
	return m, nil
}
