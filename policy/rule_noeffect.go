package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// NoEffect: an entry that the change adds does nothing, or can never match. The generator
// drops an entry without mirrors, or with no mirror but its own source, and its policy with
// it. Nodes look entries up by the normalised name of an image (nginx is
// docker.io/library/nginx), and case matters. Nor does an entry do anything for images that are
// pulled the way that its kind does not serve (unserved), or whose name it misses (misnamed).
func noEffect(p Plan, _ Facts) []Finding {
	findings := idlePolicies(p)
	say := func(of *Statement, reason, remedy string, detail ...string) {
		findings = append(findings, Finding{Severity: Warn, Statement: of, Reason: reason, Detail: append(slices.Clone(of.Objects), detail...), Remedy: []string{remedy}})
	}
	for _, o := range without(p.change.After.Objects, p.change.Before.Objects) {
		if one := (mirrors.Set{Objects: []mirrors.Object{o}}); len(one.Entries()) == 0 {
			name := mirrors.NameOf(o)
			say(&Statement{Objects: []string{name}}, name+" does nothing: it has no entries", "look at what has made it; to take mirrors away, delete the object")
		}
	}
	for _, e := range p.Added {
		why, remedy := idle(e)
		if mirrors.HostOf(e.Source) == hubAPI && p.coverage(e).images == 0 {
			why, remedy = "no image in use names this registry; it is the API of docker.io, and nodes go by the name in the image", "write docker.io"
		}
		if why != "" {
			say(statementOf(e), fmt.Sprintf("the entry for %s does nothing: %s", e.Source, why), remedy)
		}
	}
	uses := p.uses()
	findings = append(findings, unserved(uses)...)
	near := p.misnamed(uses)
	for _, u := range uses {
		if names := near.Of(u.Source); !u.covers && len(names) > 0 {
			say(statementOf(u.Entry), fmt.Sprintf("no image in use is below %s, but below %s", u.Source, text.Names(names, maxNear)), "correct the source, if that is what is meant")
		}
	}
	return findings
}

// unserved tells of each object of uses whose entries cover images that are all pulled the other way.
func unserved(uses []*entryUse) []Finding {
	var findings []Finding
	var last mirrors.Object
	var sources []string
	images := 0
	for _, u := range uses {
		if !u.isUnserved() {
			continue
		}
		if u.Object != last {
			last, sources, images = u.Object, nil, 0
			findings = append(findings, Finding{})
		}
		sources, images = append(sources, u.Source), images+u.others
		way, only := pullType(u.ref), "digests"
		if way == "digest" {
			only = "tags"
		}
		name := mirrors.NameOf(u.Object)
		findings[len(findings)-1] = Finding{
			Severity: Warn, Statement: &Statement{Objects: []string{name}},
			Reason: fmt.Sprintf("%s of %s %s %s in use, all pulled by %s: it serves %s only",
				text.Plural(len(sources), "entry", "entries"), name, oneOrMany(sources, "covers", "cover"), text.Count(images, "image"), way, only),
			Detail: []string{"sources: " + text.Names(sources, maxNamed)},
			Remedy: []string{fmt.Sprintf("give them these mirrors in %s; check -o narrowed prints it", kindFor(u.ref))},
		}
	}
	return findings
}

// hubAPI is where docker.io has its API. Images may be named by it, and hardly ever are.
const hubAPI = "registry-1.docker.io"

// idle says why nodes would not notice an entry, "" if they may.
func idle(e mirrors.Entry) (why, remedy string) {
	h := mirrors.HostOf(e.Source)
	switch {
	case !e.HasMirror() && len(e.Mirrors) > 0:
		return "its only mirror is the source itself, so that the generator drops it, and its mirrorSourcePolicy too", "name another place as the mirror, or remove the entry"
	case !e.HasMirror():
		return "without a mirror the generator drops it, and its mirrorSourcePolicy too", "name a mirror, or remove the entry"
	case h == "index.docker.io":
		return "nodes know this registry as docker.io", "write docker.io"
	case e.Source == "docker.io" || strings.HasPrefix(e.Source, "*."):
		return "", ""
	case !strings.ContainsAny(h, ".:") && h != "localhost":
		return "nodes take " + h + " for a repository on docker.io", "write docker.io/library/" + e.Source + ", or the host with its domain"
	case h == "docker.io" && strings.Count(e.Source, "/") == 1 && !strings.HasSuffix(e.Source, "/library"):
		return "", "" // a namespace on Docker Hub; whether "docker.io/nginx" was meant as a repository cannot be told
	case h != strings.ToLower(h):
		return "images name the host in lower case", "write " + strings.ToLower(h)
	default:
		return "", ""
	}
}
