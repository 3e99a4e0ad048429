package recent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

const (
	// LeaseName is that of the Lease in which replicas keep their recent edits. The role of the
	// manifests grants no other.
	LeaseName = "mirrorset-guard-recent"
	// annotation holds the recent edits.
	annotation = "mirrorset-guard.io/recent"
	// leaseSeconds is no more than a form: nothing is held. See Lease.
	leaseSeconds = int32(MaxStoringTime / time.Second)
)

// A Lease keeps recent edits in a Lease, for all replicas. It is an object that all of them may
// update and nothing else reads. Its holder is the replica that admitted a change last; the
// Lease is never held against anybody.
type Lease struct {
	client   clientcoordinationv1.LeaseInterface
	instance string
}

// NewLease returns the Lease in a namespace, used by a replica called instance.
func NewLease(client clientcoordinationv1.LeasesGetter, namespace, instance string) *Lease {
	return &Lease{client.Leases(namespace), instance}
}

// read implements store. A Lease that is not there yet holds nothing.
func (l *Lease) read(ctx context.Context) (content, error) {
	lease, err := l.client.Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return content{}, nil
	}
	if err != nil {
		return content{}, l.explain(err)
	}
	return contentOf(lease), nil
}

func contentOf(lease *coordinationv1.Lease) content {
	return content{version: lease.ResourceVersion, entries: decode(lease.Annotations[annotation])}
}

// write implements store.
func (l *Lease) write(ctx context.Context, from content, entries []entry) (content, error) {
	return l.put(ctx, from, entries)
}

// try implements store.
func (l *Lease) try(ctx context.Context, from content) error {
	_, err := l.put(ctx, from, from.entries, metav1.DryRunAll)
	return err
}

func (l *Lease) put(ctx context.Context, from content, entries []entry, dryRun ...string) (content, error) {
	text, err := encode(entries, l.instance)
	if err != nil {
		return content{}, err
	}
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: LeaseName, ResourceVersion: from.version,
			Labels: map[string]string{"app.kubernetes.io/name": "mirrorset-guard"}, Annotations: map[string]string{annotation: text},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &l.instance, LeaseDurationSeconds: new(leaseSeconds), AcquireTime: &now, RenewTime: &now},
	}
	if from.version == "" {
		lease, err = l.client.Create(ctx, lease, metav1.CreateOptions{DryRun: dryRun})
	} else {
		lease, err = l.client.Update(ctx, lease, metav1.UpdateOptions{DryRun: dryRun})
	}
	if err != nil {
		return content{}, l.explain(err)
	}
	return contentOf(lease), nil
}

// explain tells errors apart: what another replica did, what trying again would not change, and
// all else. A Lease that was deleted is created the next time.
func (l *Lease) explain(err error) error {
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && !isNamespaceMissing(err):
		return fmt.Errorf("%w: %w", ErrChanged, err)
	case apierrors.IsForbidden(err), isNamespaceMissing(err), apierrors.ReasonForError(err) == metav1.StatusReasonMethodNotAllowed:
		return fmt.Errorf("Lease %s %w: %w", LeaseName, errUnusable, err)
	default:
		return fmt.Errorf("Lease %s: %w", LeaseName, err)
	}
}

// isNamespaceMissing reports whether a Lease could not be created for want of its namespace.
func isNamespaceMissing(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusNotFound && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}
