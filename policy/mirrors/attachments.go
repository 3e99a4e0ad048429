package mirrors

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/opencontainers/go-digest"
	"github.com/openshift/runtime-utils/pkg/registries"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/onedoc"
)

// AttachmentsPath is the file in which MCO has nodes look for signatures of the images that
// policies are about, and at their mirrors.
const AttachmentsPath = "/etc/containers/registries.d/sigstore-registries.yaml"

// isAttachmentsFile reports whether nodes read the file at path for where to look for
// signatures (containers/image docker/registries_d.go, loadAndMergeConfig).
func isAttachmentsFile(file string) bool {
	return path.Dir(file) == path.Dir(AttachmentsPath) && path.Ext(file) == ".yaml"
}

// attachments are the places at which nodes look for the signatures attached to an image, by the
// files of /etc/containers/registries.d. Unlike a policy, they are looked up by the name of
// the place.
type attachments struct {
	byScope[bool]
	// broken says why nodes cannot read the files, which ends every pull there; "" if they can.
	broken string
}

func (a *attachments) isEmpty() bool { return !a.hasScopes() && !a.rest && a.broken == "" }

// mayCover reports whether nodes may look for signatures at a place in a repository.
func (a *attachments) mayCover(name string) bool {
	return a.versioned || a.rest || a.broken != "" || a.find(name, "")
}

// differingScopes returns the scopes at which nodes look for signatures by one of the two only,
// and whether they differ everywhere.
func (a *attachments) differingScopes(b *attachments) (scopes map[string]bool, everywhere bool) {
	if a.rest != b.rest || a.broken != b.broken {
		return nil, true
	}
	scopes = map[string]bool{}
	a.eachDiffering(&b.byScope, func(on, was bool) bool { return on == was }, func(scope string) { scopes[scope] = true })
	return scopes, false
}

// An attachmentsFile is the part of a file in registries.d that says so.
type attachmentsFile struct {
	Default *attachmentsEntry           `json:"default-docker,omitempty"`
	Docker  map[string]attachmentsEntry `json:"docker,omitempty"`
}

type attachmentsEntry struct {
	Use *bool `json:"use-sigstore-attachments,omitempty"`
}

// newAttachments merges files, by path, as nodes do. Two entries for one scope are an error there, and
// end every pull.
func newAttachments(files map[string][]byte) attachments {
	var a attachments
	from := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var file attachmentsFile
		if err := onedoc.Unmarshal(files[name], &file); err != nil {
			a.broken = fmt.Sprintf("%s cannot be read: %v", name, err)
			continue
		}
		if file.Default != nil {
			a.claim(from, "default-docker", name)
			a.rest = file.Default.Use != nil && *file.Default.Use
		}
		for scope, entry := range file.Docker {
			a.claim(from, scope, name)
			if entry.Use == nil {
				continue // a wider scope may say
			}
			a.put(scope, *entry.Use)
		}
	}
	return a
}

// claim notes which file speaks of a scope.
func (a *attachments) claim(from map[string]string, scope, file string) {
	if other, ok := from[scope]; ok && a.broken == "" {
		a.broken = fmt.Sprintf("%q is defined both in %s and in %s", scope, other, file)
	}
	from[scope] = file
}

// attachedScopes returns the scopes that MCO writes to AttachmentsPath: those of the policies
// and, by the generated registries.conf, the mirrors of these and of the entries inside them
// (generateSigstoreRegistriesdConfig).
func (s Set) attachedScopes(conf sysregistriesv2.V2RegistriesConf) map[string]bool {
	scopes := map[string]bool{}
	if len(s.Policies) == 0 {
		return scopes
	}
	index := newIndex(conf.Registries)
	for _, u := range s.attachedPolicies() {
		scopes[u.scope] = true
		u.eachEntry(conf, func(scope string) {
			if r := index.find(scope); r != nil {
				endpoints, _ := endpointsOf(r, scope) // unroutableScopes reports the error
				for _, endpoint := range endpoints {
					scopes[endpoint] = true
				}
			}
		})
	}
	return scopes
}

// attachedPolicies returns the scopes of policies, but for those that MCO skips.
func (s Set) attachedPolicies() []scopeUse {
	cluster, namespaced := s.scopes()
	namespaced = slices.DeleteFunc(namespaced, func(u scopeUse) bool { return u.isSkipped(cluster, nil) })
	return slices.Concat(cluster, namespaced)
}

// eachEntry calls f for the scope of u and for the entries of registries.conf inside it.
func (u scopeUse) eachEntry(conf sysregistriesv2.V2RegistriesConf, f func(scope string)) {
	f(u.scope)
	for i := range conf.Registries {
		if scope := conf.Registries[i].Prefix; scope != u.scope && registries.ScopeIsNestedInsideScope(scope, u.scope) {
			f(scope)
		}
	}
}

// endpointsOf returns the names of the places that r, the entry over scope, sends it to, as MCO
// makes them (addScopeMirrorsSigstoreRegistriesdConfig): by a digest and by a tag of the scope,
// below it if it is a host. The error says why a mirror's name cannot be made of it, for which
// MCO writes nothing at all.
func endpointsOf(r *sysregistriesv2.Registry, scope string) ([]string, error) {
	const below = "/a"
	if strings.HasPrefix(scope, "*.") {
		scope = "matched" + scope[1:]
	}
	isHost := !strings.Contains(scope, "/")
	if isHost {
		scope += below
	}
	parsed, err := reference.Parse(scope)
	if err != nil {
		return nil, err
	}
	named, ok := parsed.(reference.Named)
	if !ok {
		return nil, fmt.Errorf("%q is not a repository", scope)
	}
	named = reference.TrimNamed(named)
	digested, err := reference.WithDigest(named, digest.Digest("sha256:"+strings.Repeat("a", 64)))
	if err != nil {
		return nil, err
	}
	tagged, err := reference.WithTag(named, "aaa")
	if err != nil {
		return nil, err
	}
	var endpoints []string
	for _, ref := range []reference.Named{digested, tagged} {
		pulls, err := r.PullSourcesFromReference(ref)
		if err != nil {
			return nil, explainRewrite(r, ref, err)
		}
		for _, p := range pulls {
			if p.Endpoint.Location == "" { // the source of an entry with a wildcard
				continue
			}
			endpoint := p.Reference.Name()
			if isHost {
				endpoint = strings.TrimSuffix(endpoint, below)
			}
			endpoints = append(endpoints, endpoint)
		}
	}
	return endpoints, nil
}

// encodeAttachments writes AttachmentsPath as MCO does.
func encodeAttachments(scopes map[string]bool) []byte {
	file := attachmentsFile{Docker: map[string]attachmentsEntry{}}
	for scope := range scopes {
		file.Docker[scope] = attachmentsEntry{Use: new(true)}
	}
	data, err := yaml.Marshal(file)
	if err != nil {
		panic(err) // it has nothing that YAML does not know
	}
	return data
}
