package rules

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/forecast"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// Decide judges p by the facts. It is a function of its arguments only.
func Decide(p plan.ChangePlan, facts policy.Facts) policy.Verdict {
	return DecideInBrief(p, facts, len(p.Reroutes))
}

// DecideInBrief is Decide for callers that report the first n findings only: if more images than that
// are rerouted, only these findings have Detail and Remedy. For 100,000 images they take 40 MiB.
func DecideInBrief(p plan.ChangePlan, facts policy.Facts, n int) policy.Verdict {
	j, brief := judgeImages(p.Plan, facts, n)
	for _, r := range changeRules {
		j.Findings = append(j.Findings, r.find(p, p.Settings, facts)...)
	}
	onlyPins := p.Change.OnlyPins()
	v := policy.Verdict{
		Judgement: j,
		Brings:    len(p.Added) > 0 || p.ListsChanged || len(policy.Differing(p.Change.After.Policies, p.Change.Before.Policies)) > 0 || onlyPins,
		Deletes:   p.Change.OnlyDeletes(),
		Unjudged:  p.Unjudged, OnlySignatures: p.OnlySignatures(), RequiresNone: p.RequiresNone(), OnlyPins: onlyPins,
	}
	conclude(&v, p.Settings)
	if brief {
		detail(&p.Settings, v.Findings[:min(n, len(v.Findings))], p.ByImage(), facts)
	}
	return v
}

// Judge judges the images of p, by routes in force, and says nothing of the configuration as a whole.
func Judge(p plan.Plan, facts policy.Facts) policy.Judgement {
	j := judgeInForce(p, facts)
	sort(p.Settings, j.Findings)
	return j
}

// judgeInForce is judge for routes that do not change.
func judgeInForce(p plan.Plan, facts policy.Facts) policy.Judgement {
	j, _ := judgeImages(p, facts, len(p.Reroutes))
	said := map[string]string{}
	for i := range j.Findings {
		f := &j.Findings[i]
		if said[f.Reason] == "" {
			said[f.Reason] = inForce.Replace(f.Reason)
		}
		f.Reason = said[f.Reason]
	}
	return j
}

// judgeImages judges the images of p. The findings are not sorted yet. If there are more than n images, it is brief: findings have no
// Detail, Remedy and Copy.
func judgeImages(p plan.Plan, facts policy.Facts, n int) (j policy.Judgement, brief bool) {
	s := &p.Settings
	j = policy.Judgement{Counts: policy.Counts{Total: p.Total, Malformed: len(p.Malformed)}, Partial: len(p.Gaps) > 0 || p.Site.IsUnknown()}
	images := 0
	for range p.ByImage() {
		images++
	}
	brief = images > n
	reasons := map[string]string{} // of 100,000 images it is mostly the same
	for reroutes := range p.ByImage() {
		seen, findings := worst(s, reroutes, facts, brief)
		j.Counts.Rerouted++
		j.Results = append(j.Results, add(&j.Counts, seen, findings))
		for i := range findings {
			f := &findings[i]
			if brief {
				f.Detail, f.Remedy, f.Copy = nil, nil, nil
			}
			if _, known := reasons[f.Reason]; !known {
				reasons[f.Reason] = f.Reason
			}
			f.Reason = reasons[f.Reason]
		}
		if j.Findings == nil && len(findings) > 0 {
			j.Findings = make([]policy.Finding, 0, images+roomForPlan) // more room is made by copying what there is
		}
		j.Findings = append(plan.Doubled(j.Findings, len(findings)), findings...)
	}
	j.Counts.Tags, j.Counts.Builds = plan.CountAtOnce(p.Reroutes)
	return j, brief
}

// roomForPlan is room for the findings about the change as a whole.
const roomForPlan = 16

// inForce rewords findings about a new route for a route that does not change.
var inForce = strings.NewReplacer("its new route", "its route", "the new route", "its route")

// detail gives findings the Detail and Remedy that they have when images are judged again.
func detail(s *settings.Settings, findings []policy.Finding, images iter.Seq[[]evidence.Reroute], facts policy.Facts) {
	of := map[string][]*policy.Finding{}
	for i := range findings {
		if f := &findings[i]; f.Image.Ref != "" && f.Detail == nil && f.Remedy == nil {
			of[f.Image.Ref] = append(of[f.Image.Ref], f)
		}
	}
	for reroutes := range images {
		brief := of[reroutes[0].Image.Ref]
		if brief == nil {
			continue
		}
		_, whole := worst(s, reroutes, facts, false)
		for _, f := range brief {
			if i := slices.IndexFunc(whole, func(w policy.Finding) bool { return w.Rule == f.Rule }); i >= 0 {
				f.Detail, f.Remedy, f.Copy = whole[i].Detail, whole[i].Remedy, whole[i].Copy
			}
		}
	}
}

// WithForecast returns v with what the forecast's rules find.
func WithForecast(p plan.ChangePlan, v policy.Verdict, f *forecast.Forecast) policy.Verdict {
	if f == nil {
		return v
	}
	v.Counts.Moved, v.Counts.MovedLost, v.Counts.MovedOpen, v.Counts.MovedAssumed = f.Moved.All, f.Moved.Lost, f.Moved.Open, f.Moved.Assumed
	if len(f.Findings) == 0 {
		return v
	}
	v.Findings = slices.Concat(v.Findings, f.Findings)
	conclude(&v, p.Settings)
	return v
}

// conclude sorts the findings, and sets what follows from them.
func conclude(v *policy.Verdict, s settings.Settings) {
	sort(s, v.Findings)
	v.Mode = s.Mode
	v.Allowed = s.Mode != policy.ModeEnforce || !slices.ContainsFunc(v.Findings, func(f policy.Finding) bool { return f.Severity == policy.Deny })
	v.BlockedBy = s.BlockedBy(v.Findings)
}

func judgeOne(s *settings.Settings, a *evidence.Case) []policy.Finding {
	var findings []policy.Finding
	for _, r := range rules {
		if !r.isFor(a.Reroute) {
			continue
		}
		f, ok := r.check(a)
		if !ok {
			continue
		}
		f.Rule, f.Image = r.id, s.SortConsumers(a.Image)
		if r.loss && plan.IsPin(a) {
			f = plan.AsPin(a, f)
		}
		if f.Copy != nil {
			f.Copy.Rule = f.Rule
			f.Remedy = append(f.Copy.Commands(), f.Remedy...)
		}
		f = forReroute(*s, a.Reroute).Settle(f, false)
		if f.Severity == policy.Deny && len(a.Rarely().Current) > 0 {
			g, _ := r.check(a.ByObjects())
			g.Rule, g.Image = f.Rule, f.Image
			if forReroute(*s, a.Reroute).Settle(g, false).Severity != policy.Deny {
				a.TellCurrent(&f)
			}
		}
		if f.Severity == policy.Deny && policy.IsOwn(a.Image) {
			f.Detail = append(slices.Clone(f.Detail), "this is the guard itself: unless it can start, no mirror set can be created or changed")
		}
		findings = append(findings, f)
		if f.Severity == policy.Deny {
			break
		}
	}
	return findings
}

// add counts an image, and returns its Result.
func add(c *policy.Counts, a *evidence.Case, findings []policy.Finding) policy.Result {
	switch {
	case a.OutcomeAfter == evidence.Works && !slices.ContainsFunc(findings, policy.Finding.LeavesOpen):
		if a.Assumption() != "" {
			c.Assumed++
			return policy.ResultAssumed
		}
		if a.Site.RunOnWindows(a.Image.Consumers) {
			c.Unverified++
			return policy.ResultUnverified
		}
		c.Verified++ // for the nodes of every platform
		if at, ok := a.NewRoute.Served(); ok && at.Depth >= mirrors.DepthBlobs {
			c.Layers++
		}
		return policy.ResultVerified
	case a.OutcomeAfter == evidence.Unsure || a.OutcomeAfter == evidence.WorksBehind:
		c.Unverified++
		if a.Pending() {
			c.Pending++
		}
		return policy.ResultUnverified
	case a.OutcomeAfter == evidence.Fails && a.FailsToday().Holds:
		return policy.ResultFailsAlready
	default:
		return policy.ResultFails
	}
}

// sort puts denials first, and protected images before others. It does so in place: there may be
// 100,000 findings.
func sort(s settings.Settings, findings []policy.Finding) {
	ranks, order := make([]int, len(findings)), make([]int, len(findings))
	for i, f := range findings {
		ranks[i], order[i] = findingRank(s, f), i
	}
	slices.SortStableFunc(order, func(i, k int) int {
		a, b := &findings[i], &findings[k]
		return cmp.Or(
			cmp.Compare(b.Severity, a.Severity),
			cmp.Compare(ranks[i], ranks[k]),
			strings.Compare(a.Rule, b.Rule),
			strings.Compare(a.Image.Ref, b.Image.Ref),
		)
	})
	for i := range order {
		to, first := i, findings[i]
		for order[to] != i {
			findings[to], to, order[to] = findings[order[to]], order[to], to
		}
		findings[to], order[to] = first, to
	}
}

// findingRank puts an invalid configuration before the images, and remarks on the
// configuration after them.
func findingRank(s settings.Settings, f policy.Finding) int {
	switch {
	case f.Image.Ref != "":
		return s.Rank(f.Image)
	case f.Rule == policy.RejectedByMCO:
		return -1
	default:
		return 1 << 21
	}
}

// DecideDeletion returns what a deletion brings about: the findings of p, of NewDeletion, by the facts after it that are not
// those by the facts of today. Findings about unread or unjudged parts of the cluster remain.
//
// Each route is compared with itself, as faults of another one say nothing about it. A finding of today on the very
// same route is none of the deletion only if that takes nothing from it: takes reports whether something of an image
// is taken, or may be, from a place. An index that lacks a part today may lose another one.
func DecideDeletion(p plan.DeletionPlan, today, after policy.Facts, takes func(*mirrors.PullSource) bool) []policy.Finding {
	s := &p.Settings
	var findings []policy.Finding
	for reroutes := range p.ByImage() {
		var worst []policy.Finding
		most := -1
		for i := range reroutes {
			r := &reroutes[i]
			then := evidence.Assess(s, r, after)
			found := judgeOne(s, then)
			if len(found) > 0 && !losesToday(r, today, takes) {
				now := evidence.Assess(s, r, today)
				now.Brief = true
				was := judgeOne(s, now)
				found = policy.Only(found, func(f *policy.Finding) bool {
					return !slices.ContainsFunc(was, func(w policy.Finding) bool { return w.Rule == f.Rule && w.Severity >= f.Severity })
				})
			}
			if w := weight(then, found); len(found) > 0 && w > most {
				worst, most = found, w
			}
		}
		for i := range worst {
			worst[i].Reason = inForce.Replace(worst[i].Reason)
		}
		findings = append(findings, worst...)
	}
	for _, r := range deletionRules {
		findings = append(findings, r.find(p.Plan, *s, after)...)
	}
	sort(*s, findings)
	return findings
}

// losesToday reports whether takes holds of a place that nodes may get to today, unless it is proved that they
// get the image from none.
func losesToday(r *evidence.Reroute, today policy.Facts, takes func(*mirrors.PullSource) bool) bool {
	route := r.Weigh(&r.After, today, true)
	if route.Pull(false) == evidence.Fails {
		return false
	}
	ended := -1
	for k, f := range route.Facts {
		at := &r.After.Sources[k]
		if !at.Tried() || at.Candidate == ended {
			continue
		}
		if takes(at) {
			return true
		}
		if f.Presence.EndsPull() {
			ended = at.Candidate
		}
	}
	return false
}

// forReroute returns s with the exemptions that cover what the new route of an image does.
func forReroute(s settings.Settings, r *evidence.Reroute) settings.Settings {
	return s.Without(func(e settings.Exemption) bool {
		return e.Sources != nil && !e.Sources[settings.Ruled{Source: r.After.Entry, Digests: mirrors.ByDigest(r.Image.Ref)}]
	})
}

// worst judges the reroutes of one image and returns the worst result: a denial, or else the
// one that was verified least. In brief, the findings lack Detail and Remedy.
func worst(s *settings.Settings, reroutes []evidence.Reroute, facts policy.Facts, brief bool) (seen *evidence.Case, findings []policy.Finding) {
	for i := range reroutes {
		a := evidence.Assess(s, &reroutes[i], facts)
		a.Brief = brief
		found := judgeOne(s, a)
		if i == 0 || weight(a, found) > weight(seen, findings) {
			seen, findings = a, found
		}
	}
	if pools := seen.Pools; len(pools) > 0 {
		for i := range findings {
			findings[i].Detail = append(slices.Clone(findings[i].Detail), "on the nodes of "+poolsText(pools))
		}
	}
	return seen, findings
}

// weight orders verdicts on an image: by the severest finding, then by the outcome, and then by whether
// anything pulls it.
func weight(a *evidence.Case, findings []policy.Finding) int {
	w := 0
	for _, f := range findings {
		w = max(w, int(f.Severity)*4)
	}
	switch a.OutcomeAfter {
	case evidence.Fails:
		w += 3
	case evidence.Unsure:
		w += 2
	case evidence.WorksBehind:
		w++
	}
	return 2*w + policy.Bit(!policy.OnlyHistory(a.Image))
}

func poolsText(pools []string) string {
	if len(pools) == 1 {
		return evidence.PoolOr(pools[0])
	}
	return "pools " + strings.Join(pools, ", ")
}
