package policyfile

import (
	"maps"
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

// Same reports whether nodes require the same, even if other objects ask for it.
func (t *Trust) Same(other *Trust) bool {
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

// A Policy holds what nodes require of images: of all pods by policy.json, and of those in
// namespaces with an ImagePolicy by a file of their own (CRI-O's signature_policy_dir).
type Policy struct {
	cluster    scopeRules
	namespaces map[string]*scopeRules
	// Attachments says where nodes look for signatures.
	Attachments attachments
}

// A Rule is the word of policy.json on the images in a scope.
type Rule struct {
	// Refused says why nodes do not run them; "" if they may.
	Refused string
	// Trust is what they require; nil for nothing. Its Reference is not set.
	Trust *Trust
}

func (r Rule) isEmpty() bool { return r.Refused == "" && r.Trust == nil }

// scopeRules are those of one policy.json.
type scopeRules struct{ byScope[Rule] }

// IsEmpty reports whether nodes require nothing, and look for no signatures.
func (p *Policy) IsEmpty() bool {
	return p.cluster.isEmpty() && len(p.namespaces) == 0 && p.Attachments.isEmpty()
}

func (r *scopeRules) isEmpty() bool {
	return !r.hasScopes() && r.rest.isEmpty()
}

// In returns the rules for pods of a namespace; "" stands for all that have none of their own.
func (p *Policy) In(namespace string) *scopeRules {
	if own := p.namespaces[namespace]; own != nil {
		return own
	}
	return &p.cluster
}

// LeavesAlone reports whether nothing in p is about a repository or a place in it.
func (p *Policy) LeavesAlone(name string) bool {
	if p.IsEmpty() {
		return true
	}
	if p.Attachments.mayCover(name) || !p.cluster.leavesAlone(name) {
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
	return !r.versioned && r.Find(name, "").isEmpty()
}

// OwnNamespaces returns the namespaces, sorted, whose pods have rules of their own.
func (p *Policy) OwnNamespaces() []string { return slices.Sorted(maps.Keys(p.namespaces)) }

// DiffersIn reports whether pods of a namespace may have other rules than others for images in a repository, "" for one that is not known.
func (p *Policy) DiffersIn(namespace, name string) bool {
	own := p.namespaces[namespace]
	if own == nil {
		return false
	}
	if name == "" || own.versioned || p.cluster.versioned {
		return true
	}
	return !own.Find(name, "").same(p.cluster.Find(name, ""))
}

func (r Rule) same(other Rule) bool {
	return (r.Refused == "") == (other.Refused == "") && r.Trust.Same(other.Trust)
}

// DifferingScopes returns the scopes on which two policies differ, and whether they differ on
// images that no scope covers.
func (p *Policy) DifferingScopes(other *Policy) (scopes []string, everything bool) {
	namespaces := map[string]bool{"": true}
	for _, of := range []*Policy{p, other} {
		for namespace := range of.namespaces {
			namespaces[namespace] = true
		}
	}
	for namespace := range namespaces {
		a, b := p.In(namespace), other.In(namespace)
		if !a.rest.same(b.rest) {
			return nil, true
		}
		a.eachDiffering(&b.byScope, Rule.same, func(scope string) { scopes = append(scopes, scope) })
	}
	return scopes, false
}
