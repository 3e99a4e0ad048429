package causes

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// presenceText says whether a place has an image, in words that complete its name.
var presenceText = map[policy.Presence]string{
	policy.Unknown:      "gave no answer in time",
	policy.Present:      "has it",
	policy.Absent:       "does not have it",
	policy.Denied:       "does not let the nodes in",
	policy.Unreachable:  "is out of reach",
	policy.Mismatch:     "has something else, or only a part of it",
	policy.Incomplete:   "has something else, or only a part of it",
	policy.Inconclusive: "has it, and whether nodes accept it there is not known",
	policy.Unsigned:     "has it without the signature that nodes require",
	policy.Missigned:    "has it, and signatures that nodes reject or cannot read",
}

// isWithout reports whether a place has answered that it does not have an image, or not all of it.
func isWithout(p policy.Presence) bool {
	return p == policy.Absent || p == policy.Mismatch || p == policy.Incomplete
}

const (
	// maxEvictions is how many evictions are asked for, maxEvictionsOfNode those of one node.
	maxEvictions, maxEvictionsOfNode = 60, 10
	// maxPlaces is how many places are asked, maxOwners how many controllers are read.
	maxPlaces, maxOwners = 60, 20
)

// askEviction notes that the answer for a pod would help.
func (d *diagnosis) askEviction(p status.PodName) {
	if len(d.Asks.Evictions) < maxEvictions && !slices.Contains(d.Asks.Evictions, p) {
		d.Asks.Evictions = append(d.Asks.Evictions, p)
	}
}

// askOwner notes that it would help to know how far a controller is with its pods.
func (d *diagnosis) askOwner(o status.OwnerName) {
	known := o.Kind == "ReplicaSet" || o.Kind == "StatefulSet"
	if known && len(d.Asks.Owners) < maxOwners && !slices.Contains(d.Asks.Owners, o) {
		d.Asks.Owners = append(d.Asks.Owners, o)
	}
}

// askPlaces notes that the answers of places would help.
func (d *diagnosis) askPlaces(places []status.PlaceAsked) {
	for _, p := range places {
		known := slices.ContainsFunc(d.Asks.Places, func(q status.PlaceAsked) bool { return q.Place == p.Place })
		if len(d.Asks.Places) < maxPlaces && !known {
			d.Asks.Places = append(d.Asks.Places, p)
		}
	}
}

// answersLink says what places answered, "" if none was asked.
func (d *diagnosis) answersLink(places []status.PlaceAsked) string {
	var parts []string
	for _, p := range places {
		a, ok := d.Evidence.Places[p.Place]
		if !ok {
			continue
		}
		part := p.Ref + " " + presenceText[a.Presence]
		if a.Words != "" {
			part += " (" + a.Words + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return ""
	}
	return "asked just now: " + strings.Join(parts, "; ")
}

// answer returns what a place answered, Unknown if it was not asked.
func (d *diagnosis) answer(p status.PlaceAsked) policy.Presence {
	return d.Evidence.Places[p.Place].Presence
}

// lacks reports whether a place has an image, and none for a node.
func (d *diagnosis) lacks(p status.PlaceAsked, node string) bool {
	answer, platform := d.Evidence.Places[p.Place], d.platformOf(node)
	return answer.Presence == policy.Present && slices.ContainsFunc(answer.Without, func(of string) bool { return strings.HasPrefix(of+"/", platform+"/") })
}

// platformOf returns the platform of a node, "" if it is not known.
func (d *diagnosis) platformOf(node string) string {
	if n := d.NodeOf[node]; n != nil {
		return policy.PlatformOf(n)
	}
	return ""
}

func (d *diagnosis) isAsked(p status.PlaceAsked) bool {
	_, ok := d.Evidence.Places[p.Place]
	return ok
}
