package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Applied reads from the API server what nodes have: MachineConfig
// mirrors.GeneratedRegistries. The error is objects.ErrNotApplied if there is none.
func (c *Inventory) Applied(ctx context.Context) (*mirrors.Applied, error) {
	var data json.RawMessage
	if err := c.mirrors.read(ctx, generatedRegistries, nil, &data); err != nil {
		return nil, fmt.Errorf("reading MachineConfig %s: %w", mirrors.GeneratedRegistries, err)
	}
	if data == nil { // of the kind or of the name: both mean that no MCO has been at work
		return nil, fmt.Errorf("the cluster has %w", objects.ErrNotApplied)
	}
	return objects.DecodeApplied(data)
}

const generatedRegistries = machineConfigs + "/" + mirrors.GeneratedRegistries

// An appliedReader reads what nodes have when a review will ask for it, that is, when MCO
// rejects the objects in force. The zero value is ready.
type appliedReader struct {
	mu       sync.Mutex
	seen     string // the versions of all objects that were last judged
	rejected bool   // the result
	noFiles  error  // why the files beside the generated ones could not be read
	trouble  error  // why what nodes have could not be read when it was last wanted
}

// complete returns set with what nodes have, if that is needed and can be read; version is
// that of the objects in set. Judging them takes a good part of a review's time, so it is
// done once for each version.
func (a *appliedReader) complete(ctx context.Context, set mirrors.Set, version string, read func(context.Context) (*mirrors.Applied, error)) mirrors.Set {
	if !a.isRejected(set, version) {
		a.note(nil)
		return set
	}
	applied, err := read(ctx)
	a.note(err)
	set.Applied = applied
	return set
}

func (a *appliedReader) isRejected(set mirrors.Set, version string) bool {
	a.mu.Lock()
	known, rejected := version != "" && a.seen == version, a.rejected
	a.mu.Unlock()
	if known {
		return rejected
	}
	_, err := mirrors.Resolve(set)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen, a.rejected = version, err != nil
	return a.rejected
}

func (a *appliedReader) note(err error) {
	if errors.Is(err, objects.ErrNotApplied) {
		err = nil // the verdict says that it is not known
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trouble = err
}

// notes returns the reasons why it is not known what nodes have.
func (a *appliedReader) notes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var notes []string
	if a.trouble != nil {
		notes = append(notes, "what nodes have is not known: "+a.trouble.Error())
	}
	if a.noFiles != nil {
		notes = append(notes, "registries.conf files of MachineConfigs are not known: "+a.noFiles.Error())
	}
	return notes
}

func (a *appliedReader) noteFiles(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noFiles = err
}

// versionOf identifies the contents of set by the resource versions of its objects and of
// the others that it was made from; "" if one has none.
func versionOf(set mirrors.Set, others ...string) string {
	var b strings.Builder
	for _, objects := range [][]mirrors.Object{set.Objects, set.Policies} {
		for _, o := range objects {
			if o.GetResourceVersion() == "" {
				return ""
			}
			fmt.Fprintf(&b, "%s %s %s\n", mirrors.KindOf(o), o.GetName(), o.GetResourceVersion())
		}
	}
	for _, o := range others {
		fmt.Fprintf(&b, "%s\n", o)
	}
	return b.String()
}
