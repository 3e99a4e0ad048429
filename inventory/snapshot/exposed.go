package snapshot

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// exposedKind is that of objects.Exposed in a dump.
var exposedKind = schema.GroupVersionKind{Group: "mirrorset-guard.io", Version: "v1alpha1", Kind: "Exposed"}

func (r *reader) exposedObject(data []byte) error {
	var o objects.Exposed
	if err := strictjson.Unmarshal(data, &o); err != nil {
		return err
	}
	r.exposed[o.Object] = o.Hosts
	return nil
}

// exposing returns what reads objects of a kind for the hosts that they have.
func exposing[T any, P interface {
	*T
	metav1.Object
}](kind string, hosts func(P) []string) func(*reader, []byte) error {
	return func(r *reader, data []byte) error {
		o := P(new(T))
		if err := json.Unmarshal(data, o); err != nil {
			return err
		}
		object := kind + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
		if all := hosts(o); len(all) > 0 {
			r.exposed[object] = all
		} else {
			delete(r.exposed, object)
		}
		return nil
	}
}
