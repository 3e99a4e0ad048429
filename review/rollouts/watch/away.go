package watch

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/causes"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
)

// away is a time in which the API server does not answer.
type away struct {
	since  time.Time // zero while it answers
	err    error
	lasted time.Duration // the last time
}

// look reports whether the API server is away, by the sources of pools and nodes, and the events about
// it.
func (a *away) look(sources []follow.Status, now time.Time) (is bool, events []progress.Event) {
	i := slices.IndexFunc(sources, func(s follow.Status) bool {
		return (s.Name == workloads.Nodes || s.Name == poolSource) && s.IsBlind()
	})
	switch {
	case i >= 0 && a.since.IsZero():
		a.since, a.err = now, sources[i].Err
		return true, []progress.Event{{Time: now, Type: Away, Message: "The API server does not answer any more.", Causes: []causes.Chain{{Symptom: a.why()}}}}
	case i >= 0:
		a.err = sources[i].Err
		return true, nil
	case !a.since.IsZero():
		a.lasted = now.Sub(a.since)
		*a = away{lasted: a.lasted}
		return false, []progress.Event{{Time: now, Type: Back, Message: fmt.Sprintf("The API server answers again, after %s.", progress.Short(a.lasted))}}
	default:
		return false, nil
	}
}

const poolSource = "machineconfigpools.machineconfiguration.openshift.io"

// why says why it does not answer, without the address of the request.
func (a *away) why() string {
	return cmp.Or(environment.Words(a.err), "nothing has been heard of it")
}

// refused reports whether the API server is there, and lets us read nothing any more.
func (a *away) refused() bool {
	return apierrors.IsForbidden(a.err) || apierrors.IsUnauthorized(a.err)
}
