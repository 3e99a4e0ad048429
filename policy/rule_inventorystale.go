package policy

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// InventoryStale: the inventory has not heard of a part of the cluster for too long, so
// that images may be in use that are not known. That denies whatever moves a place where
// such an image might be found, or puts a first mirror in front of it, as if there were one
// that the mirror lacks. It speaks of protected images as well as of others, and is weakened
// as for these.
func inventoryStale(p Plan, _ Facts) []Finding {
	if len(p.Gaps) == 0 || p.Unseen == UnseenUntouched {
		return nil
	}
	f := Finding{
		Severity: Deny,
		Reason:   "the inventory is out of date: the change may reroute images that are not known",
		Detail:   p.gapLines(),
		Remedy:   []string{"make sure that the guard reaches the API server (its /readyz says what is missing), then try again"},
	}
	if p.Unseen == UnseenKept || p.Unseen == UnseenFallback && p.settings.AllowSourceFallback {
		f.Severity = Warn
	}
	if !slices.ContainsFunc(p.Gaps, func(g Gap) bool { return !g.Unread }) {
		f.Reason = "not all objects could be read: the change may reroute images that are not known"
		f.Remedy = []string{"repair the documents that could not be read, or remove them from the dump, then try again"}
	}
	return []Finding{f}
}

// gapLines says of each gap what is the matter, and how much of the change hangs
// on it.
func (p Plan) gapLines() []string {
	var lines []string
	for _, g := range p.Gaps {
		lines = append(lines, fmt.Sprintf("%s: %s", g.Source, g.Detail))
	}
	lines = text.First(lines, maxGaps, "")
	if n := p.knownFromGaps(); n > 0 {
		lines = append(lines, fmt.Sprintf("%s of the images it reroutes %s known only from there", text.Number(n), isAre(n)))
	}
	return lines
}

// maxGaps is how many gaps are named: mostly the API server is away, and all have
// the same reason.
const maxGaps = 3

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
