package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// atOnce returns the reroutes of a change for those who read mirror objects from the API: see
// mirrors.Puller. Before is what the objects in force say to them, applied by MCO or not. Those whose
// routes cannot be computed are left out: see objectsFollowed.
func (c Change) atOnce(known *Cluster, s *Settings) []Reroute {
	if !known.Images.HasOtherPullers() {
		return nil
	}
	var reroutes []Reroute
	for _, p := range mirrors.OtherPullers {
		before, err := mirrors.ResolveFor(p, c.Before)
		if err != nil {
			continue
		}
		after, err := mirrors.ResolveFor(p, c.After)
		if err != nil {
			continue
		}
		for img := range known.Images.touched(mirrors.CompareScopes(before, after)) {
			part, ok := pulledBy(p, img)
			if !ok {
				continue
			}
			from, to, changed, err := mirrors.Compare(before, after, img.Ref, "")
			if err != nil || !changed {
				continue
			}
			reroutes = append(reroutes, Reroute{Image: s.asPulled(part, &to, known), Puller: p, Before: from, After: to})
		}
	}
	return reroutes
}

func (p *Plan) addAtOnce(reroutes []Reroute) {
	if len(reroutes) == 0 {
		return
	}
	p.Reroutes = append(p.Reroutes, reroutes...)
	slices.SortStableFunc(p.Reroutes, byRef)
}

// countAtOnce returns how many tags of ImageStreams and how many builds are in reroutes, each once.
func countAtOnce(reroutes []Reroute) (tags, builds int) {
	seen := map[string]bool{}
	for i := range reroutes {
		r := &reroutes[i]
		if r.Puller == mirrors.Nodes {
			continue
		}
		for _, c := range r.Image.Consumers {
			name := c.Kind + " " + c.Namespace + "/" + c.Name
			if r.Puller != mirrors.Builds {
				name += " " + streamTag(c.Container)
			}
			switch {
			case seen[name]:
				continue
			case r.Puller == mirrors.Builds:
				builds++
			default:
				tags++
			}
			seen[name] = true
		}
	}
	return tags, builds
}

// streamTag returns the tag in a field of an ImageStream ("status.tags[v1].items[0].dockerImageReference").
func streamTag(field string) string {
	_, rest, _ := strings.Cut(field, "[")
	tag, _, _ := strings.Cut(rest, "]")
	return tag
}

// AtOnce says for how much the change takes effect as soon as it is stored, "" if for nothing.
func (c Counts) AtOnce() string {
	var what []string
	if c.Tags > 0 {
		what = append(what, text.Count(c.Tags, "tag")+" of ImageStreams")
	}
	if c.Builds > 0 {
		what = append(what, text.Count(c.Builds, "build"))
	}
	if len(what) == 0 {
		return ""
	}
	take := "take"
	if c.Tags+c.Builds == 1 {
		take = "takes"
	}
	return fmt.Sprintf("%s %s another route as soon as it is stored, with no rollout", strings.Join(what, " and "), take)
}

// followsObjects reports whether something in the cluster reads the objects from the API that MCO rejects.
func (p ChangePlan) followsObjects() bool {
	return p.known.Images.HasOtherPullers() && len(slices.Concat(p.change.Before.Objects, p.change.After.Objects)) > 0
}
