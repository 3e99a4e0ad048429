package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// in returns what a plan says of pods of a namespace with an image policy of its own, "" for all others. The namespace of the release
// image is known.
func in(namespace string, plan plan.Plan) plan.Plan {
	plan.Reroutes = slices.DeleteFunc(slices.Clone(plan.Reroutes), func(r evidence.Reroute) bool { return ownPolicyOf(&r) != namespace })
	return plan
}

func ownPolicyOf(r *evidence.Reroute) string {
	if slices.ContainsFunc(r.Image.Consumers, func(c policy.Consumer) bool { return c.AnyNamespace }) {
		return r.Namespace
	}
	return ""
}

// inNamespaces enters what namespaces with image policies of their own would refuse. No release says in which namespace an image
// runs: if today's runs there, the image is not ready; of the others it is not known whether they will run there.
func (j *judging) inNamespaces(ctx context.Context, plans []plan.Plan, facts policy.Facts) {
	namespaces := map[string]bool{}
	for _, plan := range plans {
		for i := range plan.Reroutes {
			namespaces[ownPolicyOf(&plan.Reroutes[i])] = true
		}
	}
	delete(namespaces, "")
	var today *atWork
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		doubts := map[string]judgement{}
		for _, plan := range plans {
			of := judgements(in(namespace, plan), facts)
			for i := range j.Images {
				img := &j.Images[i]
				said, may := of[img.Ref]
				if !may || img.State == readiness.NotReady {
					continue
				}
				if said.state != readiness.Ready && today == nil {
					today = j.atWork(ctx)
				}
				if said.state != readiness.Ready && !today.runs[namespace][img.Name] {
					doubts[img.Name] = said
					continue
				}
				for k := range said.findings {
					said.findings[k].Reason += ": in namespace " + namespace + ", where it runs today"
				}
				enter(img, said.state, said.findings)
				for _, r := range said.routes {
					look(img, r, facts)
				}
			}
		}
		j.doubt(namespace, doubts, today)
	}
}

// doubt enters that images would, or may, be refused in a namespace in which they are not known to run.
func (j *judging) doubt(namespace string, doubts map[string]judgement, today *atWork) {
	if len(doubts) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(doubts))
	detail := []string{text.Names(names, target.MaxNamed)}
	for _, f := range doubts[names[0]].findings {
		detail = append(detail, slices.Concat([]string{names[0] + ": " + f.Reason}, f.Detail)...)
	}
	if today.unknown != "" {
		detail = append(detail, "which of them run there today is not known: "+today.unknown)
	}
	j.Problems = append(j.Problems, readiness.Problem{
		About: readiness.AboutConfiguration, State: readiness.Unknown,
		Reason: fmt.Sprintf("nodes may refuse %s of the release in namespace %s, which has an image policy of its own, and whether they are to run there is not known", text.Count(len(names), "image"), namespace),
		Detail: convert.Each(detail, text.Line),
	})
}

// An atWork says which images of today's release run in which namespaces.
type atWork struct {
	runs    map[string]map[string]bool // by namespace and name
	unknown string                     // why that is not known; "" if it is
}

func (j *judging) atWork(ctx context.Context) *atWork {
	at := atWork{runs: map[string]map[string]bool{}}
	today, err := Today(ctx, j.World)
	if err != nil {
		at.unknown = err.Error()
		return &at
	}
	names := namesByDigest(today)
	for img := range j.state.Cluster.Images.All() {
		for _, c := range img.Consumers {
			if c.Use != policy.Running && (c.Use != policy.Referenced || c.Placement == nil) { // settings name what runs elsewhere
				continue
			}
			for _, name := range names[cmp.Or(target.DigestOf(img.Ref), c.Digest)] {
				if at.runs[c.Namespace] == nil {
					at.runs[c.Namespace] = map[string]bool{}
				}
				at.runs[c.Namespace][name] = true
			}
		}
	}
	return &at
}

// namesByDigest returns what a release calls its images.
func namesByDigest(p *release.Payload) map[string][]string {
	names := map[string][]string{}
	for _, i := range p.Images {
		names[target.DigestOf(i.Ref)] = append(names[target.DigestOf(i.Ref)], i.Name)
	}
	return names
}

// Today returns the release that the cluster runs, read from where its nodes would take it. The error says why it is not known.
func Today(ctx context.Context, w World) (*release.Payload, error) {
	v := w.Cluster.RolloutObjects().Version
	if v == nil {
		return nil, target.ErrNoVersion
	}
	now := target.Running(v)
	if len(v.Status.History) == 0 || now.Image == "" {
		return nil, errors.New("an update is under way, or may be")
	}
	j, err := newJudging(ctx, w, target.Release{Image: now.Image})
	if err != nil {
		return nil, err
	}
	if err := j.resolve(ctx); err != nil {
		return nil, err
	}
	payload, err := j.read(ctx)
	if err == nil && payload == nil {
		err = fmt.Errorf("%s: %s", j.Image, j.route(ctx, releaseImage(j.Image)).whyNot())
	}
	return payload, err
}
