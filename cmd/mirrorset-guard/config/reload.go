package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/mounted"
)

// Read reads the file at path for a person, which may be a pipe. The error begins with the path.
func Read(path string) (Configuration, error) {
	f, err := os.Open(path)
	if err != nil {
		return Configuration{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return readFrom(path, f)
}

// readFrom reads a configuration from what is called name, and no more of it than shows that it is too large.
func readFrom(name string, from io.Reader) (Configuration, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxSize+1))
	if err != nil {
		return Configuration{}, err
	}
	return parseFile(name, text)
}

// ReadMounted is Read of a file that somebody else has put there: it does not wait for one that
// hangs.
func ReadMounted(path string) (Configuration, error) {
	text, err := mounted.New(path, maxSize).Read()
	if err != nil {
		return Configuration{}, err
	}
	return parseFile(path, text)
}

func parseFile(path string, text []byte) (Configuration, error) {
	c, err := Parse(text)
	if err != nil {
		return Configuration{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// An Outcome is the result of reading a file that has changed.
type Outcome struct {
	// Path is the file's.
	Path string
	// Err is why it is not in use; nil if it is.
	Err error
}

// Options are what NewReloader needs.
type Options struct {
	// Path is the file's.
	Path string
	// Accept puts a configuration in force, or says why it cannot be. It is called by NewReloader,
	// and by Run for each change, and again until it says nothing against it. Required.
	Accept func(Configuration) error
	// Report is told of each Outcome until it returns nil, at every reading of the file. A later
	// outcome replaces one that could not be reported. It may be nil.
	Report func(context.Context, Outcome) error
	// Metrics may be nil.
	Metrics *Metrics
	// Log receives a line for each change. The zero value discards it.
	Log logr.Logger
}

// A Reloader keeps the newest good configuration of a file in force.
type Reloader struct {
	options Options
	file    *mounted.File

	// Of Run, as is all but err:
	text       []byte // the last one read
	textErr    error  // why that is not in force
	unreported *Outcome

	mu  sync.Mutex // is never held while a file is read, which takes its time
	err error      // why the file is not in force
}

// NewReloader returns a Reloader. It is an error if the file as it is now is not accepted.
func NewReloader(o Options) (*Reloader, error) {
	r := &Reloader{options: o, file: mounted.New(o.Path, maxSize)}
	if _, err := r.reload(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	return r, nil
}

// Run reads the file every few seconds until ctx ends.
func (r *Reloader) Run(ctx context.Context) {
	mounted.Poll(ctx, func() { r.step(ctx) })
}

// step reloads, and tells what came of it.
func (r *Reloader) step(ctx context.Context) {
	changed, err := r.reload()
	switch {
	case !changed:
	case err != nil:
		r.options.Log.Error(err, "Kept configuration, could not use new one", "file", r.options.Path)
	default:
		r.options.Log.Info("Reloaded configuration", "file", r.options.Path)
	}
	if changed {
		r.unreported = &Outcome{Path: r.options.Path, Err: err}
	}
	r.report(ctx)
}

// reportTimeout bounds one attempt to report.
const reportTimeout = 10 * time.Second

func (r *Reloader) report(ctx context.Context) {
	if r.unreported == nil || r.options.Report == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if err := r.options.Report(ctx, *r.unreported); err != nil {
		r.options.Log.V(1).Info("Could not report the reloading of the configuration; trying again", "error", err.Error())
		return
	}
	r.unreported = nil
}

// reload reads the file, and reports whether there is news: another text, or another reason
// why it is not in force.
func (r *Reloader) reload() (changed bool, err error) {
	text, err := r.file.Read()
	if err != nil {
		err = fmt.Errorf("%w: %w", errUnreadable, err)
	} else if changed = r.text == nil || !bytes.Equal(text, r.text); changed || r.textErr != nil { // which may pass, as that of an audit file does
		r.text, r.textErr = append([]byte{}, text...), r.take(text)
		err = r.textErr
	}
	r.options.Metrics.reloaded(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.err
	r.err = err
	return changed || !sameError(before, err), err
}

func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}

// errUnreadable is for a file that is gone, for instance.
var errUnreadable = errors.New("the file cannot be read")

// take puts text in force.
func (r *Reloader) take(text []byte) error {
	c, err := Parse(text)
	if err != nil {
		return err
	}
	if err := r.options.Accept(c); err != nil {
		return err
	}
	r.options.Metrics.accepted(c.Mode)
	return nil
}

// Err returns why the file as it is now is not in force; nil if it is.
func (r *Reloader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
