package mirrors

import (
	"slices"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// Resolve computes the routes of s. The error, if any, is a *Rejection: nothing
// of s would reach a node.
func Resolve(s Set) (*Table, error) {
	if reasons := tooMuch(s.Entries()); len(reasons) > 0 {
		return nil, rejection(append(reasons, conflictingPolicies(s.Entries())...))
	}
	b, invalid := build(s), validate(s)
	reasons := slices.Concat(invalid, unlessSaid(b.reasons, invalid, s), conflictingScopes(s, b.lists), unroutableScopes(s, b.generated), tooLarge(b.size(s)))
	if len(reasons) > 0 {
		return nil, rejection(reasons)
	}
	return b.table(), nil
}

// ResolveUnchecked is Resolve without MCO's validation: what s says, though MCO
// would not apply it. It is the best guess at a configuration in force that has
// become invalid.
func ResolveUnchecked(s Set) (*Table, error) {
	if reasons := tooMuch(s.Entries()); len(reasons) > 0 {
		return nil, rejection(reasons)
	}
	b := build(s)
	if len(b.reasons) > 0 {
		return nil, rejection(b.reasons)
	}
	return b.table(), nil
}

// A built Set has been through the generator, whether MCO would apply it or not.
type built struct {
	conf sysregistriesv2.V2RegistriesConf
	// generated is conf without the files that MachineConfigs lay beside it.
	generated sysregistriesv2.V2RegistriesConf

	lists    policyLists
	policies policyfile.Files
	// files are the contents of policies, by their paths.
	files map[string][]byte
	trust *policyfile.Policy
	// encoded is the length of registries.conf as MCO would write it; or a bound of it, if
	// that is small enough.
	encoded int
	// makers are those of the entries that MachineConfigs lay beside the generated ones.
	makers makers
	// reasons say why there is no table.
	reasons []Reason
}

func (b *built) table() *Table {
	return &Table{conf: b.conf, index: newIndex(b.conf.Registries), trust: b.trust, makers: b.makers}
}

// size returns how long the files are that MCO makes of s.
func (b *built) size(s Set) int {
	return encodedSize(b.encoded, s.Registries.ContainerRuntimeSearchRegistries, b.files)
}

// build finds all reasons, where the generator stops at its first.
func build(s Set) *built {
	blocked := s.blockedRegistries()
	b := &built{lists: newPolicyLists(s, blocked)}
	b.conf, b.reasons = generateAll(s, blocked)
	encoded := b.conf // what MCO writes is not normalised
	b.reasons = append(b.reasons, normalizeAll(&b.conf)...)
	policies, rejected := s.policyFiles(b.lists)
	b.policies, b.reasons = policies, append(b.reasons, rejected...)
	b.policies.Attached = s.attachedScopes(b.conf)
	b.files = b.policies.ByPath()
	if b.encoded = encodedBound(encoded); b.size(s) > MaxEncoded {
		b.encoded = len(encodeConf(encoded))
	}
	b.generated = b.conf
	b.conf, b.makers = s.withFiles(b.conf)
	b.trust = s.withPolicyFiles(b.policies.Policy(), b.files)
	return b
}

// unlessSaid leaves out the reason that nodes could not read a source, a mirror or an entry of a list
// where MCO rejects its format: the two are one mistake.
func unlessSaid(reasons, invalid []Reason, s Set) []Reason {
	if len(invalid) == 0 {
		return reasons
	}
	listed := slices.Concat(s.Registries.InsecureRegistries, s.Registries.BlockedRegistries, s.Registries.ContainerRuntimeSearchRegistries)
	return slices.DeleteFunc(slices.Clone(reasons), func(r Reason) bool {
		switch r.Kind {
		case Unreadable:
			return !slices.Contains(listed, r.Scope) || !registries.IsValidRegistriesConfScope(r.Scope)
		case DefinedTwice:
			return slices.ContainsFunc(r.Offenders, func(o string) bool { return !slices.Contains(listed, o) && !validSource.MatchString(o) })
		default:
			return false
		}
	})
}
