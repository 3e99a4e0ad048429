package sync

import (
	"context"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/judge"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// releaseOf judges a release, as the command release does.
func (s *syncing) releaseOf() (func(context.Context) (judged, error), error) {
	choice, err := target.Find(s.world.Cluster.RolloutObjects().Version, s.release)
	if err != nil {
		return nil, cli.AboutRelease(s.release, err)
	}
	return func(ctx context.Context) (judged, error) {
		w := judge.World{Cluster: s.world.Cluster, Reviewer: s.reviewer, Client: s.world.Registries.Client, Flags: s.Again()}
		r, err := judge.Release(ctx, w, choice)
		if err != nil {
			return judged{}, cli.AboutRelease(s.release, err)
		}
		return answerOf(r), nil
	}, nil
}

func answerOf(r *readiness.Readiness) judged {
	a := judged{copies: r.Copies(), open: rules.UndeterminedOf(r.Judged.Plan, r.Judged.Facts), grows: true, said: r.Answer, notes: r.Notes, err: cli.ReleaseError(r)}
	for i := range a.copies {
		a.copies[i].Rank = i // the place in the order of an update, instead of that among what runs
	}
	a.document = func(notes []string) any {
		doc := r.Document()
		doc.Notes = append([]string{}, notes...)
		return doc
	}
	return a
}
