package policyfile

import (
	"fmt"
	"maps"
	"path"
	"slices"

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
	// Broken says why nodes cannot read the files, which ends every pull there; "" if they can.
	Broken string
}

func (a *attachments) isEmpty() bool { return !a.hasScopes() && !a.rest && a.Broken == "" }

// mayCover reports whether nodes may look for signatures at a place in a repository.
func (a *attachments) mayCover(name string) bool {
	return a.versioned || a.rest || a.Broken != "" || a.Find(name, "")
}

// DifferingScopes returns the scopes at which nodes look for signatures by one of the two only,
// and whether they differ everywhere.
func (a *attachments) DifferingScopes(b *attachments) (scopes map[string]bool, everywhere bool) {
	if a.rest != b.rest || a.Broken != b.Broken {
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
			a.Broken = fmt.Sprintf("%s cannot be read: %v", name, err)
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
	if other, ok := from[scope]; ok && a.Broken == "" {
		a.Broken = fmt.Sprintf("%q is defined both in %s and in %s", scope, other, file)
	}
	from[scope] = file
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
