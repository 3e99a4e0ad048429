package registry

import (
	"context"
	"io"
)

// A Meter decides whether requests may be made. It is safe for concurrent use.
type Meter interface {
	// Request is called before each request, those included that repeat one, follow a redirect or fetch a
	// token. If it returns an error, nothing is sent.
	Request(context.Context) error
	// Send is called before n bytes of a body are sent to a registry. If it returns an error, they are not.
	Send(ctx context.Context, n int) error
}

// A meterError is the refusal of a Meter.
type meterError struct{ err error }

func (e *meterError) Error() string { return e.err.Error() }

func (e *meterError) Unwrap() error { return e.err }

// Metered returns a Client that asks m before each request. It shows registries the credentials or, where
// these are nil, those that c has at the moment, and shares the pace of c. A registry that wants to be left alone
// for longer than some seconds is not waited for. It is to be closed.
func (c *Client) Metered(m Meter, credentials *Credentials) *Client {
	return c.derive(func(o *Options) {
		o.meter = m
		if credentials != nil {
			o.Credentials = *credentials
		}
	})
}

// A meteredBody is sent as far as a Meter allows.
type meteredBody struct {
	io.ReadCloser
	ctx   context.Context
	meter Meter
}

// Read implements io.Reader.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n == 0 {
		return n, err
	}
	if refused := b.meter.Send(b.ctx, n); refused != nil {
		return 0, &meterError{refused}
	}
	return n, err
}
