package rules

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// InventoryStale: the inventory has been without news of a part of the cluster for too long,
// so unknown images may be in use. It denies any change that removes a place where such an image might
// be found, or puts a source's first mirror in front of it, as if there were an image that the mirror
// lacks, and where nodes or pools are not known as they are, any that reroutes images. As protected images may be among them, only a setting for those weakens it.
func inventoryStale(p plan.ChangePlan, _ policy.Facts) []policy.Finding {
	p.Gaps = policy.Decisive(p.Gaps)
	if p.Unseen == plan.UnseenUntouched {
		return nil
	}
	return stale(p.Plan, p.Unseen == plan.UnseenKept || p.Unseen == plan.UnseenFallback && p.Settings.AllowSourceFallback)
}

// stale objects to the gaps of p, unless there are none. It only warns where images are kept, if it is known what nodes have.
func stale(p plan.Plan, kept bool) []policy.Finding {
	if len(p.Gaps) == 0 {
		return nil
	}
	f := policy.Finding{
		Severity: policy.Deny,
		Reason:   "the inventory is out of date: the change may reroute images that are not known",
		Detail:   gapLines(p),
		Remedy:   []string{"make sure that the guard reaches the API server (its /readyz says what is missing), then try again"},
	}
	ofNodes, unread := 0, 0
	for _, g := range p.Gaps {
		ofNodes, unread = ofNodes+policy.Bit(g.IsOfNodes()), unread+policy.Bit(g.Unread)
	}
	if ofNodes == len(p.Gaps) {
		f.Reason = "the inventory is out of date: it is not known what nodes have"
	}
	if kept && ofNodes == 0 {
		f.Severity = policy.Warn
	}
	if unread == len(p.Gaps) {
		f.Reason = "not all objects could be read: the change may reroute images that are not known"
		f.Remedy = gapRemedies(p, "repair the documents that could not be read, or remove them from the dump, then try again")
	} else {
		f.Remedy = append(f.Remedy, gapRemedies(p, "")...)
	}
	return []policy.Finding{f}
}

// gapRemedies returns what helps against gaps, each once; other is what helps against those without a remedy of their own.
func gapRemedies(p plan.Plan, other string) []string {
	var remedies []string
	for _, g := range p.Gaps {
		if remedy := cmp.Or(g.Remedy, other); remedy != "" && !slices.Contains(remedies, remedy) {
			remedies = append(remedies, remedy)
		}
	}
	return remedies
}

// gapLines describes each gap, and says how many of the rerouted images are known only from there.
func gapLines(p plan.Plan) []string {
	lines := convert.Each(p.Gaps, func(g policy.Gap) string { return fmt.Sprintf("%s: %s", g.Source, g.Detail) })
	lines = text.First(lines, policy.MaxGaps, "")
	if n := knownFromGaps(p); n > 0 {
		lines = append(lines, fmt.Sprintf("%s of the images it reroutes %s known only from there", text.Number(n), isAre(n)))
	}
	return lines
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// knownFromGaps counts the rerouted images all of whose consumers are of a kind that is
// out of date.
func knownFromGaps(p plan.Plan) int {
	n := 0
	for _, r := range p.Reroutes {
		elsewhere := func(c policy.Consumer) bool {
			return !slices.ContainsFunc(p.Gaps, func(g policy.Gap) bool { return g.Kind == c.Kind })
		}
		if !slices.ContainsFunc(r.Image.Consumers, elsewhere) {
			n++
		}
	}
	return n
}
