package mirrors

import (
	"cmp"
	"slices"
	"strings"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
	configv1 "github.com/openshift/api/config/v1"
)

// A Puller is a kind of client that pulls images by mirror objects. All but nodes read the objects from
// the API, with no rollout between, and no validation of MCO's: where MCO rejects the objects, they follow
// them all the same. The zero value is Nodes.
type Puller int8

const (
	// Nodes pull for pods, by the registries.conf that MCO renders.
	Nodes Puller = iota
	// Builds are the build pods of BuildConfigs.
	Builds
	// Imports are those of ImageStreams' tags, by openshift-apiserver.
	Imports
	// PullThrough is the integrated registry, for tags with the referencePolicy Local.
	PullThrough
)

// String returns "nodes", "builds", "imports" or "pull-through".
func (p Puller) String() string {
	return [...]string{"nodes", "builds", "imports", "pull-through"}[p]
}

// OtherPullers are all but Nodes.
var OtherPullers = []Puller{Builds, Imports, PullThrough}

// buildSearch is where build pods look for short names (openshift-controller-manager,
// pkg/build/controller/build/build_controller.go, createBuildRegistriesConfigData).
var buildSearch = []string{"registry.redhat.io", "registry.access.redhat.com", "quay.io", "docker.io"}

// ResolveFor computes the routes that s, the objects in the API, gives pullers other than nodes. The
// error, if any, is a *Rejection: their routes cannot be computed.
func ResolveFor(p Puller, s Set) (*Table, error) {
	if reasons := tooMuch(s.Entries()); len(reasons) > 0 {
		return nil, rejection(reasons)
	}
	switch p {
	case Builds:
		return buildTable(s)
	case Imports:
		return importTable(s)
	case PullThrough:
		return pullThroughTable(s), nil
	default:
		return Resolve(s)
	}
}

// buildTable returns the routes of build pods. openshift-controller-manager makes them a registries.conf
// of their own, with the generator that MCO uses, and a policy.json of the registry lists alone: no image
// policy counts, and no file of a MachineConfig. Where the generator fails, builds keep what
// they had (build_controller.go, handleControllerConfig, createBuildSignaturePolicyData).
func buildTable(s Set) (*Table, error) {
	lists := s.Registries
	lists.ContainerRuntimeSearchRegistries = buildSearch
	return ResolveUnchecked(Set{Objects: s.Objects, Registries: lists})
}

// importTable returns the routes of imports (openshift-apiserver, pkg/image/apiserver:
// registry/imagestreamimport/rest.go, Create; importer/importer.go, getPullSources and blockedRegistry).
// They use the generator that MCO uses, and what comes of it in a way of their own:
//
//   - Its error is logged, and what it has made so far counts: all mirrors of all objects. A contradiction among
//     them is no error; it fails only for a wildcard source over an entry of the registry lists, from where on such
//     entries inherit no mirrors.
//   - Wildcards do not count: the prefix of an entry is replaced by its location, which a wildcard has not.
//   - The source is asked after the mirrors whatever the policy says: nothing looks at Blocked, but for an
//     entry of a whole registry that has no mirrors, which blocks all of the registry.
//   - See tableBesideNodes for the rest.
func importTable(s Set) (*Table, error) {
	b := build(Set{Registries: configv1.RegistrySources{ContainerRuntimeSearchRegistries: []string{"docker.io"}}}) // ParseDockerImageReference
	made, _ := generate(Set{Objects: s.Objects, Registries: configv1.RegistrySources{InsecureRegistries: s.Registries.InsecureRegistries}}, s.Registries.BlockedRegistries)
	b.conf.Registries = slices.DeleteFunc(made.Registries, func(r sysregistriesv2.Registry) bool { return r.Location == "" })
	if reasons := normalizeAll(&b.conf); len(reasons) > 0 {
		return nil, rejection(reasons)
	}
	var blocked []string
	for i := range b.conf.Registries {
		r := &b.conf.Registries[i]
		if r.Blocked && len(r.Mirrors) == 0 && !strings.Contains(r.Location, "/") {
			blocked = append(blocked, r.Prefix)
		}
		r.Blocked = false
	}
	for _, host := range blocked {
		b.conf.Registries = blockedWhole(b.conf.Registries, host)
	}
	return b.tableBesideNodes(), nil
}

// tableBesideNodes returns the table of those that read the objects by code of their own: a host does not cover its ports
// (isSubrepo in both), they may ask a blocked mirror, and one whose name cannot be computed leaves the source.
func (b *built) tableBesideNodes() *Table {
	t := b.table()
	t.besideNodes, t.index.exactHost = true, true
	return t
}

// blockedWhole returns the entries of imports where a registry is blocked: then all below it is, too.
func blockedWhole(entries []sysregistriesv2.Registry, host string) []sysregistriesv2.Registry {
	kept := slices.DeleteFunc(slices.Clone(entries), func(r sysregistriesv2.Registry) bool {
		return r.Prefix == host || strings.HasPrefix(r.Prefix, host+"/")
	})
	return sortedByPrefix(append(kept, sysregistriesv2.Registry{Prefix: host, Endpoint: sysregistriesv2.Endpoint{Location: host}, Blocked: true}))
}

func sortedByPrefix(entries []sysregistriesv2.Registry) []sysregistriesv2.Registry {
	slices.SortFunc(entries, func(a, b sysregistriesv2.Registry) int { return strings.Compare(a.Prefix, b.Prefix) })
	return entries
}

// pullThroughTable returns the routes of the integrated registry. It has no generator: for tags and for
// digests, the mirrors of every source that covers the repository are asked in the order of the objects,
// those of digests first, and then the source, whatever the policy says (openshift/image-registry,
// pkg/dockerregistry/server/simplelookupicsp.go, alternativeImageSources). Wildcards cover nothing.
//
// Left out is that a variable is kept there from entry to entry of an ImageDigestMirrorSet or ImageTagMirrorSet, so that the
// mirrors of all entries before it in the object are asked in front of its own: an image is then looked for at dozens of
// places that are not meant for it.
func pullThroughTable(s Set) *Table {
	entries := s.Entries()
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(pullThroughRank(a), pullThroughRank(b)), strings.Compare(a.Object.GetName(), b.Object.GetName()))
	})
	at := map[string][]int{} // entries, by source
	for i, e := range entries {
		if source := strings.TrimRight(e.Source, "/"); source != "" && !strings.HasPrefix(source, "*") {
			at[source] = append(at[source], i)
		}
	}
	b := build(Set{})
	b.conf.Registries = nil
	for source := range at {
		r := sysregistriesv2.Registry{Prefix: source, Endpoint: sysregistriesv2.Endpoint{Location: source}}
		for _, i := range covering(at, source) {
			for _, m := range entries[i].Mirrors {
				location := strings.TrimRight(m, "/") + strings.TrimPrefix(source, strings.TrimRight(entries[i].Source, "/"))
				if !slices.ContainsFunc(r.Mirrors, func(e sysregistriesv2.Endpoint) bool { return e.Location == location }) {
					r.Mirrors = append(r.Mirrors, sysregistriesv2.Endpoint{Location: location})
				}
			}
		}
		b.conf.Registries = append(b.conf.Registries, r)
	}
	sortedByPrefix(b.conf.Registries)
	return b.tableBesideNodes()
}

func pullThroughRank(e Entry) int {
	return slices.Index([]string{ContentPolicyGVK.Kind, DigestMirrorSetGVK.Kind, TagMirrorSetGVK.Kind}, KindOf(e.Object))
}

// covering returns, in order, the entries whose sources cover one.
func covering(at map[string][]int, source string) []int {
	var all []int
	for end := len(source); end > 0; end = strings.LastIndexByte(source[:end], '/') {
		all = append(all, at[source[:end]]...)
	}
	slices.Sort(all)
	return all
}
