package standing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// Author returns the author of Events about the standing verification, in the name of instance.
func Author(instance string) events.Author {
	return events.Author{Part: "standing-verification", Instance: instance, Action: "Verifying"}
}

// The reasons of reports: those of the Events on mirror sets.
const (
	MirrorLostImage = "MirrorLostImage"
	MirrorRecovered = "MirrorRecovered"
)

const (
	// maxNamed is how many images a note names.
	maxNamed = 3
	// maxConsumers is how many consumers of the first image a note names.
	maxConsumers = 2
)

// report returns the report of c. A loss begins with a remark, if there is one.
func (c change) report(remark string) watchloop.Report {
	r := watchloop.Report{Object: c.account.object, Images: len(c.entries)}
	if !c.lost {
		r.Reason, r.Message, r.Note = MirrorRecovered, "Mirror recovered", c.recoveryNote()
		return r
	}
	r.Reason, r.Message, r.Note, r.Warning = MirrorLostImage, "Mirror lost images", c.lossNote(), true
	if remark != "" {
		r.Note = remark + ": " + r.Note
	}
	return r
}

// lossNote says how many images are lost, by which rule, and of the first what was
// looked at, in the words of a review.
func (c change) lossNote() string {
	first := c.entries[0]
	note := c.byRule() + ": " + first.Image.Ref
	if consumers := first.Finding.Image.ConsumerNames(maxConsumers); consumers != "" {
		note += ", used by " + consumers
	}
	note += ": " + cmp.Or(strings.Join(first.Finding.Detail, "; "), first.Finding.Reason)
	if others := c.others(); others != "" {
		note += ". Also " + others
	}
	return note
}

// byRule counts the entries: "14 images cannot be pulled from their mirrors
// (ImageMissing 12, PlatformMissing 2)".
func (c change) byRule() string {
	counts := map[string]int{}
	for _, e := range c.entries {
		counts[e.Finding.Rule]++
	}
	rules := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	if len(c.entries) == 1 {
		return "1 image cannot be pulled from its mirrors (" + rules[0] + ")"
	}
	for i, rule := range rules {
		rules[i] = fmt.Sprintf("%s %d", rule, counts[rule])
	}
	return fmt.Sprintf("%d images cannot be pulled from their mirrors (%s)", len(c.entries), strings.Join(rules, ", "))
}

// recoveryNote says how many images are known to be at a mirror again, and of the first
// where.
func (c change) recoveryNote() string {
	note := "1 image is back at its mirror: "
	if n := len(c.entries); n > 1 {
		note = fmt.Sprintf("%d images are back at their mirrors: ", n)
	}
	note += c.entries[0].Image.Ref + " at " + c.entries[0].At.Ref
	if others := c.others(); others != "" {
		note += ". Also " + others
	}
	return note
}

// others names the images after the first, and counts those that are too many.
func (c change) others() string {
	names := make([]string, len(c.entries)-1)
	for i, e := range c.entries[1:] {
		names[i] = e.Image.Ref
	}
	return text.Names(names, maxNamed-1)
}
