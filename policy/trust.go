package policy

import (
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// changedCAs returns the registries for which c changes the CAs that nodes trust.
func (c Change) changedCAs() map[string]bool {
	changed := map[string]bool{}
	for host, pem := range c.Before.CAs {
		if now, ok := c.After.CAs[host]; !ok || now != pem {
			changed[host] = true
		}
	}
	for host := range c.After.CAs {
		if _, ok := c.Before.CAs[host]; !ok {
			changed[host] = true
		}
	}
	return changed
}

// retrusted returns the registries for which the images that are pulled from there have to
// be judged by other CAs; none where it is not known which, which is a refusal of its own.
func (c Change) retrusted() map[string]bool {
	if len(unknownCAsOf(c)) > 0 {
		return nil
	}
	return c.changedCAs()
}

// withProposedTrust returns r with the places marked that are at one of hosts, and whether
// there are any. What is insecure asks for no certificate.
func withProposedTrust(r mirrors.Route, hosts map[string]bool) (mirrors.Route, bool) {
	concerned := func(s mirrors.PullSource) bool { return s.Tried() && !s.Insecure && hosts[host(s.Ref)] }
	if !slices.ContainsFunc(r.Sources, concerned) {
		return r, false
	}
	r.Sources = slices.Clone(r.Sources) // routes share them
	for i, s := range r.Sources {
		r.Sources[i].ProposedTrust = concerned(s)
	}
	return r, true
}

// unknownCAsOf says of c whose CAs are not known.
func unknownCAsOf(c Change) []string {
	unknown := map[string]bool{}
	for _, s := range []mirrors.Set{c.Before, c.After} {
		if s.CAsUnknown != "" && c.Before.TrustedCA != c.After.TrustedCA {
			unknown[s.CAsUnknown] = true
		}
	}
	return slices.Sorted(maps.Keys(unknown))
}
