package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

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
	_, foreign := mirrors.New(gvk)
	_, meant := mirrors.Meant(gvk)
	switch {
	case foreign == nil || meant:
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
func (r *reader) unreadEnd(data []byte, items []item) {
	if len(items) == 0 {
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
	all := make([]string, len(s.unreadMirrors))
	for i, p := range s.unreadMirrors {
		all[i] = p.Error()
	}
	return fmt.Errorf("what could not be read may hold mirror objects: %s", strings.Join(text.First(all, namedProblems, ""), "; "))
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
func lostJSON(decoder *json.Decoder, rest io.Reader) []byte {
	text, _ := io.ReadAll(io.LimitReader(io.MultiReader(decoder.Buffered(), rest), maxLost))
	return append([]byte{}, text...) // not nil: it was seen
}

// maxLost is how much of what is lost is searched, in bytes.
const maxLost = 64 << 20
