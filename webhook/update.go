package webhook

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"

	configv1 "github.com/openshift/api/config/v1"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// An UpdateReviewer judges the releases to which clusters are to be updated. *readiness.Updates is one; implementations
// must be safe for concurrent use.
type UpdateReviewer interface {
	// Review judges the update that a user asks for before ctx ends. What is not known by then is a part of the verdict.
	Review(ctx context.Context, update policy.Update, by policy.Requester) review.Record
	// Undetermined is the review of an update about which nothing could be found out, for a reason.
	Undetermined(update policy.Update, why error, by policy.Requester) review.Record
	// Await calls done with whether a ClusterVersion of which is holds was stored, once that is known. It must not block.
	Await(is func(*configv1.ClusterVersion) bool, done func(stored bool))
}

var versionKind = schema.GroupVersionKind(configv1.GroupVersion.WithKind("ClusterVersion"))

// isOfVersion reports whether the object of r is a ClusterVersion, of which nothing but the desired update is reviewed.
func (r *request) isOfVersion() bool { return r.kind() == versionKind }

const (
	// maxDesired is more than spec.desiredUpdate has, which may accept 1,000 risks, and maxStatus than a status with all
	// updates that there are.
	maxDesired = 1 << 20
	maxStatus  = 4 << 20
)

// proposeUpdate returns the update that r proposes. Of the objects, nothing is decoded that does not matter, so that
// nothing else can be in the way of a change.
func (r *request) proposeUpdate() (proposal, error) {
	p := proposal{name: r.put.nameOr(r.Name), subject: r.title(), unchanged: true}
	if r.Operation != admissionv1.Update || r.isRemoval() {
		return p, nil
	}
	wanted := r.put.desiredUpdate()
	if wanted == nil || !r.old.isUnread() && sameJSON(wanted, r.old.desiredUpdate()) {
		return p, nil
	}
	u := policy.Update{Before: new(configv1.ClusterVersion), After: new(configv1.ClusterVersion)}
	u.After.Name = p.name
	if err := decodeField(wanted, "spec.desiredUpdate", &u.After.Spec.DesiredUpdate, maxDesired); err != nil {
		return proposal{}, fmt.Errorf("%s cannot be read: %w", r.title(), err)
	}
	u.Unread = r.old.err
	if old := r.old.desiredUpdate(); old != nil {
		if err := decodeField(old, "spec.desiredUpdate", &u.Before.Spec.DesiredUpdate, maxDesired); err != nil {
			u.Before.Spec.DesiredUpdate = nil // one that cannot be read counts as different
		}
	}
	if r.old.status != nil && u.Unread == nil {
		if u.Unread = decodeField(r.old.status, "status", &u.Before.Status, maxStatus); u.Unread != nil {
			u.Before.Status = configv1.ClusterVersionStatus{}
		}
	}
	if u.Asks(r.UserInfo.Username) {
		p.update, p.unchanged = &u, false
	}
	return p, nil
}

// desiredUpdate returns spec.desiredUpdate, nil if there is none.
func (m *manifest) desiredUpdate() []byte {
	var desired []byte
	for field, value := range rawjson.Members(m.spec) {
		if string(field) == "desiredUpdate" {
			desired = value
		}
	}
	if desired == nil || rawjson.KindOf(desired) == rawjson.Null {
		return nil
	}
	return desired
}

func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return rawjson.Compact(&x, a) == nil && rawjson.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// reviewUpdate returns the review of the update p. If it fails, that is no reason to refuse what is not known by rule
// to be refused.
func (h *Handler) reviewUpdate(ctx context.Context, r *request, p proposal, o *overrideCheck) (record review.Record) {
	defer func() {
		if failed := recover(); failed != nil {
			err := fmt.Errorf("panic: %v", failed)
			log.FromContext(ctx).Error(err, "Could not review update of the cluster", "uid", name(string(r.UID)), "stack", string(debug.Stack()))
			record = h.Updates.Undetermined(*p.update, err, r.requester())
		}
	}()
	ctx, cancel := o.keepBack(ctx)
	defer cancel()
	return h.Updates.Review(ctx, *p.update, r.requester())
}

// tooLate answers a request that was not decided in time.
func (h *Handler) tooLate(r *request, err error) answer {
	p := proposal{name: r.Name, subject: r.title()}
	if r.isOfVersion() && h.Updates != nil {
		switch update, wrong := r.propose(); {
		case wrong != nil:
		case update.unchanged:
			return answer{proposal: update, verdict: skipped}
		default:
			return answerOf(update, h.Updates.Undetermined(*update.update, err, r.requester()))
		}
	}
	return noVerdict(r, p, err)
}

// awaitUpdate has the override of an update announced once it is in force, with its annotation.
func (h *Handler) awaitUpdate(o *overrideCheck) {
	uid, annotation := o.req.old.uid, o.req.put.override
	h.Updates.Await(func(v *configv1.ClusterVersion) bool {
		return v.UID == uid && v.Annotations[OverrideAnnotation] == annotation
	}, o.announcement.stored)
}
