// Package queued writes lines where that may take long or fail, such as a pipe without a reader or a full
// disk, without delaying the caller.
//
//	q := queued.New(queued.Options{Write: write, Loss: lossLine})
//	go q.Run(ctx) // writes until ctx ends, and then the rest
//	q.Add(line)
//
// Lines wait in memory that is bounded. Those that find no room are lost, and counted: the first line after
// them says how many.
package queued

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
)

// The bounds of a queue. A record of a decision usually has 2 to 20 KB, so this is an hour of a busy
// cluster, or half a minute of an attack.
const (
	MaxBytes = 8 << 20
	MaxLines = 10_000
)

const (
	// retryAfter is for how long nothing is tried after a failure.
	retryAfter = time.Second
	// EndTime is how long Run keeps writing after its context has ended: much longer than
	// a full queue takes, and much shorter than a pod's grace period.
	EndTime = 5 * time.Second
	// hanging is how long a write may take before that is a reason to worry.
	hanging = 10 * time.Second
)

// A Loss is about lines that were not written.
type Loss struct {
	// Lost is how many lines they are, Since when the first of them was lost, and Last when the last.
	Lost        int
	Since, Last time.Time
	// Why is the reason for the last of them.
	Why error
}

// Options are what New needs.
type Options struct {
	// Write writes a line. It is called for one line at a time, and for the same again if it fails. Required.
	Write func(line []byte) error
	// Loss returns the line that says what was lost; nil for none. Required.
	Loss func(Loss) []byte
	// Tried receives the result of each call of Write. It may be nil.
	Tried func(error)
}

// A Queue holds lines until they are written. It is safe for concurrent use.
type Queue struct {
	options Options

	mu    sync.Mutex
	lines []queuedLine
	bytes int
	loss  Loss // Lost is 0 where nothing was lost that is not queued
	wake  chan struct{}
	began time.Time // when the write under way began; the zero time if there is none
}

type queuedLine struct {
	line []byte
	at   time.Time
}

// New returns an empty Queue.
func New(o Options) *Queue { return &Queue{options: o, wake: make(chan struct{}, 1)} }

// Add appends line, which must not be changed any more, after the line about a loss if there was one, or
// reports that there is no room. It does not wait.
func (q *Queue) Add(line []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) >= MaxLines || q.bytes+len(line) > MaxBytes {
		return false
	}
	q.flushLoss()
	q.append(line)
	return true
}

func (q *Queue) append(line []byte) {
	if len(line) == 0 {
		return
	}
	q.lines, q.bytes = append(q.lines, queuedLine{line, time.Now()}), q.bytes+len(line)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// flushLoss queues the line about a loss. It is short, and goes over the bounds if need be.
func (q *Queue) flushLoss() {
	if q.loss.Lost > 0 {
		q.append(q.options.Loss(q.loss))
		q.loss = Loss{}
	}
}

// Lose counts lost lines, and reports whether these are the first since the last Loss was written.
func (q *Queue) Lose(n int, why error) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if first = q.loss.Lost == 0; first {
		q.loss.Since = now
	}
	q.loss.Lost += n
	q.loss.Last, q.loss.Why = now, why
	return first
}

// Run writes added lines until ctx ends, and then those still queued. It returns after some seconds at the
// latest, with the number of lines that could not be written by then. It must be called once.
func (q *Queue) Run(ctx context.Context) (left int) {
	last, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	written := make(chan struct{})
	go func() {
		defer close(written)
		q.write(ctx, last)
	}()
	<-ctx.Done()
	select {
	case <-written:
		return 0
	case <-time.After(EndTime): // a write may be blocked, and cannot be called off
		abandon()
		return q.abandon()
	}
}

// write writes until the queue is empty and ctx has ended, or until last ends.
func (q *Queue) write(ctx, last context.Context) {
	for {
		line := q.first(ctx)
		if line == nil || last.Err() != nil {
			return
		}
		q.setBegan(time.Now())
		err := q.options.Write(line)
		q.setBegan(time.Time{})
		if err == nil {
			q.written()
		}
		if q.options.Tried != nil {
			q.options.Tried(err)
		}
		if err != nil {
			_ = pause.For(last, retryAfter, nil)
		}
	}
}

func (q *Queue) setBegan(at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.began = at
}

// first returns the first line, which stays in the queue, as soon as there is one; nil if there
// is none and ctx has ended. A loss is written once the queue is empty.
func (q *Queue) first(ctx context.Context) []byte {
	for {
		if line := q.peek(); line != nil {
			return line
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return q.peek() // a line that came in the meantime
		}
	}
}

func (q *Queue) peek() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		q.flushLoss()
	}
	if len(q.lines) == 0 {
		return nil
	}
	return q.lines[0].line
}

// written removes the first line.
func (q *Queue) written() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		return // it was abandoned
	}
	q.bytes -= len(q.lines[0].line)
	q.lines[0] = queuedLine{}
	if q.lines = q.lines[1:]; len(q.lines) == 0 {
		q.lines = nil // free the array
	}
}

// abandon empties the queue, and returns how many lines were in it.
func (q *Queue) abandon() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.lines)
	q.lines, q.bytes = nil, 0
	return n
}

// Age returns how long the first line has been waiting.
func (q *Queue) Age() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		return 0
	}
	return time.Since(q.lines[0].at)
}

var errHangs = errors.New("a write has not come back for 10 s")

// Hangs returns an error if a write has been under way for 10 s. One that fails is none.
func (q *Queue) Hangs() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.began.IsZero() || time.Since(q.began) < hanging {
		return nil
	}
	return errHangs
}
