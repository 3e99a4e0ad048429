package mirrors

import (
	_ "crypto/sha256" // reference.Parse knows only the digest algorithms that are linked in
	"errors"
	"fmt"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// A Table holds the routes of one Set. It is safe for concurrent use.
type Table struct {
	conf   sysregistriesv2.V2RegistriesConf
	index  index
	trust  *policyfile.Policy
	makers makers
	// besideNodes is set where the puller does not look whether a mirror is blocked, and asks the source also if the
	// name at a mirror cannot be computed.
	besideNodes bool
}

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
	names := convert.Each(refs, func(ref reference.Named) string { return ref.String() })
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

// Route returns what a node does to pull image for a pod of a namespace, "" for one without a
// signature policy of its own. The error says why no node could parse image; a route that
// cannot be computed is not an error but Route.Err.
func (t *Table) Route(image, namespace string) (Route, error) {
	if ref, ok := parsePlain(image); ok {
		if route, ok := t.plainRoute(ref, namespace); ok {
			return route, nil
		}
	}
	return t.parsedRoute(image, namespace)
}

// parsedRoute is Route by containers/image alone.
func (t *Table) parsedRoute(image, namespace string) (Route, error) {
	refs, err := t.candidates(image)
	if err != nil {
		return Route{}, err
	}
	return t.route(refs, namespace), nil
}

// plainRoute is Route for a plain reference. It reports false, and Route has to do the work,
// where the entry is a wildcard or is for digests only, where a place on the route is not plain,
// and where nodes cannot read what says where to look for signatures.
func (t *Table) plainRoute(ref plainRef, namespace string) (Route, bool) {
	reg := t.index.find(ref.name)
	if reg != nil && (strings.HasPrefix(reg.Prefix, "*") || reg.MirrorByDigestOnly) || t.trust.Attachments.Broken != "" {
		return Route{}, false
	}
	route := Route{}
	if reg == nil {
		route.Sources = []PullSource{{Location: Location{Ref: ref.full}}}
	} else {
		sources, ok := t.plainSources(ref, reg)
		if !ok {
			return Route{}, false
		}
		route.Sources, route.Entry = sources, reg.Prefix
	}
	if t.trust.IsEmpty() {
		return route, true
	}
	rule := t.ruleFor(ref.name, ref.full, namespace)
	route.Refused = rule.Refused
	for k := range route.Sources {
		s := &route.Sources[k]
		name := s.Ref[:len(s.Ref)-len(ref.version())]
		s.Refused, s.Trust, s.Attachments = rule.Refused != "", rule.Trust, t.trust.Attachments.Find(name, ref.version())
	}
	return route, true
}

// plainSources returns the places to which reg, the entry over ref, sends nodes.
func (t *Table) plainSources(ref plainRef, reg *sysregistriesv2.Registry) ([]PullSource, bool) {
	sources := make([]PullSource, 0, len(reg.Mirrors)+1)
	for i := range len(reg.Mirrors) + 1 {
		endpoint, mirror := &reg.Endpoint, i < len(reg.Mirrors)
		if mirror {
			endpoint = &reg.Mirrors[i]
			if !serves(endpoint, ref.isDigested()) {
				continue
			}
		}
		moved, ok := ref.at(endpoint.Location, len(reg.Prefix))
		if !ok {
			return nil, false
		}
		s := PullSource{Location: Location{Ref: moved.full, Insecure: endpoint.Insecure}, Mirror: mirror && moved.name != ref.name} // a source may be among its own mirrors
		if t.index.blocks && (!mirror || !t.besideNodes) {
			if covering := t.index.find(moved.name); covering != nil && covering.Blocked {
				s.Blocked, s.BlockedBy = true, covering.Prefix
			}
		}
		sources = append(sources, s)
	}
	return sources, true
}

// serves reports whether a mirror is asked for references by digest, or else for those by tag.
func serves(mirror *sysregistriesv2.Endpoint, digested bool) bool {
	switch mirror.PullFromMirror {
	case sysregistriesv2.MirrorByDigestOnly:
		return digested
	case sysregistriesv2.MirrorByTagOnly:
		return !digested
	default:
		return true
	}
}

func (t *Table) route(refs []reference.Named, namespace string) Route {
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
		rule := t.ruleFor(ref.Name(), ref.String(), namespace)
		if rule.Refused != "" {
			route.Refused = rule.Refused // unless another candidate is allowed
		} else {
			allowed = true
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue // the next candidate of a short name is another pull
		}
		for k := range sources {
			s := &sources[k]
			s.Candidate, s.Refused, s.Trust = i, rule.Refused != "", rule.Trust
			s.Attachments = t.trust.Attachments.Find(cutRepository(s.Ref))
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
	if broken := t.trust.Attachments.Broken; broken != "" {
		return Route{Entry: route.Entry, Err: &UnreadableError{broken}}
	}
	return route
}

// An UnreadableError is the reason for which nodes cannot read their configuration, and every
// pull fails there.
type UnreadableError struct{ why string }

// Error implements error.
func (e *UnreadableError) Error() string { return e.why }

// ruleFor returns what policy.json says of a reference, given its repository, its full form
// and the namespace of the pod.
func (t *Table) ruleFor(name, ref, namespace string) policyfile.Rule {
	rule := t.trust.In(namespace).Find(name, ref[len(name):])
	if rule.Trust != nil {
		trust := *rule.Trust
		trust.Reference = ref
		rule.Trust = &trust
	}
	return rule
}

// Requirement returns what nodes require of the signatures of a reference that Candidates returned, for a pod of a namespace,
// nil for nothing, and why they refuse to run it, "" if they may.
func (t *Table) Requirement(ref, namespace string) (required *policyfile.Trust, refused string) {
	name, _ := cutRepository(ref)
	rule := t.ruleFor(name, ref, namespace)
	return rule.Trust, rule.Refused
}

// cutRepository splits a reference that nodes ask for into its repository and its version.
func cutRepository(ref string) (name, version string) {
	name = RepositoryOf(ref)
	return name, ref[len(name):]
}

// Compare returns the routes of image in two tables for a pod of a namespace, and whether nodes
// would do different things; both routes are zero if not. The error says why no node
// could parse image with either table; if nodes can with from alone, after.Err says so. Compare
// saves most of the work where no entry of either table covers the image, the common case.
func Compare(from, to *Table, image, namespace string) (before, after Route, changed bool, err error) {
	if ref, ok := parsePlain(image); ok {
		if from.leavesAlone(ref.name) && to.leavesAlone(ref.name) {
			return Route{}, Route{}, false, nil
		}
		before, ok1 := from.plainRoute(ref, namespace)
		after, ok2 := to.plainRoute(ref, namespace)
		if ok1 && ok2 {
			return unlessEqual(before, after)
		}
	}
	refs, err := to.candidates(image)
	if err != nil {
		if before, unparsed := from.parsedRoute(image, namespace); unparsed == nil {
			return before, Route{Err: err}, true, nil
		}
		return Route{}, Route{}, false, err
	}
	if isQualified(image) {
		return unlessEqual(from.route(refs, namespace), to.route(refs, namespace))
	}
	// For a short name, the tables may differ in their search registries.
	if before, err = from.parsedRoute(image, namespace); err != nil {
		before = Route{Err: err}
	}
	return unlessEqual(before, to.route(refs, namespace))
}

func unlessEqual(before, after Route) (Route, Route, bool, error) {
	if before.Equal(after) {
		return Route{}, Route{}, false, nil
	}
	return before, after, true, nil
}

// leavesAlone reports whether nothing in t is about a repository.
func (t *Table) leavesAlone(name string) bool {
	return t.index.find(name) == nil && t.trust.LeavesAlone(name)
}

// sources returns the places a node tries for ref, and the scope that covers it.
func (t *Table) sources(ref reference.Named) ([]PullSource, string, error) {
	reg := t.index.find(ref.Name())
	if reg == nil {
		return []PullSource{{Location: Location{Ref: ref.String()}}}, "", nil
	}
	pulls, err := reg.PullSourcesFromReference(ref)
	if err != nil && t.besideNodes {
		return []PullSource{{Location: Location{Ref: ref.String(), Insecure: reg.Insecure}}}, reg.Prefix, nil
	}
	if err != nil {
		return nil, reg.Prefix, culprit(reg, ref, err)
	}
	sources := make([]PullSource, len(pulls))
	for i, p := range pulls {
		covering := reg
		if name := p.Reference.Name(); name != ref.Name() && !t.besideNodes {
			covering = t.index.find(name)
		}
		sources[i] = PullSource{
			Location: Location{Ref: p.Reference.String(), Insecure: p.Endpoint.Insecure},
			Mirror:   i < len(pulls)-1 && p.Reference.Name() != ref.Name(), // containers/image puts the source last, which may be among its mirrors, too
		}
		if covering != nil && covering.Blocked {
			sources[i].Blocked, sources[i].BlockedBy = true, covering.Prefix
		}
	}
	return sources, reg.Prefix, nil
}

// Has reports whether there is an entry for exactly this scope.
func (t *Table) Has(scope string) bool { return t.index.entry(scope) != nil }

// OwnPolicies returns the namespaces, sorted, whose pods may pull an image under another
// signature policy than others; none in most clusters.
func (t *Table) OwnPolicies() []string { return t.trust.OwnNamespaces() }

// DiffersIn reports whether pods of a namespace may pull image under another signature policy
// than those of namespaces without one of their own.
func (t *Table) DiffersIn(namespace, image string) bool {
	if t.trust.In(namespace) == t.trust.In("") {
		return false
	}
	name, _ := Repository(image)
	return t.trust.DiffersIn(namespace, name)
}

// Maker returns the MachineConfig whose file has the entry of a scope, "" where the
// generated file has it.
func (t *Table) Maker(scope string) string { return t.makers[scope] }
