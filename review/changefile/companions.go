package changefile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Companions are the objects that oc-mirror writes beside mirror objects, and that are applied with
// them: catalogs, an UpdateService, and signatures of releases. They mostly name images at the mirror
// itself, which nodes pull once the objects are there.

// catalogKinds are those whose images package images knows.
var catalogKinds = map[schema.GroupKind]bool{
	{Group: "operators.coreos.com", Kind: "CatalogSource"}:      true,
	{Group: "olm.operatorframework.io", Kind: "ClusterCatalog"}: true,
}

var updateServiceKind = schema.GroupKind{Group: "updateservice.operator.openshift.io", Kind: "UpdateService"}

// companion takes an object that is no mirror object. It reports false for one that is none of these.
func (r *Reader) companion(at origin, kind schema.GroupKind, doc []byte) bool {
	var meta metav1.PartialObjectMetadata
	if r.Delete || json.Unmarshal(doc, &meta) != nil {
		return false
	}
	switch {
	case catalogKinds[kind]:
		r.catalog(at, kind, doc, meta)
	case kind == updateServiceKind:
		r.updateService(at, doc, meta)
	case kind == images.ConfigMapKind && metav1.HasLabel(meta.ObjectMeta, objects.SignatureLabel):
		r.releaseSignatures(at, doc, meta)
	default:
		return false
	}
	return true
}

func (r *Reader) catalog(at origin, kind schema.GroupKind, doc []byte, meta metav1.PartialObjectMetadata) {
	holder, err := images.Decode(kind, doc)
	switch {
	case err != nil:
		r.mistake(at, "%s: %v", kind.Kind, err)
	case meta.Name == "":
		r.mistake(at, "%s: metadata.name is empty", kind.Kind)
	default:
		r.bring(holder)
	}
}

// bring notes an object with the images that it names.
func (r *Reader) bring(holder images.Holder) {
	r.broughtBy = append(r.broughtBy, text.Line(holder.Kind+" "+strings.TrimPrefix(holder.Namespace+"/"+holder.Name, "/")))
	r.brought.Put(holder)
}

// updateService reads the image that its pods start with. The releases that it serves are a repository,
// which says nothing of the images in it.
func (r *Reader) updateService(at origin, doc []byte, meta metav1.PartialObjectMetadata) {
	var o struct {
		Spec struct {
			GraphDataImage string `json:"graphDataImage"`
		} `json:"spec"`
	}
	switch err := json.Unmarshal(doc, &o); {
	case err != nil:
		r.mistake(at, "UpdateService: %v", err)
	case meta.Name == "":
		r.mistake(at, "UpdateService: metadata.name is empty")
	case strings.TrimSpace(o.Spec.GraphDataImage) == "":
		r.mistake(at, "UpdateService %s: spec.graphDataImage: Required value", meta.Name)
	default:
		r.bring(images.Holder{Kind: "UpdateService", Namespace: meta.Namespace, Name: meta.Name, References: []images.Reference{
			{Image: strings.TrimSpace(o.Spec.GraphDataImage), Container: "spec.graphDataImage", Use: policy.Referenced},
		}})
	}
}

// signatureKey is that of a signature of a release ("sha256-<hex>-1").
var signatureKey = regexp.MustCompile(`^sha256-[0-9a-f]{64}-[0-9]+$`)

// releaseSignatures reads a ConfigMap that names no image. The Cluster Version Operator verifies its
// contents; a place where it finds nothing is a mistake.
func (r *Reader) releaseSignatures(at origin, doc []byte, meta metav1.PartialObjectMetadata) {
	var o struct {
		BinaryData map[string][]byte `json:"binaryData"`
	}
	if err := json.Unmarshal(doc, &o); err != nil {
		r.mistake(at, "ConfigMap %s: %v", meta.Name, err)
		return
	}
	if r.signatures == nil {
		r.signatures = map[string]bool{}
	}
	for key := range o.BinaryData { // the same object may come twice: oc-mirror writes it as YAML and as JSON
		r.signatures[meta.Name+" "+key] = true
		if !signatureKey.MatchString(key) {
			r.mistake(at, "ConfigMap %s: binaryData: Invalid value: %q: want sha256-DIGEST-NUMBER, as the Cluster Version Operator looks for it", meta.Name, key)
		}
	}
	if meta.Namespace != objects.ManagedNamespace {
		r.mistake(at, "ConfigMap %s: metadata.namespace: Invalid value: %q: the Cluster Version Operator looks for signatures in openshift-config-managed", meta.Name, meta.Namespace)
	}
}

// Brought returns the images that the change brings beside its mirror objects, and notes: on where they
// come from, and on what was found inside other objects or is not judged.
func (r *Reader) Brought() (brought []policy.Image, notes []string) {
	if len(r.broughtBy) > 0 {
		brought = r.brought.Images().ByReference()
		notes = append(notes, fmt.Sprintf("the change brings %s: %s as needed",
			text.Names(r.broughtBy, maxBroughtBy), text.Plural(len(brought), "image of its own counts", "images of its own count")))
	}
	if n := len(r.signatures); n > 0 {
		notes = append(notes, fmt.Sprintf("the change brings %s of releases, which the Cluster Version Operator verifies", text.Count(n, "signature")))
	}
	return brought, append(notes, r.notesInside()...)
}

// maxBroughtBy is how many objects a note names.
const maxBroughtBy = 5
