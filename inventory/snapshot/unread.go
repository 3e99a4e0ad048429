package snapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// What could not be read may be a part of the answer. Where it is, or may be, a mirror
// object, the configuration in force is not known: Mirrors fails. Where it may name images
// it is a Gap. What a rollout depends on is then in Rollout().Unknown. All else (a list of numbers, Helm values, an event) is only a Problem.

// errEndMissing is the root of errors after which the rest of a file is lost.
var errEndMissing = errors.New("the end is missing")

// isCut reports whether err means that unseen data is lost.
func isCut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errEndMissing) || errors.Is(err, errNoKind)
}

// unreadObject notes that an object of a known kind could not be read.
func (r *reader) unreadObject(gvk schema.GroupVersionKind, err error) {
	if resource, ok := rolloutResources[gvk.Kind]; ok {
		r.unread = append(r.unread, resource)
	}
	switch {
	case errors.Is(err, errLater), gvk.GroupKind() == imageUsersKind.GroupKind():
		r.refuse(err)
	case isMirrorKind(gvk), decisive[gvk.GroupKind()], errors.Is(err, errContradiction):
		r.unreadMirrors = append(r.unreadMirrors, r.placed(err))
	case namesImages(gvk.Kind):
		r.gap(gvk.Kind, err)
	}
}

func namesImages(kind string) bool {
	return slices.ContainsFunc(images.Kinds(), func(k schema.GroupKind) bool { return k.Kind == kind })
}

// unreadText notes that text of unknown meaning could not be read, nil if it has not even
// been seen. A file that is cut off may have gone on with mirror objects, unless it is one
// of many: in those, as in a must-gather, each kind has a file of its own.
func (r *reader) unreadText(text []byte, err error) {
	plain := bytes.ReplaceAll(text, []byte{0}, nil) // also of UTF-16, as Windows writes it
	mentions := func(word string) bool { return bytes.Contains(plain, []byte(word)) }
	switch {
	case text == nil || isCut(err) && !r.several && mentions("apiVersion") || slices.ContainsFunc(mirrorWords, mentions):
		r.unread = append(r.unread, workloads.Pods)
		r.unreadMirrors = append(r.unreadMirrors, r.placed(err))
	case mentions("apiVersion"):
		r.gap("", err)
	}
}

// unreadEnd notes that a document has no kind. That of a list comes last: items that do
// not say what they are are those of a typed list, whose others are like them; after items
// that do, anything may have followed.
func (r *reader) unreadEnd(h header, data []byte, items []item) {
	switch {
	case len(items) == 0 && h.isLikeAnObject():
		r.unreadAnswer(data, errNoKind)
		return
	case len(items) == 0:
		r.unreadText(data, errNoKind)
		return
	}
	for _, it := range items {
		if slices.ContainsFunc(mirrorWords, func(word string) bool { return bytes.Contains(it.data, []byte(word)) }) {
			r.unreadText(it.data, errNoKind)
			return
		}
	}
	r.gap("", errNoKind)
}

// unreadAnswer notes that something stands in place of objects of a kind that is not known. One of
// many files, which each have a kind, is about mirror objects only if it says so.
func (r *reader) unreadAnswer(data []byte, err error) {
	mentions := func(word string) bool { return bytes.Contains(bytes.ToLower(data), []byte(strings.ToLower(word))) }
	if r.several && !slices.ContainsFunc(mirrorWords, mentions) {
		r.gap("", err)
		return
	}
	r.unreadAnything(err)
}

// unreadAnything notes that objects of any kind are missing.
func (r *reader) unreadAnything(err error) {
	r.unread = append(r.unread, workloads.Pods)
	r.unreadMirrors = append(r.unreadMirrors, r.placed(err))
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
func (r *reader) cut(h header) error {
	err := h.cut()
	if err == nil {
		return nil
	}
	gvk := h.GroupVersionKind()
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	kind := images.CurrentKind(gvk.GroupKind())
	_, other := others[kind]
	switch {
	case gvk.Kind == "":
		r.unreadAnything(err)
	case !other && images.IsGuessable(kind):
		r.gap(gvk.Kind, err)
	default:
		r.unreadObject(gvk, err)
	}
	return err
}

// mirrorWords occur in every mirror object that matters, and in few other objects.
var mirrorWords = []string{
	mirrors.TagMirrorSetGVK.Kind, mirrors.DigestMirrorSetGVK.Kind, mirrors.ContentPolicyGVK.Kind,
	mirrors.NamespacePolicyGVK.Kind, // and so mirrors.ClusterPolicy
	"imageTagMirrors", "imageDigestMirrors", "repositoryDigestMirrors", "registrySources",
}

func (r *reader) gap(kind string, err error) {
	if kind == "" { // there are pods in all that is large
		r.unread = append(r.unread, workloads.Pods)
	}
	r.gaps = append(r.gaps, policy.Gap{Source: r.place.String(), Kind: kind, Detail: err.Error(), Unread: true})
}

// placed returns err with the place that is being read.
func (r *reader) placed(err error) Problem {
	p := r.place
	p.Err = err
	return p
}

// Gaps returns the parts of the dump that may name images and could not be read.
func (s *Snapshot) Gaps() []policy.Gap { return s.gaps }

// unreadMirrorsError returns why the configuration in force is not known, nil if it is.
func (s *Snapshot) unreadMirrorsError() error {
	if len(s.unreadMirrors) == 0 {
		return nil
	}
	all := each.Of(s.unreadMirrors, Problem.Error)
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

// lostJSON returns what is left of a stream in which an error was met.
func lostJSON(rest io.Reader) []byte {
	text, _ := io.ReadAll(io.LimitReader(rest, maxLost))
	return append([]byte{}, text...) // not nil: it was seen
}

// maxLost is how much of what is lost is searched, in bytes.
const maxLost = 64 << 20
