package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A rule objects to one impact, or does not.
type rule struct {
	id    string
	check func(*view) (Finding, bool)
}

// rules are tried in this order for each image. The first that denies has the
// clearest reason, and ends the search; a warning does not.
var rules = []rule{
	{"RewriteError", rewriteError},
	{"NoRoute", noRoute},
	{"MirrorHidden", mirrorHidden},
	{"NotFullySynced", notFullySynced},
	{"ContentMismatch", contentMismatch},
	{"BlobsMissing", blobsMissing},
	{"ImageMissing", imageMissing},
	{"CredentialsMissing", credentialsMissing},
	{"Unverified", unverified},
	{"PlatformMissing", platformMissing},
	{"BlockLifted", blockLifted},
	{"TagDrift", tagDrift},
}

// A planRule objects to the change as a whole: each of its findings speaks of the
// configuration, not of an image.
type planRule struct {
	id    string
	check func(Plan, Facts) []Finding
}

// planRules are tried in this order, after the rules for images.
var planRules = []planRule{
	{"NoEffect", noEffect},
	{"BroadSource", broadSource},
	{"MirrorInCluster", mirrorInCluster},
}

// A view is what a rule sees of one impact.
type view struct {
	Impact
	facts    Facts // weighed
	found    Facts // as they were found
	settings Settings
	// before and after are what comes of a pull on either route.
	before, after Outcome
	// mirrors is what comes of a pull from the mirrors of the new route alone.
	mirrors Outcome

	// The places that are not blocked, of the new route and of the old.
	open, mirrorPlaces, beforeOpen, beforeMirrors []mirrors.Location
}

func (s Settings) view(i Impact, facts Facts) *view {
	found := facts
	facts = i.weigh(found)
	v := &view{
		Impact: i, facts: facts, found: found, settings: s,
		open: i.After.Open(), mirrorPlaces: i.After.Mirrors(),
		beforeOpen: i.Before.Open(), beforeMirrors: i.Before.Mirrors(),
	}
	v.before = Pull(i.Image.Ref, i.Before, facts)
	v.after = Pull(i.Image.Ref, i.After, facts)
	v.mirrors = walk(i.Image.Ref, i.After.Sources, facts, true)
	return v
}

// unlessBroken is the severity of what would be the end of a pull: no denial if
// the pull fails today as well.
func (v *view) unlessBroken() Severity {
	if v.before == Fails {
		return Warn
	}
	return Deny
}

// Decide judges p by the facts. It is a function of its arguments only.
func (p Plan) Decide(facts Facts, s Settings) Verdict {
	v := Verdict{
		Findings: slices.Concat(p.rejectedByMCO(), p.malformedReferences(), s.outOfDate(p)),
		Counts:   Counts{Total: p.Total, Rerouted: len(p.Impacts), Malformed: len(p.Malformed)},
		Brings:   len(p.Added) > 0 || p.ListsChanged,
	}
	for _, impact := range p.Impacts {
		seen := s.view(impact, facts)
		v.Counts.add(seen)
		v.Findings = append(v.Findings, s.judge(seen)...)
	}
	for _, r := range planRules {
		for _, f := range r.check(p, facts) {
			f.Rule = r.id
			f.Severity = s.severity(f)
			v.Findings = append(v.Findings, f)
		}
	}
	v.Findings = s.sorted(v.Findings)
	v.Allowed = !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Severity == Deny })
	return v
}

func (s Settings) judge(v *view) []Finding {
	var findings []Finding
	for _, r := range rules {
		f, ok := r.check(v)
		if !ok {
			continue
		}
		f.Rule, f.Image = r.id, s.sortUsers(v.Image)
		f.Severity = s.severity(f)
		findings = append(findings, f)
		if f.Severity == Deny {
			break
		}
	}
	return findings
}

// severity applies the settings to what a rule says.
func (s Settings) severity(f Finding) Severity {
	severity := f.Severity
	if onlyHistory(f.Image) {
		severity = min(severity, Warn)
	}
	protected := s.IsProtected(f.Image)
	if set, ok := s.Severities[f.Rule+"@protected"]; ok && protected {
		return set
	}
	if set, ok := s.Severities[f.Rule]; ok && (!protected || set >= severity) {
		return set
	}
	return severity
}

// onlyHistory reports whether nothing but a way back names img.
func onlyHistory(img Image) bool {
	return len(img.Users) > 0 && !slices.ContainsFunc(img.Users, func(u User) bool { return u.Use != History })
}

func (c *Counts) add(v *view) {
	switch v.after {
	case Works:
		c.Verified++
	case Unsure:
		c.Unverified++
		if v.pending() {
			c.Pending++
		}
	}
}

// pending reports whether an answer about the new route was still awaited.
func (v *view) pending() bool {
	return slices.ContainsFunc(v.open, func(l mirrors.Location) bool { return v.facts[l].Presence == Unknown })
}

// sorted puts denials first, and protected images before others.
func (s Settings) sorted(findings []Finding) []Finding {
	type ranked struct {
		Finding
		rank int
	}
	all := make([]ranked, len(findings))
	for i, f := range findings {
		all[i] = ranked{f, s.findingRank(f)}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(
			cmp.Compare(b.Severity, a.Severity),
			cmp.Compare(a.rank, b.rank),
			strings.Compare(a.Rule, b.Rule),
			strings.Compare(a.Image.Ref, b.Image.Ref),
		)
	})
	for i, r := range all {
		findings[i] = r.Finding
	}
	return findings
}

// findingRank puts what is wrong with the whole before its images, and remarks on
// the whole after them.
func (s Settings) findingRank(f Finding) int {
	switch {
	case f.Image.Ref != "":
		return s.Rank(f.Image)
	case f.Rule == "RejectedByMCO":
		return -1
	default:
		return 1 << 21
	}
}

// sortUsers returns img with the users that matter most in front: protected
// namespaces, then what runs, then what a person deploys before what it makes.
func (s Settings) sortUsers(img Image) Image {
	img.Users = slices.Clone(img.Users)
	slices.SortStableFunc(img.Users, func(a, b User) int {
		return cmp.Or(
			cmp.Compare(s.namespaceRank(a.Namespace), s.namespaceRank(b.Namespace)),
			cmp.Compare(kindRank(a.Kind), kindRank(b.Kind)),
			cmp.Compare(useRank(a.Use), useRank(b.Use)),
			strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name),
			strings.Compare(a.Container, b.Container),
		)
	})
	return img
}

// kindRank puts what a person writes before what a controller makes of it.
func kindRank(kind string) int {
	switch kind {
	case "ReplicaSet", "ReplicationController", "Job":
		return 1
	case "Pod":
		return 2
	default:
		return 0
	}
}

// RuleIDs returns the ids of all rules whose severity can be set, in order.
func RuleIDs() []string {
	var ids []string
	for _, r := range rules {
		ids = append(ids, r.id)
	}
	for _, r := range planRules {
		ids = append(ids, r.id)
	}
	return ids
}

// IsRule reports whether id is that of a rule.
func IsRule(id string) bool { return slices.Contains(RuleIDs(), id) }
