package auditlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// Options are what New needs.
type Options struct {
	// Stdout is where records go for the destination Stdout. Required.
	Stdout io.Writer
	// Guard is said to have decided.
	Guard auditv1alpha1.Guard
	// Metrics is where the metrics are registered, nil for nowhere.
	Metrics prometheus.Registerer
	// Log receives messages about losses. The zero value discards them.
	Log logr.Logger
}

// A Log writes records in the order in which they come. It is safe for concurrent use.
type Log struct {
	options Options
	metrics *metrics
	queue   queue

	configuring sync.Mutex // one at a time

	mu       sync.Mutex // no file is touched under it, as that may block
	settings Settings
	to       destination
}

// A destination takes whole lines.
type destination interface {
	io.Writer
	io.Closer
}

// New returns a Log that is off. It is an error if the metrics are registered already.
func New(o Options) (*Log, error) {
	l := &Log{options: o, settings: Settings{To: Nowhere}}
	l.queue.init()
	l.metrics = newMetrics(&l.queue)
	if err := l.metrics.register(o.Metrics); err != nil {
		return nil, fmt.Errorf("registering audit metrics: %w", err)
	}
	return l, nil
}

// Configure puts s in force. If its file cannot be opened, the error says so, and what was in
// force stays. Records that wait go to the new destination.
func (l *Log) Configure(s Settings) error {
	l.configuring.Lock()
	defer l.configuring.Unlock()
	settings, old := l.current()
	if s.sameDestination(settings) {
		l.use(s, old)
		return nil
	}
	to, err := l.open(s)
	if err != nil {
		return err
	}
	l.use(s, to)
	if old != nil {
		go old.Close() // each line was written by a call of its own, which said whether it failed
	}
	return nil
}

// openTimeout is how long a file may take to be opened.
const openTimeout = 3 * time.Second

var errHangs = errors.New("its file system does not answer")

// open opens the destination of s. It does not wait for a file system that hangs, since no other
// configuration could take effect then; a file that is opened too late is closed again.
func (l *Log) open(s Settings) (destination, error) {
	type opened struct {
		to  destination
		err error
	}
	done := make(chan opened, 1)
	go func() {
		to, err := s.open(l.options.Stdout)
		done <- opened{to, err}
	}()
	timer := time.NewTimer(openTimeout)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.to, o.err
	case <-timer.C:
		go func() {
			if o := <-done; o.to != nil {
				_ = o.to.Close()
			}
		}()
		return nil, fmt.Errorf("opening %s: %w", s.File.Path, errHangs)
	}
}

func (l *Log) current() (Settings, destination) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settings, l.to
}

func (l *Log) use(s Settings, to destination) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settings, l.to = s, to
}

// Detail says what is to be recorded.
func (l *Log) Detail() audit.Detail {
	settings, _ := l.current()
	d := settings.Detail
	d.Off = settings.To == Nowhere
	return d
}

// Record queues d to be written. It does not wait; d is lost if the queue is full.
func (l *Log) Record(d auditv1alpha1.Decision) {
	d.Guard = l.options.Guard
	l.enqueue(d.Line())
}

// Confirm queues c to be written, as Record does.
func (l *Log) Confirm(c auditv1alpha1.Confirmation) {
	c.Guard = l.options.Guard
	l.enqueue(c.Line())
}

func (l *Log) enqueue(line []byte, err error) {
	if err != nil {
		l.lose(1, fmt.Errorf("encoding a record: %w", err))
		return
	}
	if !l.queue.add(line, l.lossLine) {
		l.lose(1, errFull)
	}
}

var errFull = errors.New("the queue is full, as records could not be written")

// lose counts records that will not be written. The first in a row is logged.
func (l *Log) lose(n int, why error) {
	l.metrics.lines.WithLabelValues("lost").Add(float64(n))
	if l.queue.lose(n, why, time.Now()) {
		l.options.Log.Error(why, "Lost audit records; the next record that can be written says how many")
	}
}

// lossLine returns the record of a loss.
func (l *Log) lossLine(loss auditv1alpha1.Loss) []byte {
	loss.Guard = l.options.Guard
	line, err := loss.Line()
	if err != nil {
		l.options.Log.Error(err, "Could not encode the record of a loss", "lost", loss.Lost)
	}
	return line
}

const (
	// retryAfter is how long a destination that failed is left alone.
	retryAfter = time.Second
	// endTimeout is how long Run keeps writing after its context has ended: much longer than
	// a full queue takes, and much shorter than a pod's grace period.
	endTimeout = 5 * time.Second
)

// Run writes what is recorded until ctx ends, and then what is still queued. It returns after
// some seconds at the latest: what could not be written by then is lost, and counted. It must be
// called once.
func (l *Log) Run(ctx context.Context) {
	last, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.write(ctx, last)
	}()
	<-ctx.Done()
	select {
	case <-written:
	case <-time.After(endTimeout): // a write may be blocked, and cannot be called off
		abandon()
		l.end()
	}
}

// end gives up what is still queued.
func (l *Log) end() {
	if n := l.queue.abandon(); n > 0 {
		l.metrics.lines.WithLabelValues("lost").Add(float64(n))
		l.options.Log.Error(errEnded, "Lost audit records at the end", "lost", n)
	}
}

var errEnded = errors.New("they could not be written in time")

// write writes until the queue is empty and ctx has ended, or until last ends.
func (l *Log) write(ctx, last context.Context) {
	failing := false
	for {
		line := l.queue.first(ctx, l.lossLine)
		if line == nil || last.Err() != nil {
			return
		}
		err := l.writeLine(line)
		switch {
		case err == nil:
			l.queue.written()
			l.metrics.lines.WithLabelValues("written").Inc()
		case !failing:
			l.options.Log.Error(err, "Could not write audit record; trying again")
		}
		if err == nil && failing {
			l.options.Log.Info("Audit records can be written again")
		}
		if failing = err != nil; failing {
			l.metrics.failures.Inc()
			wait(last, retryAfter)
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// writeLine writes to the destination in force. Where records have been switched off, what is
// queued goes nowhere.
func (l *Log) writeLine(line []byte) error {
	_, to := l.current()
	if to == nil {
		return nil
	}
	_, err := to.Write(line)
	return err
}
