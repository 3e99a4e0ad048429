package disruption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mirrorset-guard/mirrorset-guard/test/load"
)

// coldStarts are the orders in which everything comes up.
var coldStarts = [][]string{
	{"guard", "registry", "API server"},
	{"API server", "guard", "registry"},
	{"registry", "API server", "guard"},
	{"guard", "API server", "registry"},
	{"API server", "registry", "guard"},
	{"registry", "guard", "API server"},
}

// testColdStarts: everything is down and comes up in some order, which nobody attends to. A bad
// change that is tried all the time never gets through, a good one only when its images can be
// verified, and then by itself.
func (s *stage) testColdStarts(t *testing.T, with timings) {
	t.Helper()
	for _, order := range coldStarts {
		t.Run(strings.Join(order, ", "), func(t *testing.T) {
			s.registry.stop()
			if err := errors.Join(s.front.Kill(), s.KillAPIServer()); err != nil {
				t.Fatal(err)
			}
			attempts := s.keepTrying(t)
			var pods []*pod
			for i, part := range order {
				switch part {
				case "registry":
					if err := s.front.Restart(t.TempDir()); err != nil {
						t.Fatal(err)
					}
					load.Push(t, s.front)
					s.registry.listen(t)
				case "API server":
					if err := s.StartAPIServer(t.Context()); err != nil {
						t.Fatal(err)
					}
				case "guard":
					for range 2 {
						pods = append(pods, s.start(t, s.secret.Dir, with))
						s.guard.add(pods[len(pods)-1].listen) // before it is ready: a Service may be late
					}
				}
				if i < len(order)-1 {
					attempts.awaitMore(t, part)
				}
			}
			attempts.awaitAdmission(t)
			load.AwaitGuarded(t, s.api)
			attempts.end(t)
			s.removeGood(t)
			for _, p := range pods {
				s.delete(t, p, with)
			}
		})
	}
}

// attempts are changes that are made in earnest, again and again.
type attempts struct {
	stop     context.CancelFunc
	done     chan struct{}
	tried    chan error // what became of the good one
	admitted chan struct{}
	bad      []error // what became of the bad one
}

func (s *stage) keepTrying(t *testing.T) *attempts {
	ctx, cancel := context.WithCancel(t.Context())
	a := &attempts{stop: cancel, done: make(chan struct{}), tried: make(chan error), admitted: make(chan struct{})}
	go func() {
		defer close(a.done)
		for ctx.Err() == nil {
			a.bad = append(a.bad, s.tryFor(ctx, "bad", load.Bad))
			err := s.tryFor(ctx, "good", load.Good)
			if err == nil {
				close(a.admitted)
				<-ctx.Done()
				return
			}
			select {
			case a.tried <- err:
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond): // a refused connection costs nothing
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-a.done
	})
	return a
}

func (s *stage) tryFor(ctx context.Context, name string, c load.Change) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second) // longer than the API server works on it
	defer cancel()
	return load.Try(ctx, s.api, name, c)
}

// awaitMore waits until the changes have been tried with what is up, to no avail.
func (a *attempts) awaitMore(t *testing.T, newest string) {
	t.Helper()
	var last error
	for range 3 {
		select {
		case last = <-a.tried:
		case <-a.admitted:
			t.Fatalf("the good change was admitted when not everything was up; the last was the %s", newest)
		case <-time.After(load.MaxWait):
			t.Fatalf("nothing is tried any more; the last that came up was the %s, the last answer: %v", newest, last)
		}
	}
}

func (a *attempts) awaitAdmission(t *testing.T) {
	t.Helper()
	var last error
	for timeout := time.After(load.MaxWait); ; {
		select {
		case <-a.admitted:
			return
		case last = <-a.tried:
		case <-timeout:
			t.Fatalf("the good change is never admitted: %v", last)
		}
	}
}

// end wants the bad change to have been kept out each time.
func (a *attempts) end(t *testing.T) {
	t.Helper()
	a.stop()
	<-a.done
	answers := map[string]int{}
	for _, err := range a.bad {
		switch {
		case err == nil:
			t.Error("the bad change was admitted")
		case load.IsRefusal(err):
			answers["refused by the guard"]++
		case apierrors.IsInternalError(err):
			answers["kept out, as the guard gave no verdict"]++
		default:
			answers["without an API server"]++
		}
	}
	t.Logf("the bad change was tried %d times: %v", len(a.bad), answers)
}

// removeGood deletes the good change.
func (s *stage) removeGood(t *testing.T) {
	t.Helper()
	if err := s.remove(t.Context(), load.Resource, "good"); err != nil {
		t.Fatal(fmt.Errorf("deleting the good change: %w", err))
	}
}
