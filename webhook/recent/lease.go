package recent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// LeaseName is that of the Lease in which replicas keep their recent edits. The role of the
	// manifests grants no other.
	LeaseName = "mirrorset-guard-recent"
	// annotation holds the recent edits, knownAnnotation the addresses of senders that are known.
	annotation      = "mirrorset-guard.io/recent"
	knownAnnotation = "mirrorset-guard.io/known-senders"
	// leaseSeconds has no effect: nothing is held. See Lease.
	leaseSeconds = int32(MaxStoringTime / time.Second)
	// manager is the name by which a guard writes the Lease, maxManager bounds that of any other writer.
	manager    = "mirrorset-guard"
	maxManager = 60
)

// A Lease is a store in an object of that kind, which all replicas may update and nothing else reads.
// Its holder is the replica that admitted a change last, and excludes none of the others.
//
// It may be deleted, emptied or filled with garbage by any user with the right to; an entry made by such a
// user has no seal (Seals), and is garbage. So it is created empty, an edit is added only by an update of the
// very object that was read (uid and resourceVersion), and each replica follows it: the API server reports
// every version that there was, even if it was replaced since.
type Lease struct {
	client clientcoordinationv1.LeaseInterface
	// watching is client without a limit of time for requests.
	watching clientcoordinationv1.LeaseInterface
	instance string
	seals    *Seals
	decoder  decoder
}

// NewLease returns the Lease in a namespace, used by a replica called instance. Requests of
// watching must have no limit of time.
func NewLease(client, watching clientcoordinationv1.LeasesGetter, namespace, instance string, seals *Seals) *Lease {
	return &Lease{client: client.Leases(namespace), watching: watching.Leases(namespace), instance: instance, seals: seals}
}

// read implements store. A Lease that is not there is created.
func (l *Lease) read(ctx context.Context) (content, error) {
	for {
		lease, err := l.client.Get(ctx, LeaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			lease, err = l.client.Create(ctx, l.empty(), metav1.CreateOptions{FieldManager: manager})
		}
		switch {
		case err == nil:
			return l.contentOf(lease), nil
		case apierrors.IsAlreadyExists(err) && ctx.Err() == nil: // another replica was faster
		default:
			return content{}, l.explain(err)
		}
	}
}

func (l *Lease) empty() *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Labels: map[string]string{"app.kubernetes.io/name": "mirrorset-guard"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &l.instance, LeaseDurationSeconds: new(leaseSeconds), AcquireTime: &now, RenewTime: &now},
	}
}

func (l *Lease) contentOf(lease *coordinationv1.Lease) content {
	return content{
		uid: string(lease.UID), version: lease.ResourceVersion, writer: writerOf(lease),
		entries: l.decoder.decode(lease.Annotations[annotation], l.seals), known: knownIn(lease.Annotations[knownAnnotation]),
	}
}

// knownIn returns the addresses in a list of known senders, no more than a guard writes.
func knownIn(list string) (known []string) {
	for name := range strings.SplitSeq(list, ",") {
		if _, err := netip.ParseAddr(name); err == nil && len(known) < maxRemembered {
			known = append(known, name)
		}
	}
	return known
}

// writerOf returns the program that wrote lease last, by its own account; "" if it is a guard, or not known.
func writerOf(lease *coordinationv1.Lease) string {
	var last metav1.ManagedFieldsEntry
	for _, m := range lease.ManagedFields {
		if last.Time == nil || m.Time != nil && !m.Time.Before(last.Time) {
			last = m
		}
	}
	if last.Manager == manager {
		return ""
	}
	return text.Cut(text.Line(last.Manager), maxManager)
}

// write implements store.
func (l *Lease) write(ctx context.Context, from content, entries []entry, dryRun ...string) (content, error) {
	list, err := encode(entries, l.instance, l.seals)
	if err != nil {
		return content{}, err
	}
	lease := l.empty()
	// The uid is what keeps the API server from making a new Lease of it, which it does for an
	// update of one that is not there.
	lease.UID, lease.ResourceVersion = types.UID(from.uid), from.version
	lease.Annotations = map[string]string{annotation: list, knownAnnotation: strings.Join(from.known, ",")}
	lease, err = l.client.Update(ctx, lease, metav1.UpdateOptions{DryRun: dryRun, FieldManager: manager})
	if err != nil {
		return content{}, l.explain(err)
	}
	return l.contentOf(lease), nil
}

// follow implements store.
func (l *Lease) follow(ctx context.Context, seen func(content)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, LeaseName).String()}
	list, err := l.client.List(ctx, options)
	if err != nil {
		return l.explain(err)
	}
	now := content{version: list.ResourceVersion, absent: true}
	if len(list.Items) > 0 {
		now = l.contentOf(&list.Items[0])
	}
	seen(now)
	options.ResourceVersion, options.AllowWatchBookmarks = list.ResourceVersion, true
	for ctx.Err() == nil {
		w, err := l.watching.Watch(ctx, options)
		switch {
		case err == nil:
			err = l.relay(ctx, w, &options.ResourceVersion, seen)
			w.Stop()
		case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
			err = nil // it was not the API server's answer, so the next watch can continue from there
		default:
			err = l.explain(err)
		}
		if err != nil {
			return err
		}
		if wait(ctx) != nil { // a watch that ends at once must not keep a processor busy
			break
		}
	}
	return ctx.Err()
}

// relay passes on the events of w until it ends, and notes the last version.
func (l *Lease) relay(ctx context.Context, w watch.Interface, version *string, seen func(content)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, ok := <-w.ResultChan():
			if !ok {
				return nil // the next watch continues from there
			}
			lease, isLease := event.Object.(*coordinationv1.Lease)
			switch {
			case event.Type == watch.Error:
				return l.explain(apierrors.FromObject(event.Object)) // from the start
			case !isLease:
				return fmt.Errorf("Lease %s: the API server sent a %T", LeaseName, event.Object)
			}
			*version = lease.ResourceVersion
			switch event.Type {
			case watch.Added, watch.Modified:
				seen(l.contentOf(lease))
			case watch.Deleted:
				seen(content{uid: string(lease.UID), version: lease.ResourceVersion, absent: true})
			}
		}
	}
}

// explain tells errors apart: those that another replica caused, those that trying again would not
// change, and all others.
func (l *Lease) explain(err error) error {
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err) && !isNamespaceMissing(err):
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
