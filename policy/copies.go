package policy

import (
	"cmp"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Copies returns the copies to make before its images can be pulled, the most important first,
// each place once. It includes those with an Obstacle, and images that only history names. A verdict in
// brief has none for most findings.
func (j Judgement) Copies() []Copy {
	var copies []Copy
	seen := map[string]int{}
	for i := range j.Findings {
		f := &j.Findings[i]
		c := f.Copy
		if c == nil || f.Severity == Info && (f.Rule != ImportFails || !OnlyHistory(f.Image)) {
			continue
		}
		to := mirrors.OneSpelling(c.To.Ref)
		if at, ok := seen[to]; ok {
			copies[at].merge(c)
			continue
		}
		seen[to] = len(copies)
		copies = append(copies, *c)
	}
	slices.SortStableFunc(copies, func(a, b Copy) int { return cmp.Compare(a.Rank, b.Rank) })
	return copies
}

// isCopied reports whether a copy is what helps against f.
func (f *Finding) isCopied() bool { return f.Copy != nil && f.Copy.Obstacle == "" }

// maxCopyCommands is how many findings a message gives the commands of that copy their images; if
// there are more, one command is shorter.
const maxCopyCommands = 3

// ManyCopies reports whether denials are for so much that is to be copied that one command is shorter.
func ManyCopies(denials []Finding) bool {
	copied := map[string]bool{}
	for i := range denials {
		if f := &denials[i]; f.isCopied() {
			copied[mirrors.OneSpelling(f.Copy.To.Ref)] = true
		}
	}
	return len(copied) > maxCopyCommands
}

// WithoutCopy returns f without the commands that copy its image.
func (f Finding) WithoutCopy() Finding {
	if f.isCopied() {
		f.Remedy = f.Remedy[len(f.Copy.Commands()):]
	}
	return f
}
