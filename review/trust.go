package review

import (
	"context"
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A proposedTrust has the sources for judging a change that may name different CAs.
type proposedTrust struct {
	registries Registries
	notes      []string
	release    func()
}

// readTrust enters the CAs before and after into change, if it names a different ConfigMap.
func (r *Reviewer) readTrust(ctx context.Context, change *policy.Change) proposedTrust {
	t := proposedTrust{registries: r.Registries, release: func() {}}
	if change.Before.TrustedCA == change.After.TrustedCA {
		return t
	}
	r.readCAs(ctx, &change.Before)
	r.readCAs(ctx, &change.After)
	if change.Before.CAsUnknown != "" || change.After.CAsUnknown != "" {
		return t // the plan says so, and asks nothing
	}
	if name := change.After.TrustedCA; name != "" && change.After.CAs == nil {
		t.notes = []string{fmt.Sprintf("there is no ConfigMap openshift-config/%s: nodes would trust no CA through additionalTrustedCA", name)}
	}
	t.registries, t.release = r.Trust.Propose(change.After.CAs)
	return t
}

func (r *Reviewer) readCAs(ctx context.Context, set *mirrors.Set) {
	switch {
	case set.TrustedCA == "":
	case r.Trust == nil:
		set.CAsUnknown = fmt.Sprintf("ConfigMap openshift-config/%s was not read", set.TrustedCA)
	default:
		var err error
		if set.CAs, err = r.Trust.CAs(ctx, set.TrustedCA); err != nil {
			set.CAsUnknown = fmt.Sprintf("reading ConfigMap openshift-config/%s: %v", set.TrustedCA, err)
		}
	}
}
