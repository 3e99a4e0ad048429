package review

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
)

// assumed returns the images that count as found only because a mirroring would copy them, and on what
// evidence, in order. Where nodes of several pools take several routes, it is that of the first.
func (j Judged) assumed() (images []string, why map[string]string) {
	if j.Judgement.Counts.Assumed == 0 {
		return nil, nil
	}
	why = map[string]string{}
	for i := range j.Plan.Reroutes {
		reroute := &j.Plan.Reroutes[i]
		ref := reroute.Image.Ref
		if _, known := why[ref]; known {
			continue
		}
		if rests := evidence.Assess(&j.Plan.Settings, reroute, j.Facts).Assumption(); rests != "" {
			images, why[ref] = append(images, ref), rests
		}
	}
	return images, why
}

// maxAssumed is how many assumed images a report for people names.
const maxAssumed = 10

// assumedLines says which images are assumed, a line each; none if none are.
func (j Judged) assumedLines() []string {
	images, evidence := j.assumed()
	lines := make([]string, len(images))
	for i, ref := range images {
		lines[i] = fmt.Sprintf("%s: %s", ref, evidence[ref])
	}
	return text.First(lines, maxAssumed, "image")
}

// addBasis says what an answer rests on.
func (j Judged) addBasis(a *answer.Answer) {
	a.Add(answer.List{ID: "assumed", Title: "Assumed, not found:", Items: answer.Bullets(j.assumedLines()), Folded: true})
	if looked := j.Judgement.Counts.Looked(); looked != "" {
		a.Basis = append(a.Basis, looked)
	}
	a.Basis = append(a.Basis, AskedFromHere)
}
