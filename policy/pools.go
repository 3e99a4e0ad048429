package policy

import (
	"iter"
	"slices"
	"strings"
)

// byImage groups the reroutes by image. An image has several where the nodes of some pools
// take another route.
func (p Plan) byImage() iter.Seq[[]Reroute] {
	return func(yield func([]Reroute) bool) {
		for i, end := 0, 0; i < len(p.Reroutes); i = end {
			for end = i + 1; end < len(p.Reroutes) && p.Reroutes[end].Image.Ref == p.Reroutes[i].Image.Ref; {
				end++
			}
			if !yield(p.Reroutes[i:end]) {
				return
			}
		}
	}
}

// worst judges the reroutes of one image and returns the worst result: a denial, or else the
// one that was verified least. In brief, the findings lack Detail and Remedy.
func (s *Settings) worst(reroutes []Reroute, facts Facts, brief bool) (seen *assessment, findings []Finding) {
	for i := range reroutes {
		a := s.assess(&reroutes[i], facts)
		a.brief = brief
		found := s.judge(a)
		if i == 0 || weight(a, found) > weight(seen, findings) {
			seen, findings = a, found
		}
	}
	if pools := seen.Pools; len(pools) > 0 {
		for i := range findings {
			findings[i].Detail = append(slices.Clone(findings[i].Detail), "on the nodes of "+poolsText(pools))
		}
	}
	return seen, findings
}

// weight orders verdicts on an image: by the severest finding, then by the outcome, and then by whether
// anything pulls it.
func weight(a *assessment, findings []Finding) int {
	w := 0
	for _, f := range findings {
		w = max(w, int(f.Severity)*4)
	}
	switch a.after {
	case Fails:
		w += 3
	case Unsure:
		w += 2
	case WorksBehind:
		w++
	}
	return 2*w + b2i(!onlyHistory(a.Image))
}

func poolsText(pools []string) string {
	if len(pools) == 1 {
		return poolOr(pools[0])
	}
	return "pools " + strings.Join(pools, ", ")
}
