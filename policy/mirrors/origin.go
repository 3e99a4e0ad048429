package mirrors

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// A Resolution is a Set with its Table. Together they say where each entry of registries.conf
// comes from.
type Resolution struct {
	Set Set
	*Table
}

// NewResolution resolves s. The error, if any, is a *Rejection.
func NewResolution(s Set) (Resolution, error) {
	t, err := Resolve(s)
	if err != nil {
		return Resolution{}, err
	}
	return Resolution{s, t}, nil
}

// The lists of Image cluster that make entries, as an Origin names them.
const (
	BlockedList  = "blockedRegistries of Image cluster"
	InsecureList = "insecureRegistries of Image cluster"
)

// An Origin is the source of an entry of registries.conf: objects, or a file.
type Origin struct {
	// MachineConfig is the object whose file has the entry, "" where it is in the file that
	// MCO generates. Nothing else is set then.
	MachineConfig string
	// Makers are the mirror objects and the lists of Image cluster that made the entry.
	Makers []string
	// InheritedFrom is the wider source whose mirrors the entry has, "" if they are its own
	// or it has none. InheritedMakers are the objects that have that source.
	InheritedFrom   string
	InheritedMakers []string
}

// Origin returns what made the entry of a scope.
func (r Resolution) Origin(scope string) Origin {
	if maker := r.Maker(scope); maker != "" {
		return Origin{MachineConfig: maker}
	}
	o := Origin{Makers: namesOf(r.entriesFor(scope)), InheritedFrom: r.inheritedFrom(scope)}
	isScope := func(listed string) bool { return sameScope(listed, scope) }
	if slices.ContainsFunc(r.Set.Registries.BlockedRegistries, isScope) {
		o.Makers = append(o.Makers, BlockedList)
	}
	if slices.ContainsFunc(r.Set.Registries.InsecureRegistries, isScope) {
		o.Makers = append(o.Makers, InsecureList)
	}
	if o.InheritedFrom != "" {
		o.InheritedMakers = namesOf(r.entriesFor(o.InheritedFrom))
	}
	return o
}

// A BlockOrigin is the reason why an entry of registries.conf blocks the references that it covers.
type BlockOrigin struct {
	// MachineConfig is as in Origin.
	MachineConfig string
	// Never are the objects that want NeverContactSource for the scope.
	Never []string
	// Listed is the entry of blockedRegistries that covers the scope, "" for none.
	Listed string
	// ListedItself is set where that entry is the scope.
	ListedItself bool
}

// BlockOrigin returns why the entry of a scope blocks.
func (r Resolution) BlockOrigin(scope string) BlockOrigin {
	if maker := r.Maker(scope); maker != "" {
		return BlockOrigin{MachineConfig: maker}
	}
	never := slices.DeleteFunc(r.entriesFor(scope), func(e Entry) bool { return e.Policy != configv1.NeverContactSource })
	o := BlockOrigin{Never: namesOf(never)}
	for _, listed := range r.Set.Registries.BlockedRegistries {
		if o.ListedItself = sameScope(listed, scope); o.ListedItself || registries.ScopeIsNestedInsideScope(scope, listed) {
			o.Listed = listed
			break
		}
	}
	return o
}

// entriesFor returns the entries of objects that made what registries.conf has for scope.
// One without any mirror but its source is ignored together with its policy
// (runtime-utils, mirrorsContainsARealMirror).
func (r Resolution) entriesFor(scope string) []Entry {
	return slices.DeleteFunc(r.Set.Entries(), func(e Entry) bool { return e.Source != scope || !e.HasMirror() })
}

// namesOf returns the objects of entries, each once, sorted.
func namesOf(entries []Entry) []string {
	names := convert.Each(entries, func(e Entry) string { return NameOf(e.Object) })
	slices.Sort(names)
	return slices.Compact(names)
}

// sameScope compares what an object says with a scope in registries.conf, which has no
// slash at its end.
func sameScope(listed, scope string) bool { return strings.TrimRight(listed, "/") == scope }

// inheritedFrom returns the wider source whose mirrors the entry for scope has. The
// generator goes through the sources of digest mirrors and then those of tag mirrors, each
// sorted, and the first that covers an entry without mirrors gives it all of its own.
func (r Resolution) inheritedFrom(scope string) string {
	entry := r.index.entry(scope)
	if entry == nil || len(entry.Mirrors) == 0 || len(r.entriesFor(scope)) > 0 {
		return ""
	}
	for _, ofTags := range []bool{false, true} {
		for _, source := range r.Set.mirroredSources(ofTags) {
			if source != scope && registries.ScopeIsNestedInsideScope(scope, source) {
				return source
			}
		}
	}
	return ""
}

// RegistriesConf returns the file that MCO writes, encoded by the same library from the
// same type. MCO's order of the entries, which means nothing to a node, comes from the
// lists it goes through; here they are sorted by scope, so that a diff shows what has
// changed.
func (r Resolution) RegistriesConf() (string, error) {
	conf := r.Config()
	conf.Registries = slices.Clone(conf.Registries)
	for i := range conf.Registries {
		if reg := &conf.Registries[i]; reg.Prefix == reg.Location {
			reg.Prefix = "" // as the generator has it; reading the file fills it in
		}
	}
	var b bytes.Buffer
	if len(r.Set.Registries.ContainerRuntimeSearchRegistries) > 0 {
		b.WriteString("# On nodes, this list of search registries stands in\n# " + SearchDropInPath + ".\n")
	}
	if err := toml.NewEncoder(&b).Encode(conf); err != nil {
		return "", fmt.Errorf("encoding registries.conf: %w", err)
	}
	return b.String(), nil
}
