package mirrors

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"github.com/openshift/runtime-utils/pkg/registries"

	_ "crypto/sha256" // reference.Parse knows only the digest algorithms that are linked in
)

// A Table holds the routes of one Set. It is safe for concurrent use.
type Table struct {
	conf   sysregistriesv2.V2RegistriesConf
	index  index
	policy signaturePolicy
	makers makers
}

// defaultSearch is where MCO's base registries.conf looks for short names.
var defaultSearch = []string{"registry.access.redhat.com", "docker.io"}

// Resolve works out the routes of s. The error, if any, is a *Rejection: nothing
// of s would reach a node.
func Resolve(s Set) (*Table, error) {
	if reasons := tooMuch(s.Entries()); len(reasons) > 0 {
		return nil, unjudged(reasons)
	}
	if reasons := validate(s); len(reasons) > 0 {
		return nil, rejection(reasons)
	}
	return ResolveUnchecked(s)
}

// ResolveUnchecked is Resolve without MCO's validation: what s says, though MCO
// would not apply it. It is the best guess at a configuration in force that has
// become invalid.
func ResolveUnchecked(s Set) (*Table, error) {
	if reasons := tooMuch(s.Entries()); len(reasons) > 0 {
		return nil, unjudged(reasons)
	}
	blocked := s.blockedRegistries()
	conf, err := generate(s, blocked)
	if err != nil {
		return nil, rejection([]string{fmt.Sprintf("the configuration cannot be generated: %v", err)})
	}
	if err := normalize(&conf); err != nil {
		return nil, rejection([]string{fmt.Sprintf("nodes could not read the generated file: %v", err)})
	}
	policy, err := newSignaturePolicy(s, blocked)
	if err != nil {
		return nil, rejection([]string{err.Error()})
	}
	conf, made := s.withFiles(conf)
	return &Table{conf: conf, index: newIndex(conf.Registries), policy: policy, makers: made}, nil
}

func rejection(reasons []string) *Rejection {
	slices.Sort(reasons)
	return &Rejection{Reasons: slices.Compact(reasons)}
}

func unjudged(reasons []string) *Rejection {
	r := rejection(reasons)
	r.TooMuch = true
	return r
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

// normalize does what sysregistriesv2 does to a file it has read
// (postProcessRegistries, private there): an entry without prefix gets its
// location for one, slashes at the end go, contradictions are errors. Such an
// error would be the end of every pull on every node.
func normalize(conf *sysregistriesv2.V2RegistriesConf) error {
	byScope := map[string]*sysregistriesv2.Registry{}
	var kept []sysregistriesv2.Registry
	for i := range conf.Registries {
		r := &conf.Registries[i]
		if err := normalizeRegistry(r); err != nil {
			return err
		}
		if other, ok := byScope[r.Prefix]; ok {
			if other.Insecure != r.Insecure || other.Blocked != r.Blocked {
				return fmt.Errorf("registry %q is defined twice with conflicting settings", r.Prefix)
			}
			continue // the first one stands
		}
		byScope[r.Prefix] = r
		kept = append(kept, *r)
	}
	slices.SortFunc(kept, func(a, b sysregistriesv2.Registry) int { return strings.Compare(a.Prefix, b.Prefix) })
	conf.Registries = kept
	return normalizeSearch(conf.UnqualifiedSearchRegistries)
}

func normalizeRegistry(r *sysregistriesv2.Registry) error {
	var err error
	if r.Location, err = normalizeLocation(r.Location); err != nil {
		return err
	}
	if r.Prefix, err = normalizeLocation(r.Prefix); err != nil {
		return err
	}
	if r.Prefix == "" {
		r.Prefix = r.Location
	}
	if r.Prefix == "" {
		return errors.New("an entry with neither location nor prefix")
	}
	if strings.HasPrefix(r.Prefix, "*.") && strings.ContainsAny(r.Prefix, "/@:") {
		return fmt.Errorf("wildcard %q is not of the form *.example.com", r.Prefix)
	}
	for i := range r.Mirrors {
		m := &r.Mirrors[i]
		if m.Location, err = normalizeLocation(m.Location); err != nil {
			return err
		}
		if m.Location == "" {
			return fmt.Errorf("an empty mirror of %q", r.Prefix)
		}
	}
	return nil
}

func normalizeLocation(s string) (string, error) {
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		return "", fmt.Errorf("location %q has a URI scheme", s)
	}
	return strings.TrimRight(s, "/"), nil
}

func normalizeSearch(search []string) error {
	for i, s := range search {
		var err error
		if search[i], err = normalizeLocation(s); err != nil {
			return err
		}
		if !wholeDomain.MatchString(search[i]) {
			return fmt.Errorf("invalid search registry %q", s)
		}
	}
	return nil
}

// wholeDomain is how sysregistriesv2 checks a search registry.
var wholeDomain = regexp.MustCompile("^" + reference.DomainRegexp.String() + "$")

// Config returns the registries.conf that nodes would get, normalised. The
// caller must not change it.
func (t *Table) Config() sysregistriesv2.V2RegistriesConf { return t.conf }

// Candidates returns the fully qualified references that a node tries for image,
// in order: one for each search registry if image is a short name, else one. The
// tag is dropped where there is a digest, and is "latest" where there is neither.
// The error says why no node could parse image.
func (t *Table) Candidates(image string) ([]string, error) {
	refs, err := t.candidates(image)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.String()
	}
	return names, nil
}

func (t *Table) candidates(image string) ([]reference.Named, error) {
	if isQualified(image) {
		ref, err := reference.ParseDockerRef(image)
		if err != nil {
			return nil, fmt.Errorf("image %q: %w", image, err)
		}
		return []reference.Named{ref}, nil
	}
	// A short name, as containers/image's package shortnames has it. CRI-O turns
	// the interactive modes off, which leaves every search registry in turn.
	var refs []reference.Named
	for _, registry := range t.conf.UnqualifiedSearchRegistries {
		ref, err := reference.ParseDockerRef(registry + "/" + image)
		if err != nil {
			return nil, fmt.Errorf("image %q at search registry %q: %w", image, registry, err)
		}
		refs = append(refs, ref)
	}
	if len(refs) == 0 {
		return nil, fmt.Errorf("image %q: a short name, and there are no search registries", image)
	}
	return refs, nil
}

// isQualified reports whether image names a registry, by the rule of package
// shortnames: what stands before the first slash has a dot or a port, or is
// "localhost".
func isQualified(image string) bool {
	host, _, found := strings.Cut(image, "/")
	return found && (strings.ContainsAny(host, ".:") || host == "localhost")
}

// Route returns what a node does to pull image. The error says why no node could
// parse image; a route that cannot be computed is not an error but Route.Err.
func (t *Table) Route(image string) (Route, error) {
	if ref, ok := parsePlain(image); ok {
		if route, ok := t.plainRoute(ref); ok {
			return route, nil
		}
	}
	return t.parsedRoute(image)
}

// parsedRoute is Route by containers/image alone.
func (t *Table) parsedRoute(image string) (Route, error) {
	refs, err := t.candidates(image)
	if err != nil {
		return Route{}, err
	}
	return t.route(refs), nil
}

func (t *Table) route(refs []reference.Named) Route {
	var (
		route  Route
		failed error

		allowed bool
	)
	for i, ref := range refs {
		sources, entry, err := t.sources(ref)
		if i == 0 {
			route.Entry = entry
		}
		why := t.policy.refuses(ref)
		if why != "" {
			route.Refused = why // unless another candidate is allowed
		} else {
			allowed = true
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue // the next candidate of a short name is another pull
		}
		for k := range sources {
			sources[k].Candidate, sources[k].Refused = i, why != ""
		}
		if len(refs) == 1 {
			route.Sources = sources
			break
		}
		route.Sources = append(route.Sources, sources...)
	}
	if len(route.Sources) == 0 {
		route.Err = failed
	}
	if allowed {
		route.Refused = ""
	}
	return route
}

// Compare returns the routes of image in two tables, and whether nodes would do
// different things; both routes are zero if not. The error says why no node
// could parse image with the tables of to. It saves most of the work where no
// entry of either table covers the image, which is the common case.
func Compare(from, to *Table, image string) (before, after Route, changed bool, err error) {
	if ref, ok := parsePlain(image); ok {
		if from.leavesAlone(ref.name) && to.leavesAlone(ref.name) {
			return Route{}, Route{}, false, nil
		}
		before, ok1 := from.plainRoute(ref)
		after, ok2 := to.plainRoute(ref)
		if ok1 && ok2 {
			return unlessEqual(before, after)
		}
	}
	refs, err := to.candidates(image)
	if err != nil {
		return Route{}, Route{}, false, err
	}
	if isQualified(image) {
		return unlessEqual(from.route(refs), to.route(refs))
	}
	// Of a short name, the tables may differ in their search registries.
	if before, err = from.parsedRoute(image); err != nil {
		before = Route{Err: err}
	}
	return unlessEqual(before, to.route(refs))
}

func unlessEqual(before, after Route) (Route, Route, bool, error) {
	if before.Equal(after) {
		return Route{}, Route{}, false, nil
	}
	return before, after, true, nil
}

// leavesAlone reports whether nothing in t is about a repository.
func (t *Table) leavesAlone(name string) bool {
	return t.policy.isEmpty() && t.index.find(name) == nil
}

// sources returns the places a node tries for ref, and the scope that covers it.
func (t *Table) sources(ref reference.Named) ([]PullSource, string, error) {
	reg := t.index.find(ref.Name())
	if reg == nil {
		return []PullSource{{Location: Location{Ref: ref.String()}}}, "", nil
	}
	pulls, err := reg.PullSourcesFromReference(ref)
	if err != nil {
		return nil, reg.Prefix, culprit(reg, ref, err)
	}
	sources := make([]PullSource, len(pulls))
	for i, p := range pulls {
		covering := reg
		if name := p.Reference.Name(); name != ref.Name() {
			covering = t.index.find(name)
		}
		sources[i] = PullSource{
			Location: Location{Ref: p.Reference.String(), Insecure: p.Endpoint.Insecure},
			Mirror:   i < len(pulls)-1, // containers/image puts the source last
		}
		if covering != nil && covering.Blocked {
			sources[i].Blocked, sources[i].BlockedBy = true, covering.Prefix
		}
	}
	return sources, reg.Prefix, nil
}

// culprit says which mirror of reg makes ref something that is no reference, as
// containers/image does not.
func culprit(reg *sysregistriesv2.Registry, ref reference.Named, err error) error {
	full := ref.String()
	matched := len(reg.Prefix)
	if suffix, ok := strings.CutPrefix(reg.Prefix, "*"); ok {
		matched = strings.Index(full, suffix) + len(suffix)
	}
	for _, m := range reg.Mirrors {
		rewritten := m.Location + full[matched:]
		if _, bad := reference.ParseNamed(rewritten); bad != nil {
			return fmt.Errorf("mirror %q would make it %q: %w", m.Location, rewritten, err)
		}
	}
	return err
}

// Has reports whether there is an entry for exactly this scope.
func (t *Table) Has(scope string) bool { return t.index.has(scope) }
