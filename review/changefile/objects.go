package changefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/mirrorset-guard/mirrorset-guard/internal/crd"
	"github.com/mirrorset-guard/mirrorset-guard/internal/onedoc"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// strangers counts objects of other kinds, by how messages name them.
type strangers map[string]int

func (s strangers) String() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if n := s[name]; n > 1 {
			name = fmt.Sprintf("%s (%d)", name, n)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ") + ": " + mirrors.ErrKind.Error()
}

// eachDocument calls take with each document in doc, one of YAML or any number of JSON, as JSON, and
// its place in doc; or with err, if doc could not be read.
func eachDocument(doc []byte, err error, take func(json []byte, at span, err error)) {
	whole := span{0, len(doc)}
	if err != nil {
		take(nil, whole, err)
		return
	}
	if trimmed := bytes.TrimSpace(doc); len(trimmed) > 0 && trimmed[0] == '{' {
		if spans, ok := jsonStream(doc); ok {
			for _, at := range spans {
				d := doc[at.from:at.to]
				take(d, at, duplicate(d))
			}
			return
		}
	}
	data, err := onedoc.JSON(doc)
	if err != nil {
		take(nil, whole, fmt.Errorf("error converting YAML to JSON: %w", err))
		return
	}
	take(data, whole, duplicate(doc))
}

func jsonStream(doc []byte) (spans []span, ok bool) {
	for decoder := json.NewDecoder(bytes.NewReader(doc)); ; {
		var d json.RawMessage
		err := decoder.Decode(&d)
		if err != nil {
			return spans, errors.Is(err, io.EOF)
		}
		end := int(decoder.InputOffset())
		spans = append(spans, span{end - len(d), end})
	}
}

// duplicate objects to keys that doc has twice, if it may be a mirror object: one of them
// is lost before the API server sees it.
func duplicate(doc []byte) error {
	if !slices.ContainsFunc(kindsOfUse, func(kind string) bool { return bytes.Contains(doc, []byte(kind)) }) {
		return nil
	}
	return onedoc.Duplicate(doc)
}

var kindsOfUse = []string{
	mirrors.TagMirrorSetGVK.Kind, mirrors.DigestMirrorSetGVK.Kind, mirrors.ContentPolicyGVK.Kind,
	mirrors.ClusterPolicyGVK.Kind, mirrors.NamespacePolicyGVK.Kind, mirrors.PinnedSetGVK.Kind, mirrors.MachineConfigKind, "registrySources",
}

// A header is the part of a document that has to be known to read the rest. Names of fields
// count with their case, as for an API server.
type header struct {
	metav1.TypeMeta `json:",inline"`
	Items           *[]json.RawMessage `json:"items"`
}

// document reads an object, or the items of a list however deep. An item is what kind
// says, unless it says so itself. It returns how many objects of each other kind it left
// out. An empty document holds nothing.
func (r *Reader) document(at origin, doc []byte, kind metav1.TypeMeta) strangers {
	if len(doc) == 0 || string(doc) == "null" {
		return nil
	}
	if doc[0] != '{' {
		r.mistake(at, "not an object")
		return nil
	}
	var h header
	if err := utiljson.Unmarshal(doc, &h); err != nil {
		r.mistake(at, "%v", err)
		return nil
	}
	if h.Kind == "" && h.APIVersion == "" && kind.Kind != "" {
		h.TypeMeta = kind
		doc = withKind(doc, kind)
	}
	switch {
	case h.Kind == "":
		return r.withoutKind(at, doc)
	case isList(h):
		return r.list(at, h)
	default:
		return r.object(at, h.GroupVersionKind(), doc)
	}
}

// isList reports whether h is a List, or a typed one. A stranger's kind may end so too,
// and be none.
func isList(h header) bool {
	name, found := strings.CutSuffix(h.Kind, "List")
	if !found || h.Items != nil {
		return found
	}
	return name == "" || mirrors.IsKind(h.GroupVersionKind().GroupVersion().WithKind(name))
}

func (r *Reader) list(at origin, h header) strangers {
	if h.Items == nil {
		r.mistake(at, "a %s without items", h.Kind)
		return nil
	}
	var kind metav1.TypeMeta
	if name := strings.TrimSuffix(h.Kind, "List"); name != "" {
		kind = metav1.TypeMeta{APIVersion: h.APIVersion, Kind: name}
	}
	all := strangers{}
	for i, item := range *h.Items {
		for name, n := range r.document(at.item(i), item, kind) {
			all[name] += n
		}
	}
	return all
}

// withKind writes kind into an item of a typed list, which does not repeat it.
func withKind(doc []byte, kind metav1.TypeMeta) []byte {
	var object map[string]any
	if err := utiljson.Unmarshal(doc, &object); err != nil || object == nil {
		return doc
	}
	object["apiVersion"], object["kind"] = kind.APIVersion, kind.Kind
	data, err := json.Marshal(object)
	if err != nil {
		return doc
	}
	return data
}

// withoutKind takes a document without a kind: Helm values in a folder of
// manifests, or an object with a mistake.
func (r *Reader) withoutKind(at origin, doc []byte) strangers {
	var fields map[string]json.RawMessage
	if err := utiljson.Unmarshal(doc, &fields); err != nil {
		r.mistake(at, "%v", err)
		return nil
	}
	if fields["imageDigestSources"] != nil || fields["imageContentSources"] != nil {
		r.lookInside(at, schema.GroupVersionKind{Kind: "install-config"}, doc)
		return nil
	}
	for _, field := range []string{"kind", "apiVersion", "metadata", "spec", "items"} {
		for name := range fields {
			if strings.EqualFold(field, name) {
				r.mistake(at, "kind is not set, and %s is: what object is it?", name)
				return nil
			}
		}
	}
	return strangers{"(no kind)": 1}
}

// object reads one object.
func (r *Reader) object(at origin, gvk schema.GroupVersionKind, doc []byte) strangers {
	if want, ok := mirrors.Meant(gvk); ok {
		r.mistake(at, "there is no kind %s in %s; write apiVersion: %s, kind: %s",
			gvk.Kind, orNoVersion(gvk), want.GroupVersion(), want.Kind)
		return nil
	}
	if gvk.GroupKind() == machineConfigKind {
		r.machineConfig(at, doc)
		return nil
	}
	object, err := named(gvk, doc)
	if errors.Is(err, mirrors.ErrKind) {
		if r.companion(at, gvk.GroupKind(), doc) || r.lookInside(at, gvk, doc) {
			return nil
		}
		return strangers{strings.TrimSpace(gvk.GroupVersion().String() + " " + gvk.Kind): 1}
	}
	if err != nil {
		r.mistake(at, "%v", err)
		return nil
	}
	name := strings.TrimSpace(mirrors.NameOf(object))
	r.origins = append(r.origins, &objectOrigin{object: name, origin: at})
	if r.Delete { // only the name counts, also of an object that could not be created
		r.keep(at, object)
		return nil
	}
	e := entry{origin: at, gvk: gvk, doc: doc}
	r.read = append(r.read, e)
	r.apply(e, doc, name, nil)
	return nil
}

// apply takes doc, which is what e makes of the object in force: old, nil for none.
func (r *Reader) apply(e entry, doc []byte, name string, old []byte) {
	var mistakes []string
	if crd.Knows(e.gvk) {
		for _, m := range crd.Validate(e.gvk, doc, old) {
			mistakes = append(mistakes, text.Line(fmt.Sprintf("%s: %s: %v", e.origin.name, name, m)))
		}
	}
	if len(mistakes) > 0 {
		r.mistakes = append(r.mistakes, mistakes...)
		r.invalid++
		return
	}
	object, err := mirrors.Parse(doc)
	switch {
	case err != nil:
		r.mistakes = append(r.mistakes, text.Line(fmt.Sprintf("%s: %v", e.origin.name, err)))
	case object.GetName() == "":
		r.mistakes = append(r.mistakes, text.Line(fmt.Sprintf("%s: %s: metadata.name is empty", e.origin.name, mirrors.KindOf(object))))
	default:
		r.objects = append(r.objects, object)
	}
}

func (r *Reader) keep(at origin, object mirrors.Object) {
	if object.GetName() == "" {
		r.mistake(at, "%s: metadata.name is empty", mirrors.KindOf(object))
		return
	}
	r.deleted = append(r.deleted, object)
}

func orNoVersion(gvk schema.GroupVersionKind) string {
	if gvk.Version == "" {
		return "no apiVersion"
	}
	return gvk.GroupVersion().String()
}
