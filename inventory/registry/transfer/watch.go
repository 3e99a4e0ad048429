package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
)

// A bodyWatch ends a request for which too little has moved for a while.
type bodyWatch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
	failed atomic.Pointer[error] // what went wrong when the body to be sent was read
}

var errStalled = errors.New("too little moved")

func watch(ctx context.Context, limit time.Duration) *bodyWatch {
	w := &bodyWatch{limit: limit}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(limit, func() { w.cancel(errStalled) })
	return w
}

func (w *bodyWatch) idle() bool { return errors.Is(context.Cause(w.ctx), errStalled) }

func (w *bodyWatch) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// A watched is a body, sent or received, whose bytes show that something moves.
type watched struct {
	io.ReadCloser
	watch *bodyWatch
	last  bool  // whether the request ends with it
	due   int64 // how many bytes are to move before the time begins anew
	left  int64 // if positive, how many bytes it may have, and 1 more once they were read
}

var errTooLong = wire.Unreachable("the answer has more than 4 MiB, which nodes do not accept as a manifest")

// Read implements io.Reader.
func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.due -= int64(n); n > 0 && b.due <= 0 {
		b.due = leastMoved
		b.watch.timer.Reset(b.watch.limit)
	}
	if b.left > 0 {
		if b.left -= int64(n); b.left <= 0 {
			return 0, errTooLong
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		if !b.last {
			b.watch.failed.CompareAndSwap(nil, &err)
		} else if b.watch.idle() {
			err = fmt.Errorf("less than %d KiB came within %s: %w", leastMoved>>10, b.watch.limit, io.ErrUnexpectedEOF)
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *watched) Close() error {
	err := b.ReadCloser.Close()
	if b.last {
		b.watch.end()
	}
	return err
}
