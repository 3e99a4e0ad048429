package images

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// visitField visits every value at path in an object as JSON has it, and says where
// it is. The steps of a path are separated by dots; after a step
//
//	[]    means every item of the list
//	[0]   its first item
//	{}    every value of the map, in the order of its keys
//
// A value that is missing, or has another type than the path expects, is not visited.
func visitField(object any, path string, visit func(field string, value any)) {
	visitPath("", object, strings.Split(path, "."), visit)
}

func visitPath(field string, value any, steps []string, visit func(string, any)) {
	if len(steps) == 0 {
		visit(field, value)
		return
	}
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	name, selector := steps[0], ""
	if i := strings.IndexAny(name, "[{"); i >= 0 {
		name, selector = name[:i], name[i:]
	}
	value, ok = object[name]
	if !ok {
		return
	}
	if field != "" {
		field += "."
	}
	for where, v := range selected(field+name, value, selector) {
		visitPath(where, v, steps[1:], visit)
	}
}

// selected yields what selector picks from value, each with its place.
func selected(field string, value any, selector string) func(func(string, any) bool) {
	return func(yield func(string, any) bool) {
		switch selector {
		case "":
			yield(field, value)
		case "{}":
			yieldValues(field, value, yield)
		default:
			yieldItems(field, value, selector, yield)
		}
	}
}

func yieldValues(field string, value any, yield func(string, any) bool) {
	object, _ := value.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !yield(fmt.Sprintf("%s[%s]", field, key), object[key]) {
			return
		}
	}
}

func yieldItems(field string, value any, selector string, yield func(string, any) bool) {
	list, _ := value.([]any)
	for i, item := range list {
		if selector == "[0]" && i > 0 {
			return
		}
		if !yield(fmt.Sprintf("%s[%s]", field, itemName(i, item)), item) {
			return
		}
	}
}

// itemName returns the name of an item of a list, or its number if it has none.
func itemName(i int, item any) string {
	object, _ := item.(map[string]any)
	for _, key := range []string{"name", "tag", "version"} {
		if name, ok := object[key].(string); ok && name != "" && !strings.Contains(name, "/") {
			return name
		}
	}
	return fmt.Sprint(i)
}

// addTemplate adds the images of a pod template in an object without a type of its own
// here. A value that is not a template is passed over, like any other malformed field: the
// API server has checked it.
func (h *Holder) addTemplate(o metav1.Object, value any, kind Kind) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	var template corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &template); err != nil {
		return
	}
	t := Reference{Placement: placementOf(&template.Spec, template.Spec.NodeName)}.ofEnding(o)
	t.Account, _, _ = secretsOf(&template.Spec)
	if kind.lookup {
		t.Lookup, t.Copied = lookupOf(o, template.Annotations)
	}
	h.addSpec(&template.Spec, t, nil)
}
