package auditlog

import (
	"context"
	"sync"
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// The bounds of the queue. A record usually has 2 to 20 KB, so this is an hour of a busy
// cluster, or half a minute of an attack.
const (
	maxQueuedBytes = 8 << 20
	maxQueuedLines = 10_000
)

// A queue holds lines until they are written.
type queue struct {
	mu    sync.Mutex
	lines []queuedLine
	bytes int
	loss  auditv1alpha1.Loss // Lost is 0 where nothing was lost that is not queued
	wake  chan struct{}
}

type queuedLine struct {
	line []byte
	at   time.Time
}

func (q *queue) init() { q.wake = make(chan struct{}, 1) }

// add appends line, after the record of a loss if there was one, or reports that there is no
// room.
func (q *queue) add(line []byte, lossLine func(auditv1alpha1.Loss) []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.hasRoom(len(line)) {
		return false
	}
	q.flushLoss(lossLine)
	q.append(line)
	return true
}

func (q *queue) hasRoom(bytes int) bool {
	return len(q.lines) < maxQueuedLines && q.bytes+bytes <= maxQueuedBytes
}

func (q *queue) append(line []byte) {
	if len(line) == 0 {
		return
	}
	q.lines, q.bytes = append(q.lines, queuedLine{line, time.Now()}), q.bytes+len(line)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// flushLoss queues the record of a loss. It is short, and goes over the bounds if need be.
func (q *queue) flushLoss(lossLine func(auditv1alpha1.Loss) []byte) {
	if q.loss.Lost > 0 {
		q.append(lossLine(q.loss))
		q.loss = auditv1alpha1.Loss{}
	}
}

// lose counts lost lines, and reports whether these are the first since the last Loss was written.
func (q *queue) lose(n int, why error, now time.Time) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first = q.loss.Lost == 0; first {
		q.loss.Since = now.UTC()
	}
	q.loss.Lost += n
	q.loss.Time, q.loss.Reason = now.UTC(), audit.Text(why.Error())
	return first
}

// first returns the first line, which stays in the queue, as soon as there is one; nil if there
// is none and ctx has ended. A loss is written once the queue is empty.
func (q *queue) first(ctx context.Context, lossLine func(auditv1alpha1.Loss) []byte) []byte {
	for {
		if line := q.peek(lossLine); line != nil {
			return line
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return q.peek(lossLine) // what came in the meantime
		}
	}
}

func (q *queue) peek(lossLine func(auditv1alpha1.Loss) []byte) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		q.flushLoss(lossLine)
	}
	if len(q.lines) == 0 {
		return nil
	}
	return q.lines[0].line
}

// written removes the first line.
func (q *queue) written() {
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
func (q *queue) abandon() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.lines)
	q.lines, q.bytes = nil, 0
	return n
}

// age returns how long the first line has been waiting.
func (q *queue) age() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		return 0
	}
	return time.Since(q.lines[0].at)
}
