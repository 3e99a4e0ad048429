package policy

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Decide judges p by the facts. It is a function of its arguments only.
func (p ChangePlan) Decide(facts Facts) Verdict { return p.DecideInBrief(facts, len(p.Reroutes)) }

// DecideInBrief is Decide for callers that report the first n findings only: if more images than that
// are rerouted, only these findings have Detail and Remedy. For 100,000 images they take 40 MiB.
func (p ChangePlan) DecideInBrief(facts Facts, n int) Verdict {
	j, brief := p.judge(facts, n)
	for _, r := range changeRules {
		j.Findings = append(j.Findings, r.find(p, p.settings, facts)...)
	}
	onlyPins := p.change.onlyPins()
	v := Verdict{
		Judgement: j,
		Brings:    len(p.Added) > 0 || p.ListsChanged || p.addsPolicies() || onlyPins,
		Deletes:   p.change.onlyDeletes(),
		Unjudged:  p.unjudged, OnlySignatures: p.onlySignatures(), RequiresNone: p.requiresNone(), OnlyPins: onlyPins,
	}
	v.conclude(p.settings)
	if brief {
		p.settings.detail(v.Findings[:min(n, len(v.Findings))], p.byImage(), facts)
	}
	return v
}

// Judge judges the images of p, by routes in force, and says nothing of the configuration as a whole.
func (p Plan) Judge(facts Facts) Judgement {
	j := p.judgeInForce(facts)
	p.settings.sort(j.Findings)
	return j
}

// judgeInForce is judge for routes that do not change.
func (p Plan) judgeInForce(facts Facts) Judgement {
	j, _ := p.judge(facts, len(p.Reroutes))
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

// judge judges the images of p. The findings are not sorted yet. If there are more than n images, it is brief: findings have no
// Detail, Remedy and Copy.
func (p Plan) judge(facts Facts, n int) (j Judgement, brief bool) {
	s := &p.settings
	j = Judgement{Counts: Counts{Total: p.Total, Malformed: len(p.Malformed)}, Partial: len(p.Gaps) > 0 || p.site.isUnknown()}
	images := 0
	for range p.byImage() {
		images++
	}
	brief = images > n
	reasons := map[string]string{} // of 100,000 images it is mostly the same
	for reroutes := range p.byImage() {
		seen, findings := s.worst(reroutes, facts, brief)
		j.Counts.Rerouted++
		j.Results = append(j.Results, j.Counts.add(seen, findings))
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
			j.Findings = make([]Finding, 0, images+roomForPlan) // more room is made by copying what there is
		}
		j.Findings = append(doubled(j.Findings, len(findings)), findings...)
	}
	j.Counts.Tags, j.Counts.Builds = countAtOnce(p.Reroutes)
	return j, brief
}

// roomForPlan is room for the findings about the change as a whole.
const roomForPlan = 16

// inForce rewords findings about a new route for a route that does not change.
var inForce = strings.NewReplacer("its new route", "its route", "the new route", "its route")

// detail gives findings the Detail and Remedy that they have when images are judged again.
func (s *Settings) detail(findings []Finding, images iter.Seq[[]Reroute], facts Facts) {
	of := map[string][]*Finding{}
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
		_, whole := s.worst(reroutes, facts, false)
		for _, f := range brief {
			if i := slices.IndexFunc(whole, func(w Finding) bool { return w.Rule == f.Rule }); i >= 0 {
				f.Detail, f.Remedy, f.Copy = whole[i].Detail, whole[i].Remedy, whole[i].Copy
			}
		}
	}
}

// WithForecast returns v with what the forecast's rules find.
func (p ChangePlan) WithForecast(v Verdict, f *Forecast) Verdict {
	if f == nil {
		return v
	}
	v.Counts.Moved, v.Counts.MovedLost, v.Counts.MovedOpen, v.Counts.MovedAssumed = f.Moved.All, f.Moved.Lost, f.Moved.Open, f.Moved.Assumed
	if len(f.Findings) == 0 {
		return v
	}
	v.Findings = slices.Concat(v.Findings, f.Findings)
	v.conclude(p.settings)
	return v
}

// conclude sorts the findings, and sets what follows from them.
func (v *Verdict) conclude(s Settings) {
	s.sort(v.Findings)
	v.Mode = s.Mode
	v.Allowed = s.Mode != ModeEnforce || !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Severity == Deny })
	v.BlockedBy = s.blockedBy(v.Findings)
}

func (s *Settings) judge(a *assessment) []Finding {
	var findings []Finding
	for _, r := range rules {
		if !r.isFor(a.Reroute) {
			continue
		}
		f, ok := r.check(a)
		if !ok {
			continue
		}
		f.Rule, f.Image = r.id, s.sortConsumers(a.Image)
		if r.loss && a.isPin() {
			f = a.asPin(f)
		}
		if f.Copy != nil {
			f.Copy.Rule, f.Copy.Reason = f.Rule, f.Reason
			f.Remedy = append(f.Copy.Commands(), f.Remedy...)
		}
		f = s.forReroute(a.Reroute).settle(f, false)
		if f.Severity == Deny && len(a.rarely().current) > 0 {
			g, _ := r.check(a.byObjects())
			g.Rule, g.Image = f.Rule, f.Image
			if s.forReroute(a.Reroute).settle(g, false).Severity != Deny {
				a.tellCurrent(&f)
			}
		}
		if f.Severity == Deny && isOwn(a.Image) {
			f.Detail = append(slices.Clone(f.Detail), "this is the guard itself: unless it can start, no mirror set can be created or changed")
		}
		findings = append(findings, f)
		if f.Severity == Deny {
			break
		}
	}
	return findings
}

// isOwn reports whether the guard runs img.
func isOwn(img Image) bool {
	return slices.ContainsFunc(img.Consumers, func(c Consumer) bool { return c.Namespace == OwnNamespace && c.Use != History })
}

// leavesOpen reports whether an image that a place has is not verified on account of f: it is
// refused, some nodes may not get it, or they may get another.
func (f Finding) leavesOpen() bool {
	return f.Severity == Deny || f.Rule == PlatformMissing || f.Rule == SignatureUnreadable || f.Rule == AnotherImage
}

// add counts an image, and returns its Result.
func (c *Counts) add(a *assessment, findings []Finding) Result {
	switch {
	case a.after == Works && !slices.ContainsFunc(findings, Finding.leavesOpen):
		if a.assumption() != "" {
			c.Assumed++
			return ResultAssumed
		}
		if a.site.runOnWindows(a.Image.Consumers) {
			c.Unverified++
			return ResultUnverified
		}
		c.Verified++ // for the nodes of every platform
		if at, ok := a.newRoute.served(); ok && at.Depth >= mirrors.DepthBlobs {
			c.Layers++
		}
		return ResultVerified
	case a.after == Unsure || a.after == WorksBehind:
		c.Unverified++
		if a.pending() {
			c.Pending++
		}
		return ResultUnverified
	case a.after == Fails && a.failsToday().holds:
		return ResultFailsAlready
	default:
		return ResultFails
	}
}

// sort puts denials first, and protected images before others. It does so in place: there may be
// 100,000 findings.
func (s Settings) sort(findings []Finding) {
	ranks, order := make([]int, len(findings)), make([]int, len(findings))
	for i, f := range findings {
		ranks[i], order[i] = s.findingRank(f), i
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
func (s Settings) findingRank(f Finding) int {
	switch {
	case f.Image.Ref != "":
		return s.Rank(f.Image)
	case f.Rule == RejectedByMCO:
		return -1
	default:
		return 1 << 21
	}
}
