package plan

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// atOnce returns the reroutes of a change for those who read mirror objects from the API: see
// mirrors.Puller. Before is what the objects in force say to them, applied by MCO or not. Those whose
// routes cannot be computed are left out: see objectsFollowed.
func atOnce(c policy.Change, known *Cluster, s *settings.Settings) []evidence.Reroute {
	if !known.Images.HasOtherPullers() {
		return nil
	}
	var reroutes []evidence.Reroute
	for _, p := range mirrors.OtherPullers {
		before, err := mirrors.ResolveFor(p, c.Before)
		if err != nil {
			continue
		}
		after, err := mirrors.ResolveFor(p, c.After)
		if err != nil {
			continue
		}
		for img := range known.Images.Touched(mirrors.CompareScopes(before, after)) {
			part, ok := policy.PulledBy(p, img)
			if !ok {
				continue
			}
			from, to, changed, err := mirrors.Compare(before, after, img.Ref, "")
			if err != nil || !changed {
				continue
			}
			reroutes = append(reroutes, evidence.Reroute{Image: AsPulled(s, part, &to, known), Puller: p, Before: from, After: to})
		}
	}
	return reroutes
}

func (p *Plan) addAtOnce(reroutes []evidence.Reroute) {
	if len(reroutes) == 0 {
		return
	}
	p.Reroutes = append(p.Reroutes, reroutes...)
	slices.SortStableFunc(p.Reroutes, byRef)
}

// CountAtOnce returns how many tags of ImageStreams and how many builds are in reroutes, each once.
func CountAtOnce(reroutes []evidence.Reroute) (tags, builds int) {
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
