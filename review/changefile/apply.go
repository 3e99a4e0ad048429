package changefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Current returns the object in force with the kind and the name of o, as JSON; nil if there is
// none.
type Current func(o mirrors.Object) ([]byte, error)

// DependsOnCurrent reports whether EditOn may differ from Edit: there is an object
// that may be invalid only as a creation, or Image cluster, which is mostly given in part.
func (r *Reader) DependsOnCurrent() bool {
	return r.invalid > 0 || slices.ContainsFunc(r.read, func(e entry) bool { return e.gvk == mirrors.ImageConfigGVK })
}

// EditOn is Edit for objects that may be in force already. Parts that were invalid before and are not touched are not mistakes,
// and Image cluster is merged with the one in force as oc apply merges it; notes say if that makes a difference, and where one
// object of the change takes the place of another. The other kinds have little but a list, which replaces the old one as a whole.
func (r *Reader) EditOn(current Current) (edit mirrors.Edit, notes []string, err error) {
	again := Reader{deleted: r.deleted}
	latest := map[string][]byte{} // what documents before have made of an object
	for _, e := range r.read {
		if e.mistake != "" {
			again.mistakes = append(again.mistakes, e.mistake)
			continue
		}
		if e.machineConfig != nil {
			again.objects = append(again.objects, e.machineConfig)
			continue
		}
		o, err := named(e.gvk, e.doc)
		if err != nil {
			return mirrors.Edit{}, nil, err
		}
		name := mirrors.NameOf(o)
		old, known := latest[name]
		if !known && o.GetName() != "" {
			if old, err = current(o); err != nil {
				return mirrors.Edit{}, nil, fmt.Errorf("reading %s, to which the change is applied: %w", name, err)
			}
		}
		if known {
			notes = append(notes, fmt.Sprintf("%s is in the change more than once: that of %s REPLACES the one before", name, text.Line(e.origin.name)))
		}
		doc := e.doc
		if e.gvk == mirrors.ImageConfigGVK && old != nil {
			if doc, err = merged(old, e.doc); err != nil {
				return mirrors.Edit{}, nil, fmt.Errorf("%s: %w", e.origin.name, err)
			}
			if keepsMore(doc, e.doc) {
				notes = append(notes, name+" is merged with the one in force, as oc apply does: what the file leaves out stays, unless oc apply has set it before")
			}
		}
		again.apply(e, doc, strings.TrimSpace(name), old)
		latest[name] = doc
	}
	edit, err = again.Edit()
	return edit, notes, err
}

// named returns an object of a kind with the name that doc has, and nothing else.
func named(gvk schema.GroupVersionKind, doc []byte) (mirrors.Object, error) {
	object, err := mirrors.New(gvk)
	if err != nil {
		return nil, err
	}
	var meta metav1.PartialObjectMetadata
	_ = utiljson.Unmarshal(doc, &meta) // an error in the name is reported when the object is read
	object.SetName(meta.Name)
	object.SetNamespace(meta.Namespace)
	return object, nil
}

// merged returns old with doc applied to it as oc apply does: fields that it applied last and that
// are not in doc are removed, others stay (k8s.io/kubectl, pkg/cmd/apply, patcher.go: kinds that are
// not built in are merged as JSON).
func merged(old, doc []byte) ([]byte, error) {
	var before metav1.PartialObjectMetadata
	if err := json.Unmarshal(old, &before); err != nil {
		return nil, err
	}
	last := before.Annotations[corev1.LastAppliedConfigAnnotation]
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(last), doc, old)
	if err != nil {
		return nil, fmt.Errorf("merging it with the one in force: %w", err)
	}
	result, err := jsonpatch.MergePatch(old, patch)
	if err != nil {
		return nil, fmt.Errorf("merging it with the one in force: %w", err)
	}
	return result, nil
}

// keepsMore reports whether the result of a merge differs from doc in what it says about registries.
func keepsMore(result, doc []byte) bool {
	var a, b configv1.Image
	err := errors.Join(json.Unmarshal(result, &a), json.Unmarshal(doc, &b))
	return err == nil && (!reflect.DeepEqual(a.Spec.RegistrySources, b.Spec.RegistrySources) || a.Spec.AdditionalTrustedCA != b.Spec.AdditionalTrustedCA)
}
