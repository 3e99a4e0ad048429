// Package auditlog writes the records of decisions, to standard output or to a file that is
// rotated.
//
//	log, err := auditlog.New(auditlog.Options{Stdout: os.Stdout, Guard: guard})
//	err = log.Configure("/var/log/mirrorset-guard/audit.log")
//	go log.Run(ctx) // writes until ctx ends, and then the rest
//	log.Record(decision)
//
// Recording never waits. A full disk, or a pipe without a reader, does not delay an
// admission: records wait in a bounded queue. Those that find no room are lost, and reported in
// a metric, in the log, and as a Loss in the records themselves as soon as they can be
// written again. Refusing changes instead would make a full disk an outage of the API, and
// the API server's own audit log has the annotations anyway.
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
	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
	"github.com/mirrorset-guard/mirrorset-guard/internal/queued"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// Options are what New needs.
type Options struct {
	// Stdout is standard output. Required.
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
	queue   *queued.Queue

	configuring sync.Mutex // one at a time
	opening     *opening   // the last one that has not ended, nil for none
	openFile    func(path string, maxMiB int) (*file, error)

	mu   sync.Mutex     // no file is touched under it, as that may block
	name string         // of the destination
	to   io.WriteCloser // takes whole lines; nil for Nowhere
}

// The destinations that are not files.
const (
	Nowhere = "none"
	Stdout  = "stdout"
)

// New returns a Log that is off. It is an error if the metrics are registered already.
func New(o Options) (*Log, error) {
	l := &Log{options: o, name: Nowhere, openFile: openFile}
	l.queue = queued.New(queued.Options{Write: l.writeLine, Loss: l.lossLine, Tried: l.tried()})
	var err error
	l.metrics, err = newMetrics(l.queue, o.Metrics)
	return l, err
}

// Configure directs records to Nowhere, to Stdout, or to the file that name is the path of. If it cannot be
// opened, the error says so, and the old destination stays. Records that wait go to the new one.
func (l *Log) Configure(name string) error {
	l.configuring.Lock()
	defer l.configuring.Unlock()
	l.abandon(name)
	known, old := l.current()
	if name == known {
		return nil
	}
	to, err := l.open(name)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.name, l.to = name, to
	l.mu.Unlock()
	if old != nil {
		go old.Close() // each line was written by a call of its own, which said whether it failed
	}
	return nil
}

// openTimeout is how long a file may take to be opened.
const openTimeout = 3 * time.Second

var errHangs = errors.New("its file system does not answer")

// An opening is that of a file, which may never end.
type opening struct {
	name string
	done chan struct{} // closed at its end
	to   *file
	err  error
}

// abandon has a file closed that is still being opened, unless it is the one of that name.
func (l *Log) abandon(name string) {
	o := l.opening
	if o == nil || o.name == name {
		return
	}
	l.opening = nil
	go func() {
		if <-o.done; o.to != nil {
			_ = o.to.Close()
		}
	}()
}

// open opens a destination. It does not wait for a file system that hangs, since no other
// configuration could take effect then. It is tried again and again, and a file is not opened anew while that hangs: each
// opening keeps a thread.
func (l *Log) open(name string) (io.WriteCloser, error) {
	switch name {
	case Nowhere:
		return nil, nil
	case Stdout:
		return &stream{to: l.options.Stdout}, nil
	}
	o := l.opening
	if o == nil {
		o = &opening{name: name, done: make(chan struct{})}
		l.opening = o
		go func() {
			defer close(o.done)
			o.to, o.err = l.openFile(name, maxMiB)
		}()
	}
	timer := time.NewTimer(openTimeout)
	defer timer.Stop()
	select {
	case <-o.done:
		l.opening = nil
		if o.err != nil {
			return nil, fmt.Errorf("opening the audit file: %w", o.err)
		}
		return o.to, nil
	case <-timer.C:
		return nil, fmt.Errorf("opening %s: %w", name, errHangs)
	}
}

func (l *Log) current() (string, io.WriteCloser) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.name, l.to
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

// Omit queues the record about requests that have no record of their own, as Record does.
func (l *Log) Omit(requests int, since time.Time) {
	l.enqueue(auditv1alpha1.Loss{
		Time: time.Now().UTC(), Since: since.UTC(), Lost: requests, Guard: l.options.Guard,
		Reason: "senders that are not known have asked for more than is recorded of them",
	}.Line())
}

func (l *Log) enqueue(line []byte, err error) {
	if to, _ := l.current(); to == Nowhere {
		return
	}
	if err != nil {
		l.lose(1, fmt.Errorf("encoding a record: %w", err))
		return
	}
	if !l.queue.Add(line) {
		l.lose(1, errFull)
	}
}

var errFull = errors.New("the queue is full, as records could not be written")

// lose counts records that will not be written. The first in a row is logged.
func (l *Log) lose(n int, why error) {
	l.metrics.lines.WithLabelValues("lost").Add(float64(n))
	if l.queue.Lose(n, why) {
		l.options.Log.Error(why, "Lost audit records; the next record that can be written says how many")
	}
}

// lossLine returns the record of a loss.
func (l *Log) lossLine(loss queued.Loss) []byte {
	record := auditv1alpha1.Loss{Time: loss.Last.UTC(), Since: loss.Since.UTC(), Lost: loss.Lost, Reason: audit.Text(loss.Why.Error()), Guard: l.options.Guard}
	line, err := record.Line()
	if err != nil {
		l.options.Log.Error(err, "Could not encode the record of a loss", "lost", loss.Lost)
	}
	return line
}

// Run writes the records until ctx ends, and then those still queued. It returns after some seconds at
// the latest: records that could not be written by then are lost, and counted. It must be called once.
func (l *Log) Run(ctx context.Context) {
	if n := l.queue.Run(ctx); n > 0 {
		l.metrics.lines.WithLabelValues("lost").Add(float64(n))
		l.options.Log.Error(errEnded, "Lost audit records at the end", "lost", n)
	}
}

var errEnded = errors.New("they could not be written in time")

// Hangs returns an error if a write has been under way for so long that it may never end.
func (l *Log) Hangs() error {
	if err := l.queue.Hangs(); err != nil {
		return fmt.Errorf("audit records: %w", err)
	}
	return nil
}

// tried returns what takes note of attempts to write, and logs when they begin to fail and when they do not any more.
func (l *Log) tried() func(error) {
	failing := false
	return func(err error) {
		switch {
		case err != nil:
			if !failing {
				l.options.Log.Error(err, "Could not write audit record; trying again")
			}
		default:
			l.metrics.lines.WithLabelValues("written").Inc()
			if failing {
				l.options.Log.Info("Audit records can be written again")
			}
		}
		failing = err != nil
	}
}

// writeLine writes to the destination in force.
func (l *Log) writeLine(line []byte) error {
	_, to := l.current()
	if to == nil {
		return nil
	}
	_, err := to.Write(line)
	return err
}

type metrics struct {
	lines *prometheus.CounterVec
	age   prometheus.GaugeFunc
}

func newMetrics(q *queued.Queue, r prometheus.Registerer) (*metrics, error) {
	var t prom.Table
	m := &metrics{
		lines: t.Counter("mirrorset_guard_audit_records_total",
			"Audit records by result (written, lost). Lost ones found no room in the queue, as records could not be written.", "result"),
		age: t.Func("mirrorset_guard_audit_oldest_queued_seconds",
			"How long the oldest audit record has been waiting to be written; 0 if none is. It grows where writing fails or is blocked.",
			func() float64 { return q.Age().Seconds() }),
	}
	for _, result := range []string{"written", "lost"} {
		m.lines.WithLabelValues(result) // so that an increase from nothing is an increase
	}
	return m, t.Register(r, "auditlog")
}
