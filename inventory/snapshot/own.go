package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A dump has kinds of its own, which Write makes up. A later version may add kinds, and fields, and
// change what others mean with them. So a dump in which such an object has something unknown is not read at
// all; nor is one with damage in those that name images, which are named nowhere else in it.

// ownVersion is the version of the format of dumps.
var ownVersion = schema.GroupVersion{Group: "mirrorset-guard.io", Version: "v1alpha1"}

// ownKinds are the kinds that Write makes up.
var ownKinds = []string{
	imageUsersKind.Kind, exposedKind.Kind, podSetKind.Kind, podControllerKind.Kind, lackingKind.Kind, contentKind.Kind,
}

// printedKinds are the kinds of that group that commands print, which may be in a folder beside a dump
// and are no part of it. A test compares them with docs/documents.md.
var printedKinds = []string{
	"Review", "Explanation", "Rendering", "Inventory", "RolloutEvent", "Deletion", "KeepList", "SyncEvent", "ReleaseReview",
}

// errLater is wrapped by errors about what a later version of the guard has written.
var errLater = errors.New("a later version of mirrorset-guard has written it")

// maxKind is how much is shown of the name of a kind that is not known.
const maxKind = 100

// known returns the reason why an object of the guard's own group cannot be read; nil if it can, or may
// be left out.
func known(gvk schema.GroupVersionKind) error {
	switch {
	case gvk.Group != ownVersion.Group, slices.Contains(printedKinds, gvk.Kind):
		return nil
	case gvk.Version != ownVersion.Version:
		return fmt.Errorf("%s of %s, while this version reads %s: %w", text.Cut(gvk.Kind, maxKind), text.Cut(gvk.GroupVersion().String(), maxKind), ownVersion, errLater)
	case !slices.Contains(ownKinds, gvk.Kind):
		return fmt.Errorf("%s of %s, which this version does not know: %w", text.Cut(gvk.Kind, maxKind), ownVersion, errLater)
	default:
		return nil
	}
}

// refuse notes the first reason for which the dump is not read.
func (r *reader) refuse(err error) {
	if r.refused == nil {
		r.refused = r.placed(err)
	}
}

// withoutType returns an object without apiVersion and kind, which the types of this package do not have.
func withoutType(data []byte) ([]byte, error) {
	kept := map[string]json.RawMessage{}
	for name, value := range rawjson.Members(data) {
		if n := string(name); n != "apiVersion" && n != "kind" {
			kept[n] = value
		}
	}
	return json.Marshal(kept)
}
