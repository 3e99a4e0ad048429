// Package load makes 50 changes of mirror sets a second, and wants the guard's right verdict on
// each: no failure, and no bad change admitted.
package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

const (
	// rate is how many changes a second the API server is asked to make.
	rate = 50
	// atOnce is how many may be under way: a machine that cannot keep up is not buried.
	atOnce = 20
)

// Resource is that of the changes.
var Resource = schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "imagetagmirrorsets"}

// A Change is a mirror for a source whose image the cluster runs.
type Change struct{ source, image, mirror, mirrored string }

var (
	// Good is for a mirror that holds the image.
	Good = Change{SourceHost + "/shop", SourceHost + "/shop/cart:v1", MirrorHost + "/shop", MirrorHost + "/shop/cart:v1"}
	// Bad is for one that does not.
	Bad = Change{SourceHost + "/bank", SourceHost + "/bank/vault:v1", MirrorHost + "/bank", MirrorHost + "/bank/vault:v1"}
)

// The registries of the changes.
const (
	SourceHost = "quay.io"
	MirrorHost = "mirror.example.com"
)

// Workload is a manifest of what runs the images.
var Workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: default}
spec:
  replicas: 0
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}}
    spec: {containers: [{name: app, image: "` + Good.image + `"}, {name: vault, image: "` + Bad.image + `"}]}
`

// Registry starts the registry of both hosts, which ends with the test.
func Registry(t testing.TB) *registries.Front {
	t.Helper()
	front := registries.Start(t)
	Push(t, front)
	return front
}

// Push fills a registry: the mirror lacks one of the two images.
func Push(t testing.TB, front *registries.Front) {
	t.Helper()
	for ref, name := range map[string]string{Good.image: "cart", Good.mirrored: "cart", Bad.image: "vault"} {
		img, err := registries.Image(name)
		if err == nil {
			err = front.Push(ref, img)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Client returns one that makes changes as often as it is asked to.
func Client(t testing.TB, config *rest.Config) dynamic.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func (c Change) object(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "config.openshift.io/v1", "kind": "ImageTagMirrorSet", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"imageTagMirrors": []any{map[string]any{"source": c.source, "mirrors": []any{c.mirror}}}},
	}}
}

// Try makes a change as a dry run, or in earnest, and returns what the API server says.
func Try(ctx context.Context, api dynamic.Interface, name string, c Change, dryRun ...string) error {
	_, err := api.Resource(Resource).Create(ctx, c.object(name), metav1.CreateOptions{DryRun: dryRun})
	return err
}

// IsRefusal reports whether err is the guard's verdict on a bad change: no other answer that
// keeps a change out.
func IsRefusal(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), Bad.mirrored)
}

// AwaitGuarded waits until the API server has the guard refuse a bad change.
func AwaitGuarded(t testing.TB, api dynamic.Interface) {
	t.Helper()
	n := 0
	Await(t, "a bad change is refused by the guard", func(ctx context.Context) error {
		n++
		if err := Try(ctx, api, fmt.Sprint("try", n), Bad, metav1.DryRunAll); !IsRefusal(err) {
			return fmt.Errorf("got %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}

// MaxWait is how long a test waits for what must happen soon: that may be a whole sequence, as the
// restart of all replicas.
const MaxWait = 6 * time.Minute

// Await waits until is returns nil, where another process acts without an event. It ends the test after
// MaxWait, and if something else has failed.
func Await(t testing.TB, what string, is func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), MaxWait)
	defer cancel()
	for {
		err := is(ctx)
		if err == nil {
			return
		}
		if t.Failed() {
			t.Fatalf("not after what has failed: %s: %v", what, err)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: never: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Under disrupts what guards while good and bad changes are made, and wants the right verdict on
// each.
func Under(t testing.TB, api dynamic.Interface, what string, disrupt func()) {
	t.Helper()
	l := start(t, api)
	disrupt()
	l.end(t, what)
	for _, failure := range l.withoutVerdict[:min(len(l.withoutVerdict), mostShown)] {
		t.Errorf("%s: %s", what, failure)
	}
}

// UnderOutage disrupts what guards so that there may be no verdict for a while. Until there is one
// again, which it waits for, the API server keeps all changes out.
func UnderOutage(t testing.TB, api dynamic.Interface, what string, disrupt func()) {
	t.Helper()
	l := start(t, api)
	disrupt()
	l.end(t, what)
	AwaitGuarded(t, api)
}

// mostShown is how many failures are shown.
const mostShown = 5

// A load is changes that are made, and what became of them.
type load struct {
	api   dynamic.Interface
	begun time.Time
	stop  context.CancelFunc
	done  chan struct{}

	mu       sync.Mutex
	admitted int
	refused  int
	// withoutVerdict are those that were kept out without one, wrong those with any other answer.
	withoutVerdict []unanswered
	wrong          []string
	times          []time.Duration
	// pauses are when this machine stood still.
	pauses []span
}

// A span is a time.
type span struct{ from, to time.Time }

func (s span) overlaps(o span) bool { return s.from.Before(o.to) && o.from.Before(s.to) }

// An unanswered change is one that was kept out without a verdict.
type unanswered struct {
	span
	answer string
}

func (u unanswered) String() string { return u.answer }

func start(t testing.TB, api dynamic.Interface) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{api: api, begun: time.Now(), stop: cancel, done: make(chan struct{})}
	go l.run(ctx)
	t.Cleanup(func() {
		cancel()
		<-l.done
	})
	return l
}

func (l *load) run(ctx context.Context) {
	defer close(l.done)
	defer l.notePauses()()
	var requests errgroup.Group
	requests.SetLimit(atOnce)
	defer requests.Wait() //nolint:errcheck // there are none
	ticker := time.NewTicker(time.Second / rate)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			requests.Go(func() error {
				l.change(context.WithoutCancel(ctx), n)
				return nil
			})
		}
	}
}

// A machine stood still if what happens every tick did not happen for pause, where a guard has 5 s to read a
// request.
const (
	tick  = 100 * time.Millisecond
	pause = 2 * time.Second
)

// notePauses notes when this machine stands still, until what it returns is called.
func (l *load) notePauses() (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for last, stopped := time.Now(), false; !stopped; last = time.Now() {
			select {
			case <-ticker.C:
			case <-stop:
				stopped = true
			}
			if now := time.Now(); now.Sub(last) > pause {
				l.mu.Lock()
				l.pauses = append(l.pauses, span{last, now})
				l.mu.Unlock()
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

// forgive takes out the changes without a verdict that were under way while this machine stood still: their
// senders may have given up meanwhile. It returns how many.
func (l *load) forgive() int {
	before := len(l.withoutVerdict)
	l.withoutVerdict = slices.DeleteFunc(l.withoutVerdict, func(u unanswered) bool { return slices.ContainsFunc(l.pauses, u.overlaps) })
	return before - len(l.withoutVerdict)
}

// change makes the n-th change; every fifth is a bad one.
func (l *load) change(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	made := Good
	if n%5 == 0 {
		made = Bad
	}
	begun := time.Now()
	err := Try(ctx, l.api, fmt.Sprint("load", n), made, metav1.DryRunAll)
	ended := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = append(l.times, ended.Sub(begun))
	answer := fmt.Sprintf("%s of %s: %v", begun.Format("15:04:05.000"), made.mirror, err)
	switch {
	case err == nil && made == Good:
		l.admitted++
	case IsRefusal(err) && made == Bad:
		l.refused++
	case apierrors.IsInternalError(err):
		l.withoutVerdict = append(l.withoutVerdict, unanswered{span{begun, ended}, answer})
	default:
		l.wrong = append(l.wrong, answer)
	}
}

// end waits for the last answer, and wants no wrong one.
func (l *load) end(t testing.TB, what string) {
	t.Helper()
	l.stop()
	<-l.done
	perSecond := float64(len(l.times)) / time.Since(l.begun).Seconds()
	slices.Sort(l.times)
	if l.admitted == 0 || l.refused == 0 {
		t.Fatalf("%s: %d admitted, %d refused: there was no load; %v %v", what, l.admitted, l.refused,
			l.wrong[:min(len(l.wrong), mostShown)], l.withoutVerdict[:min(len(l.withoutVerdict), mostShown)])
	}
	t.Logf("%s: %d changes, %.0f a second, %d admitted, %d refused, %d without a verdict, %d with a wrong one; median %s, 99 %% within %s, longest %s",
		what, len(l.times), perSecond, l.admitted, l.refused, len(l.withoutVerdict), len(l.wrong),
		l.times[len(l.times)/2].Round(time.Millisecond), l.times[len(l.times)*99/100].Round(time.Millisecond), l.times[len(l.times)-1].Round(time.Millisecond))
	if n := l.forgive(); n > 0 {
		t.Logf("%s: %d of those without a verdict were under way while this machine stood still (%v)", what, n, l.pauses)
	}
	for _, failure := range l.wrong[:min(len(l.wrong), mostShown)] {
		t.Errorf("%s: %s", what, failure)
	}
}
