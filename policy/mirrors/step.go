package mirrors

import (
	"strings"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
)

// A Step is one place on a node's route to an image, or a mirror that the node skips.
type Step struct {
	PullSource
	// Serves is set for a mirror of the entry that a node skips, and says what it is asked
	// for: "tags" or "digests".
	Serves string
}

// Steps returns the places of route, the route of the candidate ref alone, and between them
// the mirrors of its entry that a node skips.
func (t *Table) Steps(ref string, route Route) []Step {
	var steps []Step
	rest := route.Sources
	if entry := t.index.entry(route.Entry); entry != nil {
		for _, m := range entry.Mirrors {
			if entry.MirrorByDigestOnly { // which a mirror says of itself, or else its entry of all
				m.PullFromMirror = sysregistriesv2.MirrorByDigestOnly
			}
			switch {
			case !serves(&m, ByDigest(ref)):
				passed := PullSource{Location: Location{Ref: rewritten(*entry, ref, m)}, Mirror: true}
				steps = append(steps, Step{passed, strings.TrimSuffix(m.PullFromMirror, "-only") + "s"}) // "tag-only", "digest-only"
			case len(rest) > 1: // the last is the source
				steps = append(steps, Step{PullSource: rest[0]})
				rest = rest[1:]
			}
		}
	}
	for _, source := range rest {
		steps = append(steps, Step{PullSource: source})
	}
	return steps
}

// rewritten returns what ref would be at m, a mirror of entry, if m served its kind of
// pull; or just the location of m where that would be no reference.
func rewritten(entry sysregistriesv2.Registry, ref string, m sysregistriesv2.Endpoint) string {
	named, err := reference.ParseNamed(ref)
	if err != nil {
		return m.Location
	}
	entry.Mirrors, entry.MirrorByDigestOnly = []sysregistriesv2.Endpoint{{Location: m.Location}}, false
	pulls, err := entry.PullSourcesFromReference(named)
	if err != nil {
		return m.Location
	}
	return pulls[0].Reference.String()
}
