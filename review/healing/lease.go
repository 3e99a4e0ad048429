package healing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

const (
	// LeaseName is that of the Lease that holds the state.
	LeaseName = "mirrorset-guard-heal"
	// annotation holds the state.
	annotation = "mirrorset-guard.io/heal"
	// ResumeAnnotation is what a person sets to a registry that was stopped, or to several with commas between them.
	ResumeAnnotation = "mirrorset-guard.io/resume-heal"
	// everyRegistry is the value of ResumeAnnotation that means all of them.
	everyRegistry = "all"
	// maxConflicts is how often an update is tried that others get ahead of.
	maxConflicts = 5
)

// A Lease stores the state in an object of that kind. Its holder is the replica that wrote it last, and
// excludes none of the others: each update is one of what was read.
type Lease struct {
	client              clientcoordinationv1.LeaseInterface
	namespace, instance string

	mu   sync.Mutex
	last *state // as this process wrote or read it; nil for not yet
}

// NewLease returns the Lease in a namespace, for a replica called instance.
func NewLease(client clientcoordinationv1.LeasesGetter, namespace, instance string) *Lease {
	return &Lease{client: client.Leases(namespace), namespace: namespace, instance: instance}
}

// update changes the state and returns it as it is then, with the registries that a person has resumed. If change
// returns an error, nothing is written. Change may be called several times, and must say the same about the same.
func (l *Lease) update(ctx context.Context, change func(*state) error) (now *state, resumed []string, err error) {
	return l.change(ctx, true, change)
}

// spend is update, but for what a person has asked for: that stays to be done by update, whose caller says so.
func (l *Lease) spend(ctx context.Context, change func(*state) error) error {
	_, _, err := l.change(ctx, false, change)
	return err
}

func (l *Lease) change(ctx context.Context, resumes bool, change func(*state) error) (now *state, resumed []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range maxConflicts {
		now, resumed, err = l.try(ctx, resumes, change)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			break
		}
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		err = fmt.Errorf("Lease %s: %w", LeaseName, err)
	}
	return now, resumed, err
}

func (l *Lease) try(ctx context.Context, resumes bool, change func(*state) error) (now *state, resumed []string, err error) {
	lease, s, there, err := l.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	if resumes {
		resumed = s.resume(namesIn(lease.Annotations[ResumeAnnotation]))
	}
	if err := change(s); err != nil {
		return nil, nil, err
	}
	text, err := s.encode()
	if err != nil {
		return nil, nil, err
	}
	lease = lease.DeepCopy()
	_, done := lease.Annotations[ResumeAnnotation]
	if done = done && resumes; done {
		delete(lease.Annotations, ResumeAnnotation)
	}
	if there && text == lease.Annotations[annotation] && !done {
		l.last = s.copy()
		return s, nil, nil
	}
	if err := l.write(ctx, lease, there, text); err != nil {
		return nil, nil, err
	}
	l.last = s.copy()
	return s, resumed, nil
}

func namesIn(list string) []string {
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	return slices.Compact(names)
}

// read returns the Lease, what it holds, and whether it is there. Where it is not, it holds what this process remembers: to delete
// it gives nobody a new budget.
func (l *Lease) read(ctx context.Context) (lease *coordinationv1.Lease, s *state, there bool, err error) {
	lease, err = l.client.Get(ctx, LeaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && l.last == nil:
		return l.empty(), &state{}, false, nil
	case apierrors.IsNotFound(err):
		return l.empty(), l.last.copy(), false, nil
	case err != nil:
		return nil, nil, false, err
	}
	s, err = decodeState(lease.Annotations[annotation])
	if err != nil {
		return nil, nil, true, fmt.Errorf("Lease %s: %w; if it is to begin anew, delete the Lease", LeaseName, err)
	}
	return lease, s, true, nil
}

func (l *Lease) empty() *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Labels: map[string]string{"app.kubernetes.io/name": "mirrorset-guard"}},
	}
}

// write writes a state into a copy of the Lease that was read, unless another has written it since.
func (l *Lease) write(ctx context.Context, lease *coordinationv1.Lease, there bool, text string) error {
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[annotation] = text
	now := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &l.instance, &now
	var err error
	if there {
		_, err = l.client.Update(ctx, lease, metav1.UpdateOptions{})
	} else {
		_, err = l.client.Create(ctx, lease, metav1.CreateOptions{})
	}
	return err
}

// left returns how much may be set aside, by what was read last.
func (l *Lease) left(limit Limit, now time.Time) Limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		return Limit{}
	}
	used := l.last.Spent.used(now)
	return Limit{Bytes: limit.Bytes - used.Bytes, Requests: limit.Requests - used.Requests}
}
