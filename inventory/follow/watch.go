package follow

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// watchFor is the least duration of a watch; the longest is twice that. client-go's
	// default is 5 to 10 minutes, for which a connection could be dead without an error;
	// that is made for clusters with thousands of clients of a kind. Each source costs the
	// API server a request a minute.
	watchFor = time.Minute
	// watchGrace is how much later than agreed the API server may end a watch.
	watchGrace = 10 * time.Second
)

// watch begins a watch that is sure to end: the API server ends it as agreed, or else we
// do. That tells a source where nothing happens from one that is out of reach.
func (s *Source) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.selects(&options)
	streams := options.SendInitialEvents != nil
	if streams {
		s.beforeListing(ctx)
	} else {
		s.retries.wait(ctx)
	}
	lasts := watchFor + rand.N(watchFor) //nolint:gosec // not a secret
	if streams && options.TimeoutSeconds != nil {
		lasts = time.Duration(*options.TimeoutSeconds) * time.Second // to stream a long list takes its time
	}
	options.TimeoutSeconds = new(int64(lasts / time.Second))
	ctx, end := context.WithTimeout(ctx, lasts+watchGrace)
	w, err := s.Client.Watch(ctx, options)
	if err == nil && reflect.TypeOf(w) == noAnswer {
		err = errNoAnswer
	}
	if err != nil {
		end()
		if s.streamFailed = streams; !streams { // else the Reflector lists at once
			s.retries.step(s.delays())
		}
		return nil, s.fail(err)
	}
	s.streamFailed = false
	if streams {
		s.health.heard()
	} else {
		s.health.succeed()
	}
	s.health.expect(lasts + watchGrace)
	context.AfterFunc(ctx, w.Stop)
	return endingWatch{w, end}, nil
}

// noAnswer is the type that client-go returns, without an error, where the
// connection ends or times out before the API server has answered
// (k8s.io/client-go/rest, Request.Watch), as it does where a load balancer accepts
// connections for an API server that is away. To a Reflector it is a watch that ended at
// once; taken for a sign of life, it would hide that nothing is known any more.
var noAnswer = reflect.TypeOf(watch.NewEmptyWatch())

var errNoAnswer = errors.New("the connection ended before there was an answer")

// An endingWatch cancels its context when it stops.
type endingWatch struct {
	watch.Interface
	end context.CancelFunc
}

// Stop implements watch.Interface.
func (w endingWatch) Stop() {
	w.end()
	w.Interface.Stop()
}
