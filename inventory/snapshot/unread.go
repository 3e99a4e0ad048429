package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An unread part may matter to the answer. If it is a mirror object, the configuration in force is not known: Mirrors fails. If
// it names images it is a Gap. If it could be any object it is lost: Mirrors fails, and so does Images; Rollout().Unknown then
// has all that a rollout depends on. All else (a list of numbers, an event) is only a Problem.

// lost notes that something which could be any object could not be read, and returns why.
func (r *reader) lost(err error) error {
	r.unread = append(r.unread, workloads.Pods) // which there are in all that is large
	r.lostObjects = append(r.lostObjects, r.placed(err))
	return err
}

// unreadObject notes that an object of a known kind could not be read.
func (r *reader) unreadObject(gvk schema.GroupVersionKind, err error) {
	r.unread = append(r.unread, rolloutResources(gvk.Kind)...)
	switch {
	case errors.Is(err, errLater), gvk.GroupKind() == imageUsersKind.GroupKind():
		r.refuse(err)
	case errors.Is(err, errTwice), errors.As(err, new(*json.SyntaxError)): // the latter may have another object in it
		_ = r.lost(err)
	case mirrors.IsKind(gvk), decisive[gvk.GroupKind()]:
		r.unreadMirrors = append(r.unreadMirrors, r.placed(err))
	case slices.ContainsFunc(images.Kinds(), func(k schema.GroupKind) bool { return k.Kind == gvk.Kind }):
		r.gap(gvk.Kind, err)
	}
}

// decisive are the kinds besides mirror objects without which there is no answer: nodes, their configuration, and the credentials
// with which they pull.
var decisive = map[schema.GroupKind]bool{
	{Kind: "Node"}:                                  true,
	machineConfigKind.GroupKind():                   true,
	{Group: configv1.GroupName, Kind: providerKind}: true,
}

// notAnObject returns the reason why a document with a kind is not an object: an API server printed it
// for people, or as the status of a request that failed.
func notAnObject(gvk schema.GroupVersionKind, data []byte) error {
	switch {
	case gvk.Group == metav1.GroupName && gvk.Kind == "Table":
		return errors.New("a Table has no objects: ask for them with -o yaml or -o json")
	case gvk.Group == "" && gvk.Kind == "Status":
		var status metav1.Status
		if json.Unmarshal(data, &status) == nil && status.Status == metav1.StatusSuccess {
			return nil
		}
		return fmt.Errorf("a Status instead of an object: %s", cmp.Or(status.Message, "the API server did not answer"))
	default:
		return nil
	}
}

// cut notes that a list lacks items, and returns why.
func (r *reader) cut(h header, data []byte) error {
	err := cutOf(data)
	if err == nil {
		return nil
	}
	gvk := h.GroupVersionKind()
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	kind := images.CurrentKind(gvk.GroupKind())
	_, other := others[kind]
	switch {
	case gvk.Kind == "":
		return r.lost(err)
	case !other && images.IsGuessable(kind):
		r.gap(gvk.Kind, err)
	default:
		r.unreadObject(gvk, err)
	}
	return err
}

func (r *reader) gap(kind string, err error) {
	r.gaps = append(r.gaps, policy.Gap{Source: r.placed(err).String(), Kind: kind, Detail: err.Error(), Unread: true})
}

// placed returns err with the place that is being read.
func (r *reader) placed(err error) Problem {
	p := *r.place
	p.Item, p.Err = r.number, err
	return p
}

// Gaps returns the parts of the dump that may name images and could not be read.
func (s *Snapshot) Gaps() []policy.Gap { return s.gaps }

// Unsearched implements Source.
func (s *Snapshot) Unsearched() []policy.Gap { return s.unsearched }

// unreadError returns why there is no answer if those problems are; nil if there is none of them.
func unreadError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	all := convert.Each(problems, Problem.Error)
	return fmt.Errorf("objects that could not be read, or that are there twice, may change the answer: %s", strings.Join(text.First(all, namedProblems, ""), "; "))
}

// decodeMirrors reads a mirror object, with case-sensitive field names. encoding/json would
// accept a name in the wrong case, and an API server would drop the field: no object in a
// cluster has one, so what was meant is not known.
func decodeMirrors(data []byte, gvk schema.GroupVersionKind) (mirrors.Object, error) {
	o, err := mirrors.New(gvk)
	if err != nil {
		return nil, err
	}
	loose, _ := mirrors.New(gvk)
	if err := json.Unmarshal(data, loose); err != nil {
		return nil, fmt.Errorf("reading %s: %w", gvk.Kind, err)
	}
	if err := utiljson.Unmarshal(data, o); err != nil {
		return nil, fmt.Errorf("reading %s: %w", gvk.Kind, err)
	}
	if !reflect.DeepEqual(loose, o) {
		return nil, fmt.Errorf("reading %s: a field is written in the wrong case", gvk.Kind)
	}
	return o, nil
}
