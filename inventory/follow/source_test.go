package follow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// A fakeAPI is a collection of pods. It answers as it is told.
type fakeAPI struct {
	pods []string
	list func(metav1.ListOptions) (runtime.Object, error) // instead of pods, if not nil
	// broken says why lists fail at the moment, nil if they do not; nil if they never do
	broken func() error
	watch  func(context.Context) (watch.Interface, error)
}

// List implements Resource, page by page.
func (a *fakeAPI) List(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if a.list != nil {
		return a.list(o)
	}
	if a.broken != nil {
		if err := a.broken(); err != nil {
			return nil, err
		}
	}
	from, _ := strconv.Atoi(o.Continue)
	to := min(from+int(o.Limit), len(a.pods))
	list := &corev1.PodList{}
	list.ResourceVersion = "1"
	if to < len(a.pods) {
		list.Continue = strconv.Itoa(to)
	}
	for _, name := range a.pods[from:to] {
		list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return list, nil
}

// Watch implements Resource.
func (a *fakeAPI) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	return a.watch(ctx)
}

// IsWatchListSemanticsUnSupported says that lists are not streamed.
func (*fakeAPI) IsWatchListSemanticsUnSupported() bool { return true }

// quietly is the watch of an API server that has nothing to tell and ends it as agreed.
func quietly(ctx context.Context) (watch.Interface, error) {
	w := watch.NewRaceFreeFake()
	time.AfterFunc(watchFor, w.Stop)
	context.AfterFunc(ctx, w.Stop)
	return w, nil
}

// A recorder is a Sink that writes down what it is told.
type recorder struct{ told []string }

func (r *recorder) Put(o *Object)         { r.told = append(r.told, "put "+o.Name) }
func (r *recorder) Remove(_, name string) { r.told = append(r.told, "remove "+name) }
func (r *recorder) Replace(objects []*Object, lacking error) {
	if lacking != nil {
		r.told = append(r.told, "none: "+lacking.Error())
		return
	}
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = o.Name
	}
	r.told = append(r.told, "all: "+strings.Join(names, " "))
}

// run follows s until the test ends, and waits until nothing happens any more.
func run(t *testing.T, s *Source) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx, logr.Discard())
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
}

// pass lets d pass, and what happens by then come to its end.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestSourceTellsItsSink(t *testing.T) {
	event := func(w *watch.RaceFreeFakeWatcher, do func(runtime.Object), name string) {
		do(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "2"}})
		synctest.Wait()
	}
	for _, tt := range []struct {
		reason, object string
		want           []string
	}{
		{"all objects, of several pages", "", []string{"all: a b c d e", "put f", "put a", "remove a"}},
		{"one object, from a server that does not heed field selectors", "a", []string{"all: a", "put a", "remove a"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watch.NewRaceFreeFake()
				api := &fakeAPI{pods: []string{"a", "b", "c", "d", "e"}, watch: func(context.Context) (watch.Interface, error) { return w, nil }}
				sink := &recorder{}
				synced := 0
				run(t, &Source{Name: "pods", Client: api, Object: tt.object, PageSize: 2, Sink: sink, OnSync: func() { synced++ }})
				event(w, w.Add, "f")
				event(w, w.Modify, "a")
				event(w, w.Delete, "a")
				if diff := cmp.Diff(tt.want, sink.told); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if synced != 1 {
					t.Errorf("OnSync was called %d times", synced)
				}
			})
		})
	}
}

// What is not known any more is said, however the API server fails; what has been told
// stays.
func TestSourceKnowsThatItIsCutOff(t *testing.T) {
	for _, tt := range []struct {
		reason string
		watch  watch.Interface
		err    error  // of lists, and of watches where watch is nil
		want   string // why, if the watch was the last that was asked for
	}{
		{"a connection that is refused", nil, errors.New("connection refused"), "connection refused"},
		{
			"a load balancer that accepts and closes",
			watch.NewEmptyWatch(), // what k8s.io/client-go/rest, Request.Watch, makes of it
			errors.New("EOF"), errNoAnswer.Error(),
		},
		{
			"a right that is taken away for a moment", nil,
			apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("not yet")), "pods is forbidden: not yet",
		},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var away atomic.Bool
				api := &fakeAPI{pods: []string{"a"}}
				api.broken = func() error {
					if away.Load() {
						return tt.err
					}
					return nil
				}
				first := watch.NewRaceFreeFake()
				var watches atomic.Int32
				api.watch = func(ctx context.Context) (watch.Interface, error) {
					switch {
					case watches.Add(1) == 1:
						return first, nil
					case !away.Load():
						return quietly(ctx)
					case tt.watch != nil:
						return tt.watch, nil
					default:
						return nil, tt.err
					}
				}
				sink := &recorder{}
				s := &Source{Name: "pods", Client: api, Sink: sink, IsAnswer: NotServedOrForbidden}
				run(t, s)
				const lasted = 2 * time.Second // after less than one, a Reflector lists before it watches again
				pass(lasted)
				away.Store(true)
				first.Stop()
				pass(StaleAfter - lasted - time.Second)
				if status := s.Status(); status.Stale {
					t.Errorf("stale before its time: %+v", status)
				}
				pass(time.Minute + time.Second)
				status := s.Status()
				if why := status.Staleness(); !status.Stale || why != "out of reach for 3m0s: "+tt.want && why != "out of reach for 3m0s: "+tt.err.Error() {
					t.Errorf("stale is %t, %q", status.Stale, why)
				}
				if watches.Load() < 2 {
					t.Error("no watch was tried")
				}
				if diff := cmp.Diff([]string{"all: a"}, sink.told); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}

				away.Store(false)
				pass(16 * time.Second) // the longest wait between two attempts is 15 s
				if status := s.Status(); status.Stale || status.Err != nil {
					t.Errorf("it answers again: %+v", status)
				}
			})
		})
	}
}

// A connection may be dead without either end having heard of it: no error comes,
// and no event. It is what does not come that tells.
func TestSilenceIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		api := &fakeAPI{pods: []string{"a"}, watch: func(ctx context.Context) (watch.Interface, error) {
			if silent.Load() {
				<-ctx.Done()
				return watch.NewEmptyWatch(), nil // what client-go makes of a timeout
			}
			return watch.NewRaceFreeFake(), nil
		}}
		s := &Source{Name: "pods", Client: api, Sink: &recorder{}}
		run(t, s)
		silent.Store(true)
		longest := 2*watchFor + watchGrace
		pass(longest + time.Second)
		if status := s.Status(); !status.Stale || status.Staleness() != "not heard from for 2m11s" {
			t.Errorf("the end of the watch did not come: stale is %t, %q", status.Stale, status.Staleness())
		}
		silent.Store(false)
		pass(longest + time.Second)
		if status := s.Status(); status.Stale {
			t.Errorf("it answers again: %+v", status)
		}
	})
}

// Where nothing happens for an hour, watches end and begin, and that is enough.
func TestQuietIsNotStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Source{Name: "pods", Client: &fakeAPI{pods: []string{"a"}, watch: quietly}, Sink: &recorder{}}
		run(t, s)
		for range 60 {
			pass(time.Minute)
			if status := s.Status(); status.Stale {
				t.Fatalf("status %+v", status)
			}
		}
	})
}

// A kind that comes and goes: its Sink and its owner are told of it.
func TestServedChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var served atomic.Bool
		gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "")
		api := &fakeAPI{pods: []string{"a"}}
		api.list = func(metav1.ListOptions) (runtime.Object, error) {
			if !served.Load() {
				return nil, gone
			}
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}, nil
		}
		api.watch = func(ctx context.Context) (watch.Interface, error) {
			if !served.Load() {
				return nil, gone
			}
			return quietly(ctx)
		}
		var said []string
		s := &Source{
			Name: "pods", Client: api, Sink: &recorder{}, IsAnswer: NotServedOrForbidden,
			OnSync:         func() { said = append(said, "synced") },
			OnServedChange: func(lacking error) { said = append(said, fmt.Sprint("served: ", lacking == nil)) },
		}
		run(t, s)
		if status := s.Status(); !status.Synced || status.IsReadable() || status.Stale {
			t.Errorf("not served: %+v", status)
		}
		served.Store(true)
		pass(time.Minute)
		if status := s.Status(); !status.IsReadable() {
			t.Errorf("served: %+v", status)
		}
		served.Store(false)
		pass(2 * time.Minute)
		if diff := cmp.Diff([]string{"synced", "served: true", "served: false"}, said); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
