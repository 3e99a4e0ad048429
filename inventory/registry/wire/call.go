package wire

import "context"

// A SharedCall is work that several callers wait for and none of them owns: one that has to
// leave does not take the others' answer along. It keeps its answer: with
// x/sync/singleflight there is a moment, after the work has ended and before the answer is
// stored, in which a caller would start the same work again. And it belongs to a
// generation, whose end waits for it.
type SharedCall[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// StartCall starts work in the background. It ends with the credentials and the trust by which x asks.
func StartCall[T any](x *Exchange, work func(context.Context) (T, error)) *SharedCall[T] {
	return startCall(x.endpoint.generation, work)
}

func startCall[T any](g *generation, work func(context.Context) (T, error)) *SharedCall[T] {
	c := &SharedCall[T]{done: make(chan struct{})}
	started := g.spawn(func() {
		defer close(c.done)
		c.value, c.err = work(g.ctx)
	})
	if !started {
		c.err = g.ctx.Err()
		close(c.done)
	}
	return c
}

// Answered returns a call whose answer is known without any work.
func Answered[T any](value T) *SharedCall[T] {
	c := &SharedCall[T]{done: make(chan struct{}), value: value}
	close(c.done)
	return c
}

// Finished reports whether Wait returns at once.
func (c *SharedCall[T]) Finished() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Wait returns the answer, or the error of ctx if that ends first.
func (c *SharedCall[T]) Wait(ctx context.Context) (T, error) {
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}
