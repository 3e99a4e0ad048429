package judge

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// Coming returns what the cluster will pull when it is updated to the release of choice. It judges none of it. If the release
// image, or the image policies that it brings, cannot be read, that is a gap.
func Coming(ctx context.Context, w World, choice target.Release) (review.Coming, error) {
	j, err := newJudging(ctx, w, choice)
	if err != nil {
		return review.Coming{}, err
	}
	payload, err := j.payload(ctx)
	if err != nil {
		return review.Coming{}, err
	}
	j.list(payload)
	coming := review.Coming{Images: slices.Collect(j.all().All()), Policies: policiesOf(payload), Notes: j.Notes}
	name := "release " + text.Line(cmp.Or(j.Version, choice.Version, choice.Image))
	if j.Version == "" || len(j.Problems) > 0 {
		coming.Gaps = []policy.Gap{{Source: name, Kind: "Release", Unread: true, Detail: j.unread(ctx)}}
		return coming, nil
	}
	coming.Notes = append(coming.Notes, fmt.Sprintf("%s (%s) counts as what nodes will pull: %s", name, choice.Why, text.Count(len(coming.Images), "image")))
	return coming, nil
}

// unread says why it is not known which images the release has.
func (j *judging) unread(ctx context.Context) string {
	for _, p := range j.Problems {
		return p.Reason + ": " + text.Names(p.Detail, 1)
	}
	return "the release image could not be found: " + j.route(ctx, releaseImage(cmp.Or(j.Image, j.Choice.Image))).whyNot()
}
