// Package replay judges recorded changes again: what would be decided now, or with other settings?
//
//	results := replay.Judge(ctx, world, changes, replay.Options{Settings: settings, Facts: replay.Recorded})
package replay

import (
	"context"
	"fmt"
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
	"github.com/mirrorset-guard/mirrorset-guard/review/world"
)

// Where the facts come from by which a change is judged again.
const (
	Now      = "now"      // registries are asked
	Recorded = "recorded" // the records have them
)

// Options configure the judging of changes.
type Options struct {
	Settings policy.Settings
	Facts    string        // Now or Recorded
	Timeout  time.Duration // for asking registries about one change
}

// A Change is a decision about a change, and whether it is to be judged again. Others are read for
// the state of their objects.
type Change struct {
	auditv1alpha1.Decision
	Asked bool
}

// Judge judges the changes that were asked for again, in the order of time.
func Judge(ctx context.Context, w *world.World, changes []Change, o Options) v1alpha1.Replay {
	past := newPast(changes)
	results := v1alpha1.Replay{APIVersion: v1alpha1.APIVersion, Kind: "Replay", Facts: o.Facts, Changes: []v1alpha1.ReplayedChange{}}
	for i := range changes {
		r := &changes[i]
		if r.Asked {
			add(&results, o.judge(ctx, w, r, past))
		}
		past.advance(r)
	}
	return results
}

func (o *Options) judge(ctx context.Context, w *world.World, r *Change, past *past) v1alpha1.ReplayedChange {
	result := newJudged(&r.Decision)
	step, err := audit.ReadChange(r.Change)
	if err != nil {
		result.Error = err.Error()
		return result.ReplayedChange
	}
	reviewer := w.Reviewer()
	reviewer.Inventory, reviewer.Settings = review.After(w.Cluster, past.at(step)), o.Settings
	var recorded *recordedFacts
	if o.Facts == Recorded {
		if recorded, err = newRecordedFacts(&r.Decision); err != nil {
			result.Error = err.Error()
			return result.ReplayedChange
		}
		reviewer.Registries, reviewer.Trust = review.RegistriesFunc(recorded.presence), recordedTrust{reviewer.Trust, recorded}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	record, err := reviewer.Review(ctx, step.Edit, policy.Requester{User: r.User.Name, Groups: r.User.Groups})
	if err != nil {
		result.Error = err.Error()
		return result.ReplayedChange
	}
	result.compare(record)
	if n := recorded.missing(); n > 0 && result.Now == "denied" {
		result.Now, result.Differs = "", false
		result.Error = fmt.Sprintf("it would be denied only because the record lacks facts about %s", text.Plural(n, "place", "places"))
	}
	return result.ReplayedChange
}
