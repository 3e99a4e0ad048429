package policy

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// idlePolicies is NoEffect for scopes of image policies: nodes look a scope up by the name in the reference, so that one that only
// mirrors have requires nothing of any image, signed or not.
func idlePolicies(p Plan) []Finding {
	var findings []Finding
	for _, o := range without(p.change.After.Policies, p.change.Before.Policies) {
		scopes, remaps := mirrors.ScopesOf(o)
		for _, scope := range scopes {
			mirror, source := mirrorNamed(scope, p.change.After.Entries())
			if source == "" || p.known.Images.hasNamed(scope) {
				continue
			}
			remedy := "write the scope " + source
			if remaps {
				remedy += ", without RemapIdentity"
			}
			findings = append(findings, Finding{
				Severity: Warn,
				Reason:   fmt.Sprintf("the scope %s requires nothing of any image in use: nodes look it up by the name in the reference, and it is that of a mirror", scope),
				Detail:   []string{fmt.Sprintf("%s; %s is a mirror of %s", mirrors.NameOf(o), mirror, source)},
				Remedy:   []string{remedy},
			})
		}
	}
	return findings
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
