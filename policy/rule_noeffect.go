package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// NoEffect: an entry that the change adds does nothing, or can never match. The generator
// drops an entry without mirrors, or with no mirror but its own source, and its policy with
// it. Nodes look entries up by the normalised name of an image (nginx is
// docker.io/library/nginx), and case matters. An entry does nothing either for images that are pulled
// in the way that its kind does not serve (unserved), or whose name it misses (misnamed).
func noEffect(p ChangePlan, _ Facts) []Finding {
	findings := idlePolicies(p)
	say := func(of *Statement, reason, remedy, line string) idle {
		return idle{Finding{Severity: Warn, Statement: of, Reason: reason, Detail: slices.Clone(of.Objects), Remedy: []string{remedy}}, line}
	}
	var empty, entries, missed []idle
	for _, o := range without(p.change.After.Objects, p.change.Before.Objects) {
		if one := (mirrors.Set{Objects: []mirrors.Object{o}}); len(one.Entries()) == 0 {
			name := mirrors.NameOf(o)
			empty = append(empty, say(&Statement{Objects: []string{name}}, name+" does nothing: it has no entries", "look at what has made it; to take mirrors away, delete the object", name))
		}
	}
	for _, e := range p.Added {
		why, remedy := whyIdle(e)
		if mirrors.HostOf(e.Source) == hubAPI && p.coverage(e).images == 0 {
			why, remedy = "no image in use names this registry; it is the API of docker.io, and nodes go by the name in the image", "write docker.io"
		}
		if why != "" {
			entries = append(entries, say(statementOf(e), fmt.Sprintf("the entry for %s does nothing: %s", e.Source, why), remedy, fmt.Sprintf("%s of %s: %s: %s", e.Source, mirrors.NameOf(e.Object), why, remedy)))
		}
	}
	uses := p.uses()
	near := p.misnamed(uses)
	for _, u := range uses {
		if names := text.Names(near.Of(u.Source), maxNear); !u.covers && names != "" {
			missed = append(missed, say(statementOf(u.Entry), fmt.Sprintf("no image in use is below %s, but below %s", u.Source, names), "correct the source, if that is what is meant",
				fmt.Sprintf("%s of %s, but %s", u.Source, mirrors.NameOf(u.Object), names)))
		}
	}
	return slices.Concat(findings,
		folded(empty, "object", "objects", "do nothing: they have no entries", "look at what has made them; to take mirrors away, delete the objects"),
		folded(entries, "entry", "entries", "do nothing", "write them as their lines say"),
		folded(unserved(uses), "object", "objects", "cover images in use that are all pulled the way that they do not serve", "give their sources these mirrors in objects of the other kind; check -o narrowed prints them"),
		folded(missed, "source", "sources", "have no image in use below them, but others that end alike have", "correct the sources, if that is what is meant"))
}

// idle is a finding about something without an effect, and the line that tells of it among many.
type idle struct {
	Finding
	line string
}

// folded returns one finding for all, where they are many: templates make the same mistake all over a folder.
func folded(all []idle, one, many, what, remedy string) []Finding {
	if len(all) <= maxIdle {
		return convert.Each(all, func(i idle) Finding { return i.Finding })
	}
	f := Finding{Severity: Warn, Statement: &Statement{}, Reason: text.Plural(len(all), one, many) + " " + what, Remedy: []string{remedy}}
	for _, i := range all {
		f.Detail = append(f.Detail, i.line)
		if i.Statement != nil {
			f.Statement.Objects = append(f.Statement.Objects, i.Statement.Objects...)
		}
	}
	f.Statement.Objects = slices.Compact(f.Statement.Objects) // in the order of the objects
	f.Detail = text.First(f.Detail, maxFolded, "line")
	return []Finding{f}
}

const (
	maxIdle   = 3 // alike that have a finding of their own
	maxFolded = 5 // lines of a finding for more
)

// unserved tells of each object of uses whose entries cover images that are all pulled the other way.
func unserved(uses []*entryUse) []idle {
	var findings []idle
	var last mirrors.Object
	var sources []string
	images := 0
	for _, u := range uses {
		if !u.isUnserved() {
			continue
		}
		if u.Object != last {
			last, sources, images = u.Object, nil, 0
			findings = append(findings, idle{})
		}
		sources, images = append(sources, u.Source), images+u.others
		way, only := pullType(u.ref), "digests"
		if way == "digest" {
			only = "tags"
		}
		name := mirrors.NameOf(u.Object)
		findings[len(findings)-1] = idle{Finding{
			Severity: Warn, Statement: &Statement{Objects: []string{name}},
			Reason: fmt.Sprintf("%s of %s %s %s in use, all pulled by %s: it serves %s only",
				text.Plural(len(sources), "entry", "entries"), name, oneOrMany(sources, "covers", "cover"), text.Count(images, "image"), way, only),
			Detail: []string{"sources: " + text.Names(sources, maxNamed)},
			Remedy: []string{fmt.Sprintf("give them these mirrors in %s; check -o narrowed prints it", kindFor(u.ref))},
		}, fmt.Sprintf("%s: %s, all pulled by %s", name, text.Count(images, "image"), way)}
	}
	return findings
}

// hubAPI is where docker.io has its API. Images may be named by it, and hardly ever are.
const hubAPI = "registry-1.docker.io"

// whyIdle says why nodes would not notice an entry, "" if they may.
func whyIdle(e mirrors.Entry) (why, remedy string) {
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
