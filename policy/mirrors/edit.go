package mirrors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// An Edit is a proposed step from one Set to the next: objects that are put and objects
// that are deleted, in order. It is a value and does nothing by itself. The zero value
// changes nothing.
//
// An Edit of something that New does not return, such as nil, must not be judged, as it is not
// known what it was meant to change: Err returns an error, and Apply leaves that step out.
type Edit struct {
	steps []step
	// admitted are the steps that With put before the others.
	admitted []step
}

// A step puts or deletes one object.
type step struct {
	object Object
	kind   stepKind
}

type stepKind int

const (
	stepPut stepKind = iota
	stepDelete
	stepRemove
)

// Put returns the Edit that adds o, or replaces its namesake with it.
func Put(o Object) Edit { return Edit{steps: []step{{o, stepPut}}} }

// Delete returns the Edit that deletes the object with the name of o. An object with finalizers
// stays in force after such a request until the last of them is removed.
func Delete(o Object) Edit { return Edit{steps: []step{{o, stepDelete}}} }

// RemoveFinally returns the Edit that removes the last finalizer of the object with the
// name of o, which is already under deletion.
func RemoveFinally(o Object) Edit { return Edit{steps: []step{{o, stepRemove}}} }

// Join returns the Edit that makes every edit, in order, as one change.
func Join(edits ...Edit) Edit {
	var all Edit
	for _, e := range edits {
		all.steps = append(all.steps, e.all()...)
	}
	return all
}

// Steps returns the puts and deletions of e, each as an Edit, in order.
func (e Edit) Steps() []Edit {
	return convert.Each(e.all(), func(s step) Edit { return Edit{steps: []step{s}} })
}

// Objects returns what e puts and deletes, each object once.
func (e Edit) Objects() []Object {
	var objects []Object
	for _, s := range e.all() {
		isSame := func(o Object) bool { return NameOf(o) == NameOf(s.object) }
		if isObject(s.object) && !slices.ContainsFunc(objects, isSame) {
			objects = append(objects, s.object)
		}
	}
	return objects
}

// With returns the Edit that makes those that were admitted a moment ago, in order, and
// then e. It is about e: Subject names that first, and says what the others are.
func (e Edit) With(admitted ...Edit) Edit {
	with := Edit{steps: e.steps}
	for _, a := range admitted {
		with.admitted = append(with.admitted, a.all()...)
	}
	with.admitted = append(with.admitted, e.admitted...)
	return with
}

func (e Edit) all() []step { return slices.Concat(e.admitted, e.steps) }

// Err returns why e cannot be judged, nil if it can.
func (e Edit) Err() error {
	for _, s := range e.all() {
		switch {
		case s.object == nil:
			return errors.New("an edit of no object")
		case !isObject(s.object):
			return fmt.Errorf("an edit of %s, which is not a readable mirror object", KindOf(s.object))
		}
	}
	return nil
}

// Apply returns s after the Edit. It does not change s.
func (e Edit) Apply(s Set) Set {
	for _, step := range e.all() {
		s = step.apply(s)
	}
	return s
}

func (p step) apply(s Set) Set {
	if !isObject(p.object) {
		return s
	}
	switch o := p.object.(type) {
	case *configv1.Image:
		if o.Name != clusterName {
			return s
		}
		s.Registries, s.TrustedCA, s.ImportFrom = configv1.RegistrySources{}, "", nil
		if p.kind == stepPut {
			s.Registries, s.TrustedCA, s.ImportFrom = o.Spec.RegistrySources, o.Spec.AdditionalTrustedCA.Name, o.Spec.AllowedRegistriesForImport
		}
	case *configv1.ClusterImagePolicy, *configv1.ImagePolicy:
		s.Policies = p.applyTo(s.Policies)
	case *mcfgv1.PinnedImageSet:
		s.Pinned = p.applyTo(s.Pinned)
	case *MachineConfig:
		s.Files = slices.DeleteFunc(slices.Clone(s.Files), func(f File) bool { return f.MachineConfig == o.Name })
		if p.kind == stepPut {
			s.Files = append(s.Files, o.Files...)
		}
	default:
		s.Objects = p.applyTo(s.Objects)
	}
	return s
}

func (p step) applyTo(objects []Object) []Object {
	name := NameOf(p.object)
	kept := slices.DeleteFunc(slices.Clone(objects), func(o Object) bool { return NameOf(o) == name })
	if p.kind == stepPut {
		kept = append(kept, p.object)
	}
	return kept
}

// Holds reports whether e has been made in s already. Objects are compared by their specs.
// One that was deleted while it had finalizers is marked, and in force until the last of
// them is removed, which is an edit of its own.
func (s Set) Holds(e Edit) bool { return len(s.Lacks(e)) == 0 }

// Lacks returns the names of the objects of e that are not in s as e leaves them, as Holds
// compares them.
func (s Set) Lacks(e Edit) []string {
	var names []string
	all := e.all()
	for i, step := range all {
		isLast := !slices.ContainsFunc(all[i+1:], step.isOfSameObject)
		if isLast && !step.isMadeIn(s) {
			names = append(names, step.name())
		}
	}
	return names
}

// name returns the name of the object, or says that there is none.
func (p step) name() string {
	if !isObject(p.object) {
		return "no object"
	}
	return NameOf(p.object)
}

func (p step) isMadeIn(s Set) bool {
	if !isObject(p.object) {
		return false
	}
	switch KindOf(p.object) {
	case ImageConfigGVK.Kind:
		after := p.apply(s)
		return equality.Semantic.DeepEqual(s.Registries, after.Registries) && s.TrustedCA == after.TrustedCA && slices.Equal(s.ImportFrom, after.ImportFrom)
	case MachineConfigKind:
		return s.Equal(p.apply(s))
	}
	objects, name := slices.Concat(s.Objects, s.Policies, s.Pinned), NameOf(p.object)
	i := slices.IndexFunc(objects, func(o Object) bool { return NameOf(o) == name })
	switch p.kind {
	case stepPut:
		return i >= 0 && SameSpec(objects[i], p.object)
	case stepDelete:
		return i < 0 || objects[i].GetDeletionTimestamp() != nil
	default:
		return i < 0
	}
}

// Overlaps reports whether e and other put or delete an object of the same name.
func (e Edit) Overlaps(other Edit) bool {
	return slices.ContainsFunc(e.all(), func(s step) bool { return slices.ContainsFunc(other.all(), s.isOfSameObject) })
}

func (p step) isOfSameObject(other step) bool {
	return isObject(p.object) && isObject(other.object) && NameOf(p.object) == NameOf(other.object)
}

// Subject returns what messages call e, at the beginning of a sentence and without a verb:
// "ImageTagMirrorSet apps", "Deleting 3 objects".
func (e Edit) Subject() string {
	if len(e.admitted) == 0 {
		return subjectOf(e.steps)
	}
	names := make([]string, len(e.admitted))
	for i := range e.admitted {
		names[i] = subjectOf(e.admitted[i : i+1])
	}
	return fmt.Sprintf("%s together with %s, admitted a moment ago,", subjectOf(e.steps), text.Cut(strings.Join(names, ", "), maxSubjectRunes))
}

// maxSubjectRunes is as long as one name of an object may be (a DNS subdomain): edits admitted before
// need not be named in full.
const maxSubjectRunes = 253

func subjectOf(steps []step) string {
	deletes := len(steps) > 0 && !slices.ContainsFunc(steps, func(s step) bool { return s.kind == stepPut })
	switch n := len(steps); {
	case n == 0:
		return "No change"
	case n > 1 && deletes:
		return fmt.Sprintf("Deleting %d objects", n)
	case n > 1:
		return fmt.Sprintf("The change of %d objects", n)
	case !isObject(steps[0].object):
		return "The change of no object"
	case deletes:
		return "Deleting " + NameOf(steps[0].object)
	default:
		return NameOf(steps[0].object)
	}
}

// SameSpec reports whether the specs of two objects of one kind are equal for an API
// server: an empty list is no list. Labels count where pools are chosen by them.
func SameSpec(a, b Object) bool {
	if SelectsByLabels(a) && !maps.Equal(a.GetLabels(), b.GetLabels()) {
		return false
	}
	return isObject(a) && isObject(b) && equality.Semantic.DeepEqual(specOf(a), specOf(b))
}

// SelectsByLabels reports whether the labels of o decide on which nodes it counts: those of a PinnedImageSet,
// which machineConfigSelectors of pools select.
func SelectsByLabels(o Object) bool { return KindOf(o) == PinnedSetGVK.Kind && isObject(o) }
