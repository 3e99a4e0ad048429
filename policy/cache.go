package policy

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// isCache reports whether a place is at a pull-through cache.
func (s *Settings) isCache(ref string) bool {
	return slices.ContainsFunc(s.Caches, func(c string) bool { return ImagePattern(c).Matches(ref) })
}

// PullCommand returns the command that pulls all of an image once, and keeps none of it.
func PullCommand(from mirrors.Location) string {
	flags := "--all"
	if from.Insecure {
		flags += " --src-tls-verify=false"
	}
	return fmt.Sprintf(`skopeo copy %s docker://%s "dir:$(mktemp -d)"`, flags, from.Ref)
}

// throughCache returns what has a cache get c. It was asked already, as nodes ask it, so that what it lacks is not for it to give.
func (c *Copy) throughCache() []string {
	return []string{c.seeUpstream("it has only what it gets there"), "then pull it once through the cache: " + PullCommand(c.To)}
}

func (c *Copy) seeUpstream(why string) string {
	return fmt.Sprintf("see to the upstream of the pull-through cache %s, or to its credentials there: %s", c.To.Host(), why)
}

// moves notes that To has another image under the tag.
func (c *Copy) moves() {
	if c.Moves = true; c.Cache && c.Obstacle == "" {
		c.Obstacle = c.seeUpstream("the tag names another image there")
	}
}
