package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// InventoryStale: the inventory has been without news of a part of the cluster for too long,
// so unknown images may be in use. It denies any change that removes a place where such an image might
// be found, or puts a source's first mirror in front of it, as if there were an image that the mirror
// lacks. As protected images may be among them, only a setting for those weakens it.
func inventoryStale(p ChangePlan, _ Facts) []Finding {
	p.Gaps = decisive(p.Gaps)
	if p.Unseen == UnseenUntouched {
		return nil
	}
	return p.stale(p.Unseen == UnseenKept || p.Unseen == UnseenFallback && p.settings.AllowSourceFallback)
}

// stale objects to the gaps of p, unless there are none. It only warns where images are kept, if it is known what nodes have.
func (p Plan) stale(kept bool) []Finding {
	if len(p.Gaps) == 0 {
		return nil
	}
	f := Finding{
		Severity: Deny,
		Reason:   "the inventory is out of date: the change may reroute images that are not known",
		Detail:   p.gapLines(),
		Remedy:   []string{"make sure that the guard reaches the API server (its /readyz says what is missing), then try again"},
	}
	blind := slices.ContainsFunc(p.Gaps, func(g Gap) bool { return g.Unread && g.IsOfNodes() })
	if kept && !blind {
		f.Severity = Warn
	}
	if !slices.ContainsFunc(p.Gaps, func(g Gap) bool { return !g.Unread }) {
		f.Reason = "not all objects could be read: the change may reroute images that are not known"
		f.Remedy = p.gapRemedies("repair the documents that could not be read, or remove them from the dump, then try again")
	} else {
		f.Remedy = append(f.Remedy, p.gapRemedies("")...)
	}
	return []Finding{f}
}

// gapRemedies returns what helps against gaps, each once; other is what helps against those without a remedy of their own.
func (p Plan) gapRemedies(other string) []string {
	var remedies []string
	for _, g := range p.Gaps {
		if remedy := cmp.Or(g.Remedy, other); remedy != "" && !slices.Contains(remedies, remedy) {
			remedies = append(remedies, remedy)
		}
	}
	return remedies
}

// gapLines describes each gap, and says how many of the rerouted images are known only from there.
func (p Plan) gapLines() []string {
	lines := convert.Each(p.Gaps, func(g Gap) string { return fmt.Sprintf("%s: %s", g.Source, g.Detail) })
	lines = text.First(lines, maxGaps, "")
	if n := p.knownFromGaps(); n > 0 {
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
func (p Plan) knownFromGaps() int {
	n := 0
	for _, r := range p.Reroutes {
		elsewhere := func(c Consumer) bool {
			return !slices.ContainsFunc(p.Gaps, func(g Gap) bool { return g.Kind == c.Kind })
		}
		if !slices.ContainsFunc(r.Image.Consumers, elsewhere) {
			n++
		}
	}
	return n
}
