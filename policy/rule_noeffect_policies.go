package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// idlePolicies is NoEffect for scopes of image policies that require nothing of any image in use, signed or not: nodes look a scope
// up by the name in the reference, which is not that of a mirror, and only one scope counts for an image.
func idlePolicies(p ChangePlan) []Finding {
	var idles []idle
	uses := p.scopeUses()
	if uses == nil {
		return nil
	}
	near := p.misnamedScopes(uses)
	for _, o := range differing(p.change.After.Policies, p.change.Before.Policies) {
		_, remaps := mirrors.ScopesOf(o)
		say := func(reason, remedy string, detail ...string) {
			f := Finding{Severity: Warn, Reason: reason, Detail: append([]string{mirrors.NameOf(o)}, detail...), Remedy: []string{remedy}}
			idles = append(idles, idle{f, mirrors.NameOf(o) + ": " + remedy})
		}
		useful, unused := false, []string{}
		for _, u := range uses[o] {
			mirror, source := mirrorNamed(u.scope, p.change.After.Entries())
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
				say(fmt.Sprintf("%s: they are below %s", nothing, text.Names(names, maxNear)), "write the scope "+names[0]+", or what else is meant")
			default:
				unused = append(unused, u.scope)
			}
		}
		switch {
		case len(uses[o]) == 0:
			say(mirrors.NameOf(o)+" does nothing: it has no scopes", "name what it is for; to take it away, delete the object")
		case !useful && len(unused) > 0 && len(p.Gaps) == 0: // where there may be others, nothing is known
			say(fmt.Sprintf("%s requires nothing of any image in use%s: none is below %s", mirrors.NameOf(o), uses[o][0].where(), text.Names(unused, maxNear)),
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
func (p ChangePlan) scopeUses() map[mirrors.Object][]*scopeUse {
	added := differing(p.change.After.Policies, p.change.Before.Policies)
	if len(added) == 0 || p.routes[0].after == nil {
		return nil
	}
	table := p.routes[0].after
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
	for img := range p.known.Images.touched(mirrors.ChangedScopes{Scopes: repositories}) {
		if !p.isInUse(img) {
			continue
		}
		using := map[string]bool{}
		for _, c := range img.Consumers {
			if c.Use != History {
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
	scopes := []string{ref}
	for scope := range scopesOver(ref) {
		scopes = append(scopes, scope)
	}
	for name := hostname(mirrors.HostOf(ref)); ; {
		_, domain, more := strings.Cut(name, ".")
		if !more {
			return scopes
		}
		scopes, name = append(scopes, "*."+domain), domain
	}
}

// unversioned returns a scope without a tag or digest.
func unversioned(scope string) string {
	if mirrors.IsVersioned(scope) {
		return mirrors.RepositoryOf(scope)
	}
	return scope
}

// misnamedScopes is misnamed for scopes.
func (p ChangePlan) misnamedScopes(all map[mirrors.Object][]*scopeUse) *NearMisses {
	near := &NearMisses{}
	for _, uses := range all {
		useful := slices.ContainsFunc(uses, func(u *scopeUse) bool { return u.covers > 0 })
		for _, u := range uses {
			if u.covers == 0 {
				near.Want(unversioned(u.scope), useful)
			}
		}
	}
	near.lookAt(p.known.Images, p.isInUse)
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
