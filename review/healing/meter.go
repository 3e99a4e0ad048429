package healing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errSpent is the refusal of what the budget does not allow.
var errSpent = errors.New("the budget of this hour is spent")

// A meter takes what requests need out of the budget, which is written down before anything is sent. So what a
// process that ended had set aside is spent for the one after it. It implements registry.Meter.
type meter struct {
	setAside func(ctx context.Context, least Limit) (grant, error) // writes the grant down first; errSpent for none
	spent    func(bytes, requests int64)
	now      func() time.Time

	mu    sync.Mutex
	grant grant
	empty bool // something was refused
}

// Request implements registry.Meter.
func (m *meter) Request(ctx context.Context) error { return m.take(ctx, Limit{Requests: 1}) }

// Send implements registry.Meter.
func (m *meter) Send(ctx context.Context, n int) error { return m.take(ctx, Limit{Bytes: int64(n)}) }

func (m *meter) take(ctx context.Context, what Limit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.grant.isOver(m.now()) {
		m.grant = grant{}
	}
	if m.grant.Bytes < what.Bytes || m.grant.Requests < what.Requests {
		if err := m.refill(ctx, what); err != nil {
			return err
		}
	}
	m.grant.Bytes -= what.Bytes
	m.grant.Requests -= what.Requests
	m.spent(what.Bytes, what.Requests)
	return nil
}

// refill adds to the grant. What is left of the earlier one is kept until that is over.
func (m *meter) refill(ctx context.Context, what Limit) error {
	more, err := m.setAside(ctx, Limit{Bytes: max(0, what.Bytes-m.grant.Bytes), Requests: max(0, what.Requests-m.grant.Requests)})
	switch {
	case errors.Is(err, errSpent):
		m.empty = true
		return err
	case err != nil:
		return fmt.Errorf("the budget could not be written down: %w", err)
	}
	minute := more.minute
	if m.grant.minute != 0 {
		minute = min(minute, m.grant.minute)
	}
	m.grant = grant{Bytes: m.grant.Bytes + more.Bytes, Requests: m.grant.Requests + more.Requests, minute: minute}
	return nil
}

// isEmpty reports whether the budget refused something.
func (m *meter) isEmpty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.empty
}

// left returns what is set aside and not spent.
func (m *meter) left() Limit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Limit{Bytes: m.grant.Bytes, Requests: m.grant.Requests}
}
