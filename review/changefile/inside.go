package changefile

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Mirror objects come inside others: in the data of ConfigMaps, in Policies and ManifestWorks of Advanced
// Cluster Management, in Templates and SyncSets. Others say in fields of their own what only clusters of
// their own follow. Which kinds do so is no closed list: whatever is in an object is looked at.

// elsewhere are the fields by which other objects than those of mirrors say where to pull from: of
// install-config.yaml, HostedCluster and AgentClusterInstall, and the lists of mirror objects without the object.
var elsewhere = []string{"imageDigestSources", "imageContentSources", "imageDigestMirrors", "imageTagMirrors", "repositoryDigestMirrors"}

// notFollowed are kinds that say what a tool is to make mirror objects of, by the reason.
var notFollowed = map[string]string{
	"ImageSetConfiguration":       "it says what oc-mirror is to mirror: check what that writes (cluster-resources)",
	"DeleteImageSetConfiguration": "it says what oc-mirror is to delete: deletion judges what that writes",
}

var (
	// inText finds a text that has a mirror object, and fileInText one that has a registries.conf.
	inText     = regexp.MustCompile(`["']?kind["']?\s*:\s*["']?(Image(TagMirrorSet|DigestMirrorSet|ContentSourcePolicy)|(Cluster)?ImagePolicy|PinnedImageSet|MachineConfig)\b`)
	fileInText = regexp.MustCompile(`(?m)^\s*\[\[registry(\.mirror)?\]\]`)
	fieldIn    = regexp.MustCompile(`["']?(imageDigestSources|imageContentSources)["']?\s*:`)
	// template finds what a tool has yet to fill in.
	template = regexp.MustCompile(`\{\{|\$\{`)
)

// lookInside takes the mirror objects inside an object, or in a document without a kind, and names what else in it
// is about mirrors. It reports whether there was anything.
func (r *Reader) lookInside(at origin, gvk schema.GroupVersionKind, doc []byte) bool {
	if why := notFollowed[gvk.Kind]; why != "" {
		r.leave("%s: %s is not judged: %s", at.name, gvk.Kind, why)
		return true
	}
	var object map[string]any
	if gvk.Kind == "CustomResourceDefinition" || json.Unmarshal(doc, &object) != nil {
		return false
	}
	unstructured.RemoveNestedField(object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	s := search{Reader: r, at: at, in: gvk.Kind}
	s.fields("", object)
	return s.found
}

// A search looks for mirrors in one object.
type search struct {
	*Reader
	at    origin
	in    string // its kind
	found bool
}

func (s *search) value(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if kind := kindIn(v); kind.Kind != "" && isMirrorKind(kind) {
			s.take(path, kind, v)
			return
		}
		s.fields(path, v)
	case []any:
		for i, item := range v {
			s.value(fmt.Sprintf("%s[%d]", path, i), item)
		}
	case string:
		s.text(path, v)
	}
}

func (s *search) fields(path string, fields map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		below := strings.TrimPrefix(path+"."+name, ".")
		list, _ := fields[name].([]any)
		compliance, _ := fields["complianceType"].(string)
		switch lists, _ := fields[name].(map[string]any); {
		case slices.Contains(elsewhere, name) && len(list) > 0, name == "registrySources" && len(lists) > 0 && s.in != mirrors.ImageConfigGVK.Kind:
			s.leave(below, "this cluster's nodes do not follow it")
		case name == "objectDefinition" && strings.EqualFold(compliance, "mustnothave") && isMirrorKind(kindIn(lists)):
			s.leave(below, "it is to be deleted: check the object itself with --delete")
		default:
			s.value(below, fields[name])
		}
	}
}

// leave names a part of the object that is not judged.
func (s *search) leave(path, why string) {
	s.found = true
	s.Reader.leave("%s: %s of this %s is not judged: %s", s.at.name, path, s.in, why)
}

// take takes a mirror object at path, if it is whole.
func (s *search) take(path string, kind schema.GroupVersionKind, object map[string]any) {
	data, err := json.Marshal(object)
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	switch {
	case err != nil || name == "" || object["spec"] == nil || s.in == "Kustomization":
		s.leave(path, "it is no whole "+kind.Kind)
	case template.Match(data):
		s.leave(path, "it is a template of "+kind.Kind+": check what it is filled in to")
	case s.Delete:
		s.leave(path, "what deleting the "+s.in+" does to it is not known: check the "+kind.Kind+" itself with --delete")
	default:
		s.found = true
		s.inside = append(s.inside, text.Line(fmt.Sprintf("%s %s (%s, %s of this %s)", kind.Kind, name, s.at.name, path, s.in)))
		s.object(origin{s.at.name + ", " + path, s.at.in, s.at.items}, kind, data)
	}
}

// text looks at documents in a text, as the data of a ConfigMap.
func (s *search) text(path, value string) {
	switch {
	case fileInText.MatchString(value):
		s.leave(path, "it is a registries.conf, for something else than this cluster's nodes")
	case template.MatchString(value) && inText.MatchString(value):
		s.leave(path, "it is a template: check what it is filled in to")
	case inText.MatchString(value) || fieldIn.MatchString(value):
		eachText(bufio.NewReader(strings.NewReader(value)), func(doc []byte, _ int, err error) {
			eachDocument(doc, err, func(data []byte, _ span, err error) {
				var v map[string]any
				if err != nil || json.Unmarshal(data, &v) != nil {
					s.leave(path, "it names a mirror object, and cannot be read")
					return
				}
				s.value(path, v)
			})
		})
	}
}

func kindIn(object map[string]any) schema.GroupVersionKind {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return schema.FromAPIVersionAndKind(version, kind)
}

// isMirrorKind reports whether objects of this kind are judged, or a mistake for one that is.
func isMirrorKind(gvk schema.GroupVersionKind) bool {
	return mirrors.IsKind(gvk) || gvk.GroupKind() == machineConfigKind
}

// NotJudged returns what of the change is not judged, a line each: objects of other kinds by document, and parts
// of objects that are about mirrors.
func (r *Reader) NotJudged() []string { return slices.Concat(r.leftOut, r.unjudged) }

// notesInside names the objects found inside others, and those that are not judged.
func (r *Reader) notesInside() (notes []string) {
	if len(r.inside) > 0 {
		notes = append(notes, "judged as if applied to this cluster: "+text.Names(r.inside, maxBroughtBy))
	}
	if len(r.leftOut) > 0 {
		notes = append(notes, text.Names(r.leftOut, maxBroughtBy))
	}
	at := map[string][]string{} // places, by the objects that are not judged
	var whats []string
	for _, line := range r.unjudged {
		where, what, _ := strings.Cut(line, ": ")
		if at[what] == nil {
			whats = append(whats, what)
		}
		at[what] = append(at[what], where)
	}
	return append(notes, convert.Each(whats, func(what string) string { return text.Names(at[what], maxBroughtBy) + ": " + what })...)
}
