package readiness

import (
	"errors"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// errNotOffered is wrapped by the error of an update that CVO does not begin.
var errNotOffered = errors.New("CVO does not begin this update")

// choiceOf returns the release that u leads to. The error wraps errNotOffered if there is certainly none.
func choiceOf(u policy.Update) (Choice, error) {
	v := &configv1.ClusterVersion{Spec: u.After.Spec, Status: u.Before.Status}
	d := v.Spec.DesiredUpdate
	switch {
	case d.Image == "" && u.Unread != nil:
		return Choice{}, fmt.Errorf("the status of ClusterVersion, which has the image of %s, could not be read: %w", text.Line(text.Cut(d.Version, maxShown)), u.Unread)
	case u.ChangesArchitecture():
		return Choice{}, errors.New("which release has all architectures is not known before CVO has asked the update service for it")
	}
	c, err := Find(v, Desired)
	if err != nil && d.Image == "" && !isUnretrieved(v) {
		err = fmt.Errorf("%w: %w", errNotOffered, err)
	}
	return c, err
}

// isUnretrieved reports whether CVO does not know which updates there are: it may learn of them later, and then begin
// what it is asked for.
func isUnretrieved(v *configv1.ClusterVersion) bool {
	return slices.ContainsFunc(v.Status.Conditions, func(c configv1.ClusterOperatorStatusCondition) bool {
		return c.Type == configv1.RetrievedUpdates && c.Status != configv1.ConditionTrue
	})
}
