package mirrors

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// A Trust is the requirement of nodes on the signatures of an image before they run it, wherever it
// comes from. Nodes look it up by the name that was asked for, not by the mirror that
// served it (docker_image_src.go, Reference), so a mirror does not bypass it.
type Trust struct {
	// Reference is that name, with a tag or a digest.
	Reference string
	// Scope is the key of policy.json that covers it, "" for the default.
	Scope string
	// Requirements have to be met, all of them. Those that any image meets are left out.
	Requirements *signing.Requirements
	// Policies are the objects that make them ("ClusterImagePolicy signed"), sorted; none
	// where a file of a MachineConfig does.
	Policies []string
}

// Origin says by what nodes require it ("ClusterImagePolicy signed, scope quay.io/team"), in at most
// most names of objects.
func (t *Trust) Origin(most int) string {
	by := "the policy.json of a MachineConfig"
	if len(t.Policies) > 0 {
		by = text.Names(t.Policies, most)
	}
	if t.Scope == "" {
		return by + ", for all images that no other scope covers"
	}
	return by + ", scope " + t.Scope
}

// same reports whether nodes require the same, even if other objects ask for it.
func (t *Trust) same(other *Trust) bool {
	if t == nil || other == nil {
		return t == other
	}
	return t == other || t.Reference == other.Reference && t.Requirements.Equal(other.Requirements)
}

// IsMetBy reports whether an image that satisfies other, wherever it comes from, satisfies t.
// Either may be nil, which any image satisfies.
func (t *Trust) IsMetBy(other *Trust) bool {
	return t == nil || other != nil && t.Reference == other.Reference && t.Requirements.IsMetBy(other.Requirements)
}

// A trustPolicy holds what nodes require of images: of all pods by policy.json, and of those in
// namespaces with an ImagePolicy by a file of their own (CRI-O's signature_policy_dir).
type trustPolicy struct {
	cluster    scopeRules
	namespaces map[string]*scopeRules
	// attachments says where nodes look for signatures.
	attachments attachments
}

// A scopeRule is the word of policy.json on the images in a scope.
type scopeRule struct {
	// refused says why nodes do not run them; "" if they may.
	refused string
	// trust is what they require; nil for nothing. Its Reference is not set.
	trust *Trust
}

func (r scopeRule) isEmpty() bool { return r.refused == "" && r.trust == nil }

// scopeRules are those of one policy.json.
type scopeRules struct{ byScope[scopeRule] }

func (p *trustPolicy) isEmpty() bool {
	return p.cluster.isEmpty() && len(p.namespaces) == 0 && p.attachments.isEmpty()
}

func (r *scopeRules) isEmpty() bool {
	return !r.hasScopes() && r.rest.isEmpty()
}

// in returns the rules for pods of a namespace; "" stands for all that have none of their own.
func (p *trustPolicy) in(namespace string) *scopeRules {
	if own := p.namespaces[namespace]; own != nil {
		return own
	}
	return &p.cluster
}

// leavesAlone reports whether nothing in p is about a repository or a place in it.
func (p *trustPolicy) leavesAlone(name string) bool {
	if p.isEmpty() {
		return true
	}
	if p.attachments.mayCover(name) || !p.cluster.leavesAlone(name) {
		return false
	}
	for _, own := range p.namespaces {
		if !own.leavesAlone(name) {
			return false
		}
	}
	return true
}

func (r *scopeRules) leavesAlone(name string) bool {
	return !r.versioned && r.find(name, "").isEmpty()
}

// OwnPolicies returns the namespaces, sorted, whose pods may pull an image under another
// signature policy than others; none in most clusters.
func (t *Table) OwnPolicies() []string {
	namespaces := make([]string, 0, len(t.trust.namespaces))
	for namespace := range t.trust.namespaces {
		namespaces = append(namespaces, namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}

// DiffersIn reports whether pods of a namespace may pull image under another signature policy
// than those of namespaces without one of their own.
func (t *Table) DiffersIn(namespace, image string) bool {
	own := t.trust.namespaces[namespace]
	if own == nil {
		return false
	}
	name, ok := Repository(image)
	if !ok || own.versioned || t.trust.cluster.versioned {
		return true
	}
	return !own.find(name, "").same(t.trust.cluster.find(name, ""))
}

func (r scopeRule) same(other scopeRule) bool {
	return (r.refused == "") == (other.refused == "") && r.trust.same(other.trust)
}

// differingScopes returns the scopes on which two policies differ, and whether they differ on
// images that no scope covers.
func (p *trustPolicy) differingScopes(other *trustPolicy) (scopes []string, everything bool) {
	namespaces := map[string]bool{"": true}
	for _, of := range []*trustPolicy{p, other} {
		for namespace := range of.namespaces {
			namespaces[namespace] = true
		}
	}
	for namespace := range namespaces {
		a, b := p.in(namespace), other.in(namespace)
		if !a.rest.same(b.rest) {
			return nil, true
		}
		a.eachDiffering(&b.byScope, scopeRule.same, func(scope string) { scopes = append(scopes, scope) })
	}
	return scopes, false
}
