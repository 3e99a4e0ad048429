package audit

import (
	"cmp"
	"encoding/base64"
	"iter"
	"maps"
	"slices"
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// The bounds of a record. With them, a line has some 600 KB at most, and 2 to 20 KB as a rule.
const (
	// MaxName is the longest that a name in Kubernetes can be (a DNS subdomain).
	MaxName     = 253
	maxGroups   = 64
	maxFindings = 20
	maxPlaces   = 8
	maxNotes    = 16
	// maxText is for what may be a list of thousands of images: a denial.
	maxText = 1000
	// maxLine is for one line of it.
	maxLine = 300
	// maxFactBytes bounds all facts together, as those about indexes may hold 10 KB each.
	maxFactBytes = 256 << 10
)

// Text returns s as records have texts: a line of bounded length, without credentials.
func Text(s string) string { return text.Cut(text.WithoutCredentials(text.Line(s)), maxText) }

func line(s string) string { return text.Cut(text.WithoutCredentials(text.Line(s)), maxLine) }

// UserOf returns who makes a request. Names are cut and not altered otherwise: a line of JSON
// escapes what does not print.
func UserOf(r policy.Requester) auditv1alpha1.User {
	u := auditv1alpha1.User{Name: text.Cut(r.User, MaxName)}
	u.Groups = each.Of(r.Groups[:min(len(r.Groups), maxGroups)], func(group string) string { return text.Cut(group, MaxName) })
	u.GroupsOmitted = len(r.Groups) - len(u.Groups)
	return u
}

// Rest sets what d rests on, with at most so many facts. d.Time has to be set.
func Rest(d *auditv1alpha1.Decision, r review.Record, facts int) {
	v := r.Verdict
	d.Rules = countRules(v.Findings)
	d.Findings = each.Of(v.Findings[:min(len(v.Findings), maxFindings)], findingOf)
	d.FindingsOmitted = len(v.Findings) - len(d.Findings)
	d.Exemptions = v.Exemptions()
	d.Images = imagesOf(v.Counts)
	if r.Forecast != nil {
		d.Forecast = Text(r.Forecast.String())
	}
	d.Notes = each.Of(r.Notes[:min(len(r.Notes), maxNotes)], line)
	addFacts(d, r, facts)
}

// imagesOf leaves out what is assumed: the webhook, whose decisions are recorded, assumes nothing.
func imagesOf(c policy.Counts) *auditv1alpha1.Images {
	return &auditv1alpha1.Images{
		Total: c.Total, Rerouted: c.Rerouted, Verified: c.Verified, Layers: c.Layers, Unverified: c.Unverified, Pending: c.Pending,
		Malformed: c.Malformed, Moved: c.Moved, MovedLost: c.MovedLost, MovedOpen: c.MovedOpen,
	}
}

// countRules counts findings in the order in which they come first.
func countRules(findings []policy.Finding) []auditv1alpha1.RuleCount {
	var counts []auditv1alpha1.RuleCount
	for _, f := range findings {
		i := slices.IndexFunc(counts, func(c auditv1alpha1.RuleCount) bool { return c.Rule == f.Rule && c.Severity == f.Severity.String() })
		if i < 0 {
			i, counts = len(counts), append(counts, auditv1alpha1.RuleCount{Rule: f.Rule, Severity: f.Severity.String()})
		}
		counts[i].Count++
	}
	return counts
}

func findingOf(f policy.Finding) auditv1alpha1.Finding {
	out := auditv1alpha1.Finding{Rule: f.Rule, Severity: f.Severity.String(), Image: line(f.Image.Ref), Reason: line(f.Reason), Exempted: f.Exemptions}
	out.Places = each.Of(f.Detail[:min(len(f.Detail), maxPlaces)], line)
	out.PlacesOmitted = len(f.Detail) - len(out.Places)
	return out
}

// addFacts adds the most important facts.
func addFacts(d *auditv1alpha1.Decision, r review.Record, most int) {
	left := maxFactBytes
	seen := map[mirrors.Location]bool{}
	for l := range byImportance(r) {
		if len(d.Facts) == most {
			break
		}
		fact, known := r.Facts[l]
		if !known || seen[l] {
			continue
		}
		seen[l] = true
		if f := factOf(l, fact, d.Time); size(f) <= left {
			d.Facts, left = append(d.Facts, f), left-size(f)
		}
	}
	d.FactsOmitted = len(r.Facts) - len(d.Facts)
}

// byImportance returns the places that were looked up: those of images with findings, in their
// order, then the others in the order in which they were looked up, and then those that were
// looked up for the forecast. It may name a place twice, and such as were not looked up.
func byImportance(r review.Record) iter.Seq[mirrors.Location] {
	return func(yield func(mirrors.Location) bool) {
		for _, places := range []iter.Seq[mirrors.Location]{decisive(r), slices.Values(r.Asked), sortedLocations(r.Facts)} {
			for l := range places {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// decisive returns the places on the routes of images with findings. A place may be looked up
// at several depths.
func decisive(r review.Record) iter.Seq[mirrors.Location] {
	return func(yield func(mirrors.Location) bool) {
		routes := routesByImage(r)
		for _, f := range r.Verdict.Findings {
			for _, route := range routes[f.Image.Ref] {
				for i := range route.Sources {
					for l := range decisiveAt(&route.Sources[i], r.Facts) {
						if !yield(l) {
							return
						}
					}
				}
			}
		}
	}
}

// decisiveAt returns what may have been looked up at one place.
func decisiveAt(source *mirrors.PullSource, facts policy.Facts) iter.Seq[mirrors.Location] {
	return func(yield func(mirrors.Location) bool) {
		for _, l := range atEveryDepth(source.Location) {
			if !yield(l) {
				return
			}
			instances, _ := facts.At(l).Runs()
			for _, instance := range instances {
				if at, ok := source.Signatures(instance.Digest); ok && source.WantsSignatures() && !yield(at) {
					return
				}
			}
		}
	}
}

func routesByImage(r review.Record) map[string][]*mirrors.Route {
	routes := make(map[string][]*mirrors.Route, len(r.Plan.Reroutes))
	for i := range r.Plan.Reroutes {
		reroute := &r.Plan.Reroutes[i]
		routes[reroute.Image.Ref] = append(routes[reroute.Image.Ref], &reroute.After, &reroute.Before)
	}
	return routes
}

// atEveryDepth returns l with each depth, its own first.
func atEveryDepth(l mirrors.Location) []mirrors.Location {
	all := []mirrors.Location{l}
	for depth := mirrors.DepthBlobs + 1; depth > 0; depth-- {
		if other := l; depth-1 != l.Depth {
			other.Depth = depth - 1
			all = append(all, other)
		}
	}
	return all
}

func sortedLocations(facts policy.Facts) iter.Seq[mirrors.Location] {
	return func(yield func(mirrors.Location) bool) {
		all := slices.SortedFunc(maps.Keys(facts), func(a, b mirrors.Location) int {
			return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Depth, b.Depth), cmp.Compare(number(a.Insecure), number(b.Insecure)), cmp.Compare(number(a.ProposedTrust), number(b.ProposedTrust)))
		})
		slices.Values(all)(yield)
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func factOf(l mirrors.Location, f *policy.Fact, now time.Time) auditv1alpha1.Fact {
	out := auditv1alpha1.Fact{
		Location: l.Ref, Insecure: l.Insecure, Depth: l.Depth.String(), ProposedTrust: l.ProposedTrust,
		Presence: f.Presence.String(), Detail: line(f.Detail), Digest: f.Digest, MediaType: f.MediaType,
		Platforms: f.Platforms, Missing: f.Missing, Serves: f.Serves, Lacks: f.Lacks, Guessed: f.Guessed, Children: f.Children, Recalled: f.Recalled, AsNodes: f.AsNodes,
	}
	out.Instances = each.Of(f.Instances, func(i policy.Instance) auditv1alpha1.Instance { return auditv1alpha1.Instance(i) })
	if f.Signatures != nil {
		out.Signatures = each.Of(f.Signatures.All, func(s signing.Signature) auditv1alpha1.Signature { return auditv1alpha1.Signature(s) })
	}
	if !f.Time.IsZero() {
		age := now.Sub(f.Time).Round(time.Millisecond).Seconds()
		out.Age = &age
	}
	return out
}

// size is about how many bytes f has in a line.
func size(f auditv1alpha1.Fact) int {
	const frame = 120 // the names of the fields that are always there
	n := frame + len(f.Location) + len(f.Detail) + len(f.Digest) + len(f.MediaType)
	for _, list := range [][]string{f.Platforms, f.Missing, f.Serves, f.Lacks, f.Children} {
		for _, s := range list {
			n += len(s) + len(`"",`)
		}
	}
	for _, i := range f.Instances {
		n += len(i.Platform) + len(i.Digest) + len(`{"platform":"","digest":""},`)
	}
	for _, s := range f.Signatures {
		n += len(s.MediaType) + base64.StdEncoding.EncodedLen(len(s.Payload)) + len(`{"mediaType":"","payload":"","annotations":{}},`)
		for key, value := range s.Annotations {
			n += len(key) + len(value) + len(`"":"",`)
		}
	}
	return n
}
