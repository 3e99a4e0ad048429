package registry

import "context"

// A flight is work that several callers wait for and none of them owns: whoever
// has to leave does not take the others' answer along.
type flight[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// fly starts work in the background. It belongs to v, whose end ends it.
func fly[T any](v *view, work func(context.Context) (T, error)) *flight[T] {
	f := &flight[T]{done: make(chan struct{})}
	started := v.spawn(func() {
		defer close(f.done)
		f.value, f.err = work(v.ctx)
	})
	if !started {
		f.err = v.ctx.Err()
		close(f.done)
	}
	return f
}

func (f *flight[T]) landed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

func (f *flight[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}
