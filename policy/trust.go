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

// retrusted returns the registries whose images have to be judged by the new CAs; none where
// those are not known, which is denied by a rule of its own (unknownCAs).
func (c Change) retrusted() map[string]bool {
	if len(unknownCAsOf(c)) > 0 {
		return nil
	}
	return c.changedCAs()
}

// withProposedTrust returns r with its places at one of hosts marked, and whether there are
// any. At insecure places certificates do not matter.
func withProposedTrust(r mirrors.Route, hosts map[string]bool) (mirrors.Route, bool) {
	concerned := func(s mirrors.PullSource) bool { return s.Tried() && !s.Insecure && hosts[s.Host()] }
	if !slices.ContainsFunc(r.Sources, concerned) {
		return r, false
	}
	r.Sources = slices.Clone(r.Sources) // routes share them
	for i, s := range r.Sources {
		r.Sources[i].ProposedTrust = concerned(s)
	}
	return r, true
}

// unknownCAsOf says why the CAs before or after c are not known, if c alters them.
func unknownCAsOf(c Change) []string {
	unknown := map[string]bool{}
	for _, s := range []mirrors.Set{c.Before, c.After} {
		if s.CAsUnknown != "" && c.Before.TrustedCA != c.After.TrustedCA {
			unknown[s.CAsUnknown] = true
		}
	}
	return slices.Sorted(maps.Keys(unknown))
}
