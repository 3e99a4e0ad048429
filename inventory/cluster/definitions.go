package cluster

import (
	"crypto/sha256"
	"encoding/json"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definitions returns the sources of the CRDs of mirror objects, each by its name, which a role can grant. Deleting one deletes all
// objects of its kind, and changing one may change how they are served: no webhook is asked about either.
func definitions(dyn dynamic.Interface, tell func(object string)) []*source {
	return convert.Each(mirrorKinds, func(k mirrorKind) *source {
		name := k.definition()
		s := custom(dyn, definitionResource, "")
		s.Name, s.Object, s.PageSize = "customresourcedefinition "+name, name, 1
		s.Trim, s.Sink = trimDefinition, follow.One((&definitionHistory{name: name, tell: tell}).update)
		return s
	})
}

// DefinitionsRule returns what a ClusterRole has to permit for the CRDs of mirror objects to be
// followed.
func DefinitionsRule() rbacv1.PolicyRule {
	r := rule(definitionResource.Group, "", []string{"list", "watch"}, definitionResource.Resource)
	r.ResourceNames = convert.Each(mirrorKinds, mirrorKind.definition)
	return r
}

// A definition is a hash of the spec of a CRD, with whether all of its objects are being deleted.
type definition struct {
	spec   [sha256.Size]byte
	ending bool
}

func trimDefinition(o runtime.Object) any {
	crd := o.(*unstructured.Unstructured)
	spec, _ := json.Marshal(crd.Object["spec"]) // it was decoded from JSON
	return &definition{sha256.Sum256(spec), crd.GetDeletionTimestamp() != nil}
}

// A definitionHistory reports when a CRD changes.
type definitionHistory struct {
	name string
	tell func(object string)
	// known is set once it is known what it is; last is that, nil for none.
	known bool
	last  *definition
}

// update is a follow.One.
func (s *definitionHistory) update(value any, lacking error) {
	if lacking != nil {
		s.known = false
		return
	}
	d, _ := value.(*definition)
	same := d == s.last || d != nil && s.last != nil && *d == *s.last
	if s.known && !same {
		s.tell("CustomResourceDefinition " + s.name)
	}
	s.known, s.last = true, d
}
