package mirrors

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"github.com/openshift/runtime-utils/pkg/registries"
)

// generateAll runs the generator and, where it fails for wildcard sources, once more
// without those.
func generateAll(s Set, blocked []string) (sysregistriesv2.V2RegistriesConf, []Reason) {
	conf, err := generate(s, blocked)
	if err == nil {
		return conf, nil
	}
	reasons := wildcardReasons(s, blocked)
	if len(reasons) > 0 {
		wildcards := map[string]bool{}
		for _, r := range reasons {
			wildcards[r.Scope] = true
		}
		conf, err = generate(s.without(wildcards), blocked)
	}
	if err != nil {
		conf = sysregistriesv2.V2RegistriesConf{}
		reasons = append(reasons, newReason(NotGenerated, err.Error(), fmt.Sprintf("the configuration cannot be generated: %v", err)))
	}
	return conf, reasons
}

// wildcardReasons says for which wildcard sources the generator fails: those whose
// mirrors an entry of the registry lists would inherit, which it cannot express
// (mirrorsAdjustedForNestedScope in runtime-utils). An entry inherits from the first
// source over it, digest mirrors first. Wildcards that would be the first if others were
// taken away are among them.
func wildcardReasons(s Set, blocked []string) []Reason {
	owners := map[string][]string{}
	for _, e := range s.Entries() {
		if e.HasMirror() {
			owners[e.Source] = append(owners[e.Source], NameOf(e.Object))
		}
	}
	sources := slices.Concat(s.mirroredSources(false), s.mirroredSources(true))
	heirs := map[string][]string{}
	listed := slices.Concat(s.Registries.InsecureRegistries, blocked)
	slices.Sort(listed)
	for _, scope := range slices.Compact(listed) {
		if len(owners[scope]) > 0 {
			continue
		}
		for _, source := range sources {
			if !registries.ScopeIsNestedInsideScope(scope, source) {
				continue
			}
			if !strings.HasPrefix(source, "*.") {
				break
			}
			if !slices.Contains(heirs[source], scope) { // it has mirrors of both types
				heirs[source] = append(heirs[source], scope)
			}
		}
	}
	var reasons []Reason
	for source, below := range heirs {
		offenders := slices.Clone(owners[source])
		for range below {
			offenders = append(offenders, imageCluster)
		}
		reasons = append(reasons, newReason(WildcardMirrors, source, fmt.Sprintf(
			"registries.conf cannot express that %s in the registry lists of Image cluster inherits the mirrors of wildcard source %q in %s",
			enumerate(below), source, enumerate(owners[source])), offenders...))
	}
	return reasons
}

// generate runs MCO's generator, with the blocked registries that it would use.
func generate(s Set, blocked []string) (sysregistriesv2.V2RegistriesConf, error) {
	var (
		tags    []*configv1.ImageTagMirrorSet
		digests []*configv1.ImageDigestMirrorSet
		legacy  []*operatorv1alpha1.ImageContentSourcePolicy
	)
	for _, o := range s.Objects {
		switch o := o.(type) {
		case *configv1.ImageTagMirrorSet:
			tags = append(tags, o)
		case *configv1.ImageDigestMirrorSet:
			digests = append(digests, o)
		case *operatorv1alpha1.ImageContentSourcePolicy:
			legacy = append(legacy, o)
		}
	}
	conf := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: slices.Clone(defaultSearch)}
	if search := s.Registries.ContainerRuntimeSearchRegistries; len(search) > 0 {
		conf.UnqualifiedSearchRegistries = slices.Clone(search)
	}
	err := registries.EditRegistriesConfig(&conf,
		s.Registries.InsecureRegistries, blocked, legacy, digests, tags)
	return conf, err
}

// defaultSearch is where MCO's base registries.conf looks for short names.
var defaultSearch = []string{"registry.access.redhat.com", "docker.io"}

// normalize does what sysregistriesv2 does to a file it has read
// (postProcessRegistries, private there): an entry without prefix gets its
// location for one, slashes at the end go, contradictions are errors. Such an
// error would be the end of every pull on every node.
func normalize(conf *sysregistriesv2.V2RegistriesConf) error {
	if reasons := normalizeAll(conf); len(reasons) > 0 {
		return errors.New(strings.TrimPrefix(rejection(reasons).Reasons[0].String(), unreadableFile))
	}
	return nil
}

// unreadableFile begins reasons about the file that MCO generates.
const unreadableFile = "nodes could not read the generated file: "

// normalizeAll is normalize, but returns every error separately.
func normalizeAll(conf *sysregistriesv2.V2RegistriesConf) []Reason {
	byScope := map[string]int{}
	spellings := map[string][]string{}
	contradictory := map[string]bool{}
	var kept []sysregistriesv2.Registry
	var reasons []Reason
	for _, r := range conf.Registries {
		spelling := cmp.Or(r.Prefix, r.Location)
		reasons = append(reasons, normalizeRegistry(&r)...)
		if r.Prefix == "" {
			continue // it cannot be read at all
		}
		spellings[r.Prefix] = append(spellings[r.Prefix], spelling)
		if i, ok := byScope[r.Prefix]; ok {
			if other := kept[i]; other.Insecure != r.Insecure || other.Blocked != r.Blocked {
				contradictory[r.Prefix] = true
			}
			continue // the first one stands
		}
		byScope[r.Prefix] = len(kept)
		kept = append(kept, r)
	}
	for scope := range contradictory {
		reasons = append(reasons, newReason(DefinedTwice, scope,
			fmt.Sprintf(unreadableFile+"registry %q is defined twice with conflicting settings", scope), spellings[scope]...))
	}
	slices.SortFunc(kept, func(a, b sysregistriesv2.Registry) int { return strings.Compare(a.Prefix, b.Prefix) })
	conf.Registries = kept
	return append(reasons, normalizeSearch(conf.UnqualifiedSearchRegistries)...)
}

// normalizeRegistry returns what cannot be read of r.
func normalizeRegistry(r *sysregistriesv2.Registry) []Reason {
	var bad []Reason
	clean := func(location *string) {
		was := *location
		var err error
		if *location, err = normalizeLocation(was); err != nil {
			bad = append(bad, unreadable(was, err))
		}
	}
	clean(&r.Location)
	clean(&r.Prefix)
	if len(bad) > 0 {
		return bad
	}
	if r.Prefix == "" {
		r.Prefix = r.Location
	}
	if r.Prefix == "" {
		return []Reason{unreadable("", errors.New("an entry with neither location nor prefix"))}
	}
	if strings.HasPrefix(r.Prefix, "*.") && strings.ContainsAny(r.Prefix, "/@:") {
		bad = append(bad, unreadable(r.Prefix, fmt.Errorf("wildcard %q is not of the form *.example.com", r.Prefix)))
	}
	for i := range r.Mirrors {
		was := r.Mirrors[i].Location
		clean(&r.Mirrors[i].Location)
		if strings.Trim(was, "/") == "" {
			bad = append(bad, unreadable(was, fmt.Errorf("an empty mirror of %q", r.Prefix)))
		}
	}
	return bad
}

// unreadable is the reason that a location cannot be read.
func unreadable(location string, err error) Reason {
	return newReason(Unreadable, location, fmt.Sprintf(unreadableFile+"%v", err))
}

func normalizeLocation(s string) (string, error) {
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		return "", fmt.Errorf("location %q has a URI scheme", s)
	}
	return strings.TrimRight(s, "/"), nil
}

func normalizeSearch(search []string) []Reason {
	var reasons []Reason
	for i, was := range search {
		var err error
		if search[i], err = normalizeLocation(was); err == nil && !wholeDomain.MatchString(search[i]) {
			err = fmt.Errorf("invalid search registry %q", was)
		}
		if err != nil {
			reasons = append(reasons, unreadable(was, err))
		}
	}
	return reasons
}

// wholeDomain is how sysregistriesv2 checks a search registry.
var wholeDomain = regexp.MustCompile("^" + reference.DomainRegexp.String() + "$")

// encodeConf writes conf as MCO does, by the same library from the same type.
func encodeConf(conf sysregistriesv2.V2RegistriesConf) []byte {
	var b bytes.Buffer
	_ = toml.NewEncoder(&b).Encode(conf) // the type has nothing that cannot be encoded
	return b.Bytes()
}
