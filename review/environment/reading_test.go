package environment

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

// A fakeReading is never read.
type fakeReading []follow.Status

func (r fakeReading) Sources() []follow.Status { return r }

func (r fakeReading) WaitReady(ctx context.Context) error {
	<-ctx.Done()
	return errors.New("the inventory is not complete")
}

// TestAwaitRead: whoever waits is told why there is nothing, once, and does not wait in vain.
func TestAwaitRead(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "https://127.0.0.1:6443/api/v1/pods?watch=true", Err: errors.New("dial tcp 127.0.0.1:6443: connect: connection refused")}
	nobody := &url.Error{Op: "Get", URL: "https://api.example.com:6443", Err: &net.DNSError{Err: "no such host", Name: "api.example.com", IsNotFound: true}}
	busy := apierrors.NewTooManyRequests("try later", 1)
	unauthorized := apierrors.NewUnauthorized("Unauthorized")
	for _, tt := range []struct {
		reason  string
		sources fakeReading
		after   time.Duration
		want    string
	}{
		{
			"an API server that is down may come back",
			fakeReading{{Name: "pods", Err: refused}, {Name: "nodes", Err: refused}},
			time.Minute,
			"reading the cluster: not done after 1m: none of 2 lists could be read: dial tcp 127.0.0.1:6443: connect: connection refused",
		},
		{
			"credentials that have expired do not",
			fakeReading{{Name: "pods", Err: unauthorized}, {Name: "nodes", Err: unauthorized}},
			hopelessAfter,
			"reading the cluster: none of 2 lists could be read: the API server does not accept the credentials of the kubeconfig (Unauthorized): a new oc login may help",
		},
		{
			"nor does a name that is misspelled",
			fakeReading{{Name: "pods", Err: nobody}},
			hopelessAfter,
			"reading the cluster: none of 1 list could be read: lookup api.example.com: no such host",
		},
		{
			"one kind is refused for now",
			fakeReading{{Name: "pods", Err: busy}, {Name: "nodes", Synced: true}},
			time.Minute,
			"reading the cluster: not done after 1m: pods could not be read: try later",
		},
		{
			"several, for several reasons",
			fakeReading{{Name: "a", Err: busy}, {Name: "b", Err: busy}, {Name: "c", Err: busy}, {Name: "d", Err: busy}, {Name: "e", Err: refused}},
			time.Minute,
			"reading the cluster: not done after 1m: a, b, c and 1 more could not be read: try later; e could not be read: dial tcp 127.0.0.1:6443: connect: connection refused",
		},
		{"no answer at all", fakeReading{{Name: "pods"}}, time.Minute, "reading the cluster: the inventory is not complete"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			err := AwaitRead(t.Context(), io.Discard, tt.sources, time.Minute)
			if err == nil || err.Error() != tt.want || time.Since(begun) != tt.after {
				t.Errorf("%s: after %s got %v, want %s after %s", tt.reason, time.Since(begun), err, tt.want, tt.after)
			}
		})
	}
}

// Only who waits is told how long it may take.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var sources atomic.Pointer[[]follow.Status]
		sources.Store(&[]follow.Status{{Name: "pods"}, {Name: "jobs"}, {Name: "nodes"}, {Name: "a"}, {Name: "b"}})
		read := func() []follow.Status { return *sources.Load() }
		stop := showProgress(&out, read)
		time.Sleep(2 * time.Second)
		stop()
		if out.Len() > 0 {
			t.Errorf("after 2s it said %q", out.String())
		}

		stop = showProgress(&out, read)
		time.Sleep(4 * time.Second)
		sources.Store(&[]follow.Status{{Name: "pods", Err: errors.New("connection refused")}, {Name: "jobs", Synced: true}, {Name: "nodes", Synced: true}})
		time.Sleep(10 * time.Second)
		stop()
		const want = `mirrorset-guard: reading the cluster: 0 of 5 lists, waiting for pods, jobs, nodes and 2 more
mirrorset-guard: reading the cluster: 2 of 3 lists: connection refused
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
