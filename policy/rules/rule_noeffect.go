package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// NoEffect: an entry that the change adds does nothing, or can never match. The generator
// drops an entry without mirrors, or with no mirror but its own source, and its policy with
// it. Nodes look entries up by the normalised name of an image (nginx is
// docker.io/library/nginx), and case matters. An entry does nothing either for images that are pulled
// in the way that its kind does not serve (unserved), or whose name it misses (misnamed).
func noEffect(p plan.ChangePlan, _ policy.Facts) []policy.Finding {
	findings := idlePolicies(p)
	say := func(of *policy.Statement, reason, remedy, line string) idle {
		return idle{policy.Finding{Severity: policy.Warn, Statement: of, Reason: reason, Detail: slices.Clone(of.Objects), Remedy: []string{remedy}}, line}
	}
	var empty, entries, missed []idle
	for _, o := range policy.Without(p.Change.After.Objects, p.Change.Before.Objects) {
		if one := (mirrors.Set{Objects: []mirrors.Object{o}}); len(one.Entries()) == 0 {
			name := mirrors.NameOf(o)
			empty = append(empty, say(&policy.Statement{Objects: []string{name}}, name+" does nothing: it has no entries", "look at what has made it; to take mirrors away, delete the object", name))
		}
	}
	by := byEntry(p.Plan)
	for _, e := range p.Added {
		why, remedy := plan.WhyIdle(e)
		if mirrors.HostOf(e.Source) == plan.HubAPI && len(by()[e.Source]) == 0 {
			why, remedy = "no image in use names this registry; it is the API of docker.io, and nodes go by the name in the image", "write docker.io"
		}
		if why != "" {
			entries = append(entries, say(policy.StatementOf(e), fmt.Sprintf("the entry for %s does nothing: %s", e.Source, why), remedy, fmt.Sprintf("%s of %s: %s: %s", e.Source, mirrors.NameOf(e.Object), why, remedy)))
		}
	}
	uses := p.Uses()
	near := p.Misnamed(uses)
	for _, u := range uses {
		if names := text.Names(near.Of(u.Source), plan.MaxNear); !u.Covers && names != "" {
			missed = append(missed, say(policy.StatementOf(u.Entry), fmt.Sprintf("no image in use is below %s, but below %s", u.Source, names), "correct the source, if that is what is meant",
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
	policy.Finding
	line string
}

// folded returns one finding for all, where they are many: templates make the same mistake all over a folder.
func folded(all []idle, one, many, what, remedy string) []policy.Finding {
	if len(all) <= maxIdle {
		return convert.Each(all, func(i idle) policy.Finding { return i.Finding })
	}
	f := policy.Finding{Severity: policy.Warn, Statement: &policy.Statement{}, Reason: text.Plural(len(all), one, many) + " " + what, Remedy: []string{remedy}}
	for _, i := range all {
		f.Detail = append(f.Detail, i.line)
		if i.Statement != nil {
			f.Statement.Objects = append(f.Statement.Objects, i.Statement.Objects...)
		}
	}
	f.Statement.Objects = slices.Compact(f.Statement.Objects) // in the order of the objects
	f.Detail = text.First(f.Detail, maxFolded, "line")
	return []policy.Finding{f}
}

const (
	maxIdle   = 3 // alike that have a finding of their own
	maxFolded = 5 // lines of a finding for more
)

// unserved tells of each object of uses whose entries cover images that are all pulled the other way.
func unserved(uses []*plan.EntryUse) []idle {
	var findings []idle
	var last mirrors.Object
	var sources []string
	images := 0
	for _, u := range uses {
		if !u.IsUnserved() {
			continue
		}
		if u.Object != last {
			last, sources, images = u.Object, nil, 0
			findings = append(findings, idle{})
		}
		sources, images = append(sources, u.Source), images+u.Others
		way, only := policy.PullType(u.Ref), "digests"
		if way == "digest" {
			only = "tags"
		}
		name := mirrors.NameOf(u.Object)
		findings[len(findings)-1] = idle{policy.Finding{
			Severity: policy.Warn, Statement: &policy.Statement{Objects: []string{name}},
			Reason: fmt.Sprintf("%s of %s %s %s in use, all pulled by %s: it serves %s only",
				text.Plural(len(sources), "entry", "entries"), name, plan.OneOrMany(sources, "covers", "cover"), text.Count(images, "image"), way, only),
			Detail: []string{"sources: " + text.Names(sources, plan.MaxNamed)},
			Remedy: []string{fmt.Sprintf("give them these mirrors in %s; check -o narrowed prints it", policy.KindFor(u.Ref))},
		}, fmt.Sprintf("%s: %s, all pulled by %s", name, text.Count(images, "image"), way)}
	}
	return findings
}

// idlePolicies is NoEffect for scopes of image policies that require nothing of any image in use, signed or not: nodes look a scope
// up by the name in the reference, which is not that of a mirror, and only one scope counts for an image.
func idlePolicies(p plan.ChangePlan) []policy.Finding {
	var idles []idle
	uses := scopeUses(p)
	if uses == nil {
		return nil
	}
	near := misnamedScopes(p, uses)
	for _, o := range policy.Differing(p.Change.After.Policies, p.Change.Before.Policies) {
		_, remaps := mirrors.ScopesOf(o)
		say := func(reason, remedy string, detail ...string) {
			f := policy.Finding{Severity: policy.Warn, Reason: reason, Detail: append([]string{mirrors.NameOf(o)}, detail...), Remedy: []string{remedy}}
			idles = append(idles, idle{f, mirrors.NameOf(o) + ": " + remedy})
		}
		useful, unused := false, []string{}
		for _, u := range uses[o] {
			mirror, source := mirrorNamed(u.scope, p.Change.After.Entries())
			nothing := fmt.Sprintf("the scope %s requires nothing of any image in use%s", u.scope, u.where())
			switch {
			case u.requires:
				useful = true
			case u.covers > 0:
				say(nothing+": "+u.instead, u.remedy(), fmt.Sprintf("%s below it, as %s", text.Count(u.covers, "image"), u.ref))
			case source != "":
				remedy := "write the scope " + source
				if remaps {
					remedy += ", without RemapIdentity"
				}
				say(nothing+": nodes look it up by the name in the reference, and it is that of a mirror", remedy, fmt.Sprintf("%s is a mirror of %s", mirror, source))
			case len(near.Of(unversioned(u.scope))) > 0:
				names := near.Of(unversioned(u.scope))
				say(fmt.Sprintf("%s: they are below %s", nothing, text.Names(names, plan.MaxNear)), "write the scope "+names[0]+", or what else is meant")
			default:
				unused = append(unused, u.scope)
			}
		}
		switch {
		case len(uses[o]) == 0:
			say(mirrors.NameOf(o)+" does nothing: it has no scopes", "name what it is for; to take it away, delete the object")
		case !useful && len(unused) > 0 && len(p.Gaps) == 0: // where there may be others, nothing is known
			say(fmt.Sprintf("%s requires nothing of any image in use%s: none is below %s", mirrors.NameOf(o), uses[o][0].where(), text.Names(unused, plan.MaxNear)),
				"write a scope by the names in references, unless it is for images to come")
		}
	}
	return folded(idles, "scope", "scopes", "require nothing of any image in use", "write the scopes by the names in references")
}

// A scopeUse is the use that the cluster makes of a scope of an image policy which the change adds.
type scopeUse struct {
	policy mirrors.Object
	scope  string
	// covers are how many images in use are below it, in the namespace of the policy if it has one, and ref is one of them.
	covers int
	ref    string
	// requires is set if nodes go by it for one of them; otherwise instead says what they go by, and narrower is the scope of that.
	requires          bool
	instead, narrower string
}

func (u *scopeUse) where() string {
	if ns := u.policy.GetNamespace(); ns != "" {
		return " in namespace " + ns
	}
	return ""
}

func (u *scopeUse) remedy() string {
	if u.narrower == "" {
		return "write a scope for these images alone, if they are to be signed"
	}
	if u.policy.GetNamespace() != "" {
		return "have the other policy require it, or make its scopes narrower: MCO leaves out scopes of a namespace inside those of the cluster"
	}
	return "write the scope " + u.narrower + ", where both policies will have to be met"
}

// scopeUses returns the uses of the scopes of image policies that the change adds, by policy; none if the new configuration has no
// routes. Each image in use is looked at once.
func scopeUses(p plan.ChangePlan) map[mirrors.Object][]*scopeUse {
	added := policy.Differing(p.Change.After.Policies, p.Change.Before.Policies)
	if len(added) == 0 || p.Routes[0].After == nil {
		return nil
	}
	table := p.Routes[0].After
	uses, byScope, repositories := map[mirrors.Object][]*scopeUse{}, map[string][]*scopeUse{}, []string{}
	for _, o := range added {
		scopes, _ := mirrors.ScopesOf(o)
		uses[o] = nil
		for _, scope := range scopes {
			u := &scopeUse{policy: o, scope: scope}
			uses[o], byScope[scope] = append(uses[o], u), append(byScope[scope], u)
			repositories = append(repositories, unversioned(scope))
		}
	}
	for img := range p.Known.Images.Touched(mirrors.ChangedScopes{Scopes: repositories}) {
		if !p.IsInUse(img) {
			continue
		}
		using := map[string]bool{}
		for _, c := range img.Consumers {
			if c.Use != policy.History {
				using[c.Namespace] = true
			}
		}
		namespaces := slices.Sorted(maps.Keys(using))
		candidates, _ := table.Candidates(img.Ref)
		for _, ref := range candidates {
			for _, scope := range policyScopesOver(ref) {
				for _, u := range byScope[scope] {
					u.count(ref, table, namespaces)
				}
			}
		}
	}
	return uses
}

// count adds an image that the scope covers, and that namespaces use.
func (u *scopeUse) count(ref string, table *mirrors.Table, namespaces []string) {
	own, found := u.policy.GetNamespace(), false
	for _, namespace := range namespaces {
		if own != "" && namespace != own {
			continue
		}
		if found = true; u.requires {
			break
		}
		switch trust, refused := table.Requirement(ref, namespace); {
		case trust != nil && slices.Contains(trust.Policies, mirrors.NameOf(u.policy)) && trust.Scope == u.scope:
			u.requires = true
		case refused != "":
			u.instead, u.narrower = "nodes refuse these images, as "+refused, ""
		case trust != nil:
			u.instead, u.narrower = "nodes go by "+trust.Origin(1), trust.Scope
		default:
			u.instead, u.narrower = "an entry of allowedRegistries, or a file of a MachineConfig, goes before it", ""
		}
	}
	if found {
		u.covers, u.ref = u.covers+1, ref
	}
}

// policyScopesOver returns the scopes that an image policy may have over a reference.
func policyScopesOver(ref string) []string {
	scopes := slices.AppendSeq([]string{ref}, plan.ScopesOver(ref))
	for name := policy.Hostname(mirrors.HostOf(ref)); ; {
		_, domain, more := strings.Cut(name, ".")
		if !more {
			return scopes
		}
		scopes, name = append(scopes, "*."+domain), domain
	}
}

// unversioned returns a scope without a tag or digest.
func unversioned(scope string) string {
	if policyfile.IsVersioned(scope) {
		return mirrors.RepositoryOf(scope)
	}
	return scope
}

// misnamedScopes is misnamed for scopes.
func misnamedScopes(p plan.ChangePlan, all map[mirrors.Object][]*scopeUse) *plan.NearMisses {
	near := &plan.NearMisses{}
	for _, uses := range all {
		useful := slices.ContainsFunc(uses, func(u *scopeUse) bool { return u.covers > 0 })
		for _, u := range uses {
			if u.covers == 0 {
				near.Want(unversioned(u.scope), useful)
			}
		}
	}
	near.LookAt(p.Known.Images, p.IsInUse)
	return near
}

// mirrorNamed returns the mirror that has a scope, or is inside it, and what to write for its source; "" for none.
func mirrorNamed(scope string, entries []mirrors.Entry) (mirror, source string) {
	for _, e := range entries {
		for _, m := range e.Mirrors {
			at := string(m)
			switch rest, inside := strings.CutPrefix(scope, at+"/"); {
			case strings.HasPrefix(e.Source, "*."):
			case inside:
				return at, e.Source + "/" + rest
			case at == scope, strings.HasPrefix(at, scope+"/"):
				return at, e.Source
			}
		}
	}
	return "", ""
}
