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
	{"UnverifiedInFront", unverifiedInFront},
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
	Reroute
	facts       Facts // what they prove of the new route
	beforeFacts Facts // what they prove of the old route
	found       Facts // as they were found
	settings    Settings
	// before and after are what comes of a pull on either route, mirrorsBefore and mirrors
	// of one from the mirrors on it alone. That the old route Fails is proved.
	before, after          Outcome
	mirrorsBefore, mirrors Outcome

	// The places that are not blocked, of the new route and of the old.
	open, mirrorPlaces, beforeOpen, beforeMirrors []mirrors.Location
}

func (s Settings) view(i Reroute, facts Facts) *view {
	v := &view{
		Reroute: i, facts: i.weigh(facts, false), beforeFacts: i.weigh(facts, true), found: facts, settings: s,
		open: i.After.Open(), mirrorPlaces: i.After.Mirrors(),
		beforeOpen: i.Before.Open(), beforeMirrors: i.Before.Mirrors(),
	}
	v.after, v.mirrors = Pull(i.After, v.facts), walk(i.After.Sources, v.facts, true)
	v.before, v.mirrorsBefore = Pull(i.Before, v.beforeFacts), walk(i.Before.Sources, v.beforeFacts, true)
	if i.BeforeUnknown {
		v.before, v.mirrorsBefore = Unsure, Unsure
	}
	return v
}

// unlessBroken is the severity of what would be the end of a pull: no denial if
// it is proved that the pull fails today as well, or works afterwards if it does today.
func (v *view) unlessBroken() Severity {
	if v.before == Fails || v.noWorse() {
		return Warn
	}
	return Deny
}

// Decide judges p by the facts. It is a function of its arguments only.
func (p Plan) Decide(facts Facts) Verdict {
	s := p.settings
	v := Verdict{
		Findings: slices.Concat(p.withUnknownBefore(p.rejectedByMCO()), p.unknownCAs(), p.malformedReferences(), s.outOfDate(p)),
		Counts:   Counts{Total: p.Total, Malformed: len(p.Malformed)},
		Brings:   len(p.Added) > 0 || p.ListsChanged,
	}
	for _, impacts := range p.byImage() {
		seen, findings := s.worst(impacts, facts)
		v.Counts.Rerouted++
		v.Counts.add(seen, findings)
		v.Findings = append(v.Findings, findings...)
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
	v.HeldUpBy = s.heldUpBy(v.Findings)
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
	protected := s.IsProtected(f.Image) || f.Rule == InventoryStale
	set, ok := s.Severities[f.Rule+"@protected"]
	if ok = ok && protected; !ok {
		set, ok = s.Severities[f.Rule]
		ok = ok && (!protected || set >= severity)
	}
	if ok {
		severity = set
	}
	return min(severity, s.most(f.Image))
}

// most returns the most that a finding on img may be. Each user is looked at alone: that
// there is another one which holds up nothing makes no difference.
func (s Settings) most(img Image) Severity {
	switch {
	case len(img.Consumers) == 0:
		return Deny
	case s.merelyGuessed(img) && s.Guesses == GuessesIgnore:
		return Info // history beside makes no difference
	}
	most := Info
	for _, u := range img.Consumers {
		most = max(most, s.mostFor(u))
	}
	return most
}

func (s Settings) mostFor(u Consumer) Severity {
	switch {
	case u.Use == History:
		return Warn
	case s.namespaceRank(u.Namespace) < len(s.protected()):
		return Deny
	case u.Guessed && s.Guesses != GuessesDeny:
		return s.Guesses.most()
	case s.mayHoldUp(u.Namespace):
		return Deny
	default:
		return Warn
	}
}

func (s Settings) mayHoldUp(namespace string) bool {
	for _, n := range s.Namespaces {
		if namespace != "" && matches(n.Pattern, namespace) {
			return n.Severity == Deny
		}
	}
	return true
}

// heldUpBy returns the namespaces whose users are all that makes findings denials, sorted;
// none where a protected namespace, the cluster itself or the configuration as a whole is
// among the reasons. A setting would let these changes pass.
func (s Settings) heldUpBy(findings []Finding) []string {
	namespaces := map[string]bool{}
	for _, f := range findings {
		if f.Severity != Deny {
			continue
		}
		if f.Image.Ref == "" || s.IsProtected(f.Image) {
			return nil
		}
		for _, u := range f.Image.Consumers {
			switch {
			case s.mostFor(u) < Deny:
			case u.Namespace == "":
				return nil
			default:
				namespaces[u.Namespace] = true
			}
		}
	}
	return sortedKeys(namespaces)
}

// onlyHistory reports whether nothing but a way back names img.
func onlyHistory(img Image) bool {
	return len(img.Consumers) > 0 && !slices.ContainsFunc(img.Consumers, func(u Consumer) bool { return u.Use != History })
}

func (c *Counts) add(v *view, findings []Finding) {
	switch v.after {
	case Works:
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Rule == "PlatformMissing" }) {
			c.Verified++ // for the nodes of every platform
		}
	case Unsure, WorksBehind:
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
	img.Consumers = slices.Clone(img.Consumers)
	slices.SortStableFunc(img.Consumers, func(a, b Consumer) int {
		return cmp.Or(
			cmp.Compare(s.namespaceRank(a.Namespace), s.namespaceRank(b.Namespace)),
			cmp.Compare(kindRank(a.Kind), kindRank(b.Kind)),
			cmp.Compare(useRank(a), useRank(b)),
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
	return append(ids, InventoryStale)
}

// IsRule reports whether id is that of a rule.
func IsRule(id string) bool { return slices.Contains(RuleIDs(), id) }
