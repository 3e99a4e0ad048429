package images

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// ErrKind is returned by Decode for a kind that names no images. Test with
// errors.Is.
var ErrKind = errors.New("not a kind that names images")

// formerGroups maps kinds in their former API groups to their groups of today. Owner references in old
// objects name them, and so do dumps and manifests that are older than the cluster; the image fields
// are the same.
var formerGroups = map[schema.GroupKind]string{
	{Group: "extensions", Kind: "Deployment"}: "apps",
	{Group: "extensions", Kind: "ReplicaSet"}: "apps",
	{Group: "extensions", Kind: "DaemonSet"}:  "apps",
	{Kind: "DeploymentConfig"}:                "apps.openshift.io",
	{Kind: "BuildConfig"}:                     "build.openshift.io",
	{Kind: "Build"}:                           "build.openshift.io",
	{Kind: "ImageStream"}:                     "image.openshift.io",
}

// CurrentKind returns the kind under which objects of a kind, which may be of a former API
// group, are known here.
func CurrentKind(kind schema.GroupKind) schema.GroupKind {
	if group := formerGroups[kind]; group != "" {
		kind.Group = group
	}
	return kind
}

// Kinds returns the kinds that Decode knows, in no order.
func Kinds() []schema.GroupKind {
	return convert.Each(Known(), func(k Kind) schema.GroupKind { return schema.GroupKind{Group: k.Resource.Group, Kind: k.Kind} })
}

// Decode returns the images that an object, written as JSON, names. The error
// is ErrKind for a kind that names none, and for a ConfigMap that does not look as if it
// did.
func Decode(kind schema.GroupKind, data []byte) (Holder, error) {
	if kind == ConfigMapKind {
		return decodeConfigMap(data)
	}
	k, ok := KindOf(kind)
	if !ok {
		return Holder{}, ErrKind
	}
	var o runtime.Object
	var err error
	if k.IsBuiltin() {
		o = k.empty()
		err = json.Unmarshal(data, o)
	} else {
		o, err = decodeUntyped(data)
	}
	if err != nil {
		return Holder{}, fmt.Errorf("reading %s: %w", kind.Kind, err)
	}
	return k.Extract(o), nil
}

func decodeUntyped(data []byte) (*unstructured.Unstructured, error) {
	var o unstructured.Unstructured
	err := json.Unmarshal(data, &o.Object)
	return &o, err
}

// DecodeGuess is Guess for an object written as JSON. The error is ErrKind for a kind that
// is not looked through.
func DecodeGuess(kind schema.GroupKind, data []byte) (Holder, error) {
	if !IsGuessable(kind) {
		return Holder{}, ErrKind
	}
	o, err := decodeUntyped(data)
	if err != nil {
		return Holder{}, fmt.Errorf("reading %s: %w", kind.Kind, err)
	}
	return Guess(kind, o), nil
}
