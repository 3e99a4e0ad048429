package review

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// assumed returns the images that count as found only because a mirroring would copy them, and on what
// evidence, in order. Where nodes of several pools take several routes, it is that of the first.
func (r Record) assumed() (images []string, evidence map[string]string) {
	if r.Verdict.Counts.Assumed == 0 {
		return nil, nil
	}
	evidence = map[string]string{}
	for i := range r.Plan.Reroutes {
		reroute := &r.Plan.Reroutes[i]
		ref := reroute.Image.Ref
		if _, known := evidence[ref]; known {
			continue
		}
		if why := r.Plan.Assumption(reroute, r.Facts); why != "" {
			images, evidence[ref] = append(images, ref), why
		}
	}
	return images, evidence
}

// maxAssumed is how many assumed images a report for people names.
const maxAssumed = 10

// assumedLines says which images are assumed, a line each; none if none are.
func (r Record) assumedLines() []string {
	images, evidence := r.assumed()
	lines := make([]string, len(images))
	for i, ref := range images {
		lines[i] = fmt.Sprintf("%s: %s", text.Line(ref), text.Line(evidence[ref]))
	}
	return text.First(lines, maxAssumed, "image")
}
