package images

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// ConfigMapKind is the kind of ConfigMaps; few name images.
var ConfigMapKind = schema.GroupKind{Kind: "ConfigMap"}

// imageConfigMaps are the ConfigMaps in which the release tells operators what to deploy.
// Nothing else names some of these images: builder and deployer run only in future builds
// and rollouts. Each has its images as values, or in a value images.json. Their names are
// asked for one by one, as a role can grant them so: to list ConfigMaps is to read what
// people keep in them.
var imageConfigMaps = []objectKey{
	{Namespace: "openshift-controller-manager-operator", Name: "openshift-controller-manager-images"},
	{Namespace: "openshift-machine-config-operator", Name: "machine-config-operator-images"},
	{Namespace: "openshift-machine-config-operator", Name: "machine-config-osimageurl"},
	{Namespace: "openshift-machine-api", Name: "machine-api-operator-images"},
	{Namespace: "openshift-machine-api", Name: "cluster-baremetal-operator-images"},
	{Namespace: "openshift-cloud-controller-manager-operator", Name: "cloud-controller-manager-images"},
	{Namespace: "openshift-cluster-api", Name: "cluster-capi-operator-images"},
	{Namespace: "openshift-cluster-api-operator", Name: "cluster-capi-operator-images"},
}

// ImageConfigMaps returns the names of the ConfigMaps that are known to name images.
func ImageConfigMaps() []types.NamespacedName { return slices.Clone(imageConfigMaps) }

// decodeConfigMap is Decode for a ConfigMap, which is looked through if it is known to
// hold images, or if its name says so.
func decodeConfigMap(data []byte) (Holder, error) {
	var named metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &named); err != nil {
		return Holder{}, fmt.Errorf("reading ConfigMap: %w", err)
	}
	if !slices.Contains(imageConfigMaps, objectKey{Namespace: named.Namespace, Name: named.Name}) && !looksLikeImages(named.Namespace, named.Name) {
		return Holder{}, ErrKind // faults in the data of others do not matter
	}
	var o corev1.ConfigMap
	if err := json.Unmarshal(data, &o); err != nil {
		return Holder{}, fmt.Errorf("reading ConfigMap: %w", err)
	}
	return ExtractConfigMap(&o), nil
}

// IsGuessableConfigMap reports whether a ConfigMap that is not among ImageConfigMaps may
// list images.
func IsGuessableConfigMap(namespace, name string) bool {
	return looksLikeImages(namespace, name) && !slices.Contains(imageConfigMaps, objectKey{Namespace: namespace, Name: name})
}

// looksLikeImages reports whether a ConfigMap's name suggests that it lists images, as the
// names of those of OpenShift's operators do.
func looksLikeImages(namespace, name string) bool {
	return strings.HasPrefix(namespace, "openshift-") && strings.Contains(name, "images")
}

// ExtractConfigMap returns the images in the values of a ConfigMap, which are guesses unless
// the ConfigMap is known.
func ExtractConfigMap(o *corev1.ConfigMap) Holder {
	h := holderOf(ConfigMapKind.Kind, o)
	known := slices.Contains(imageConfigMaps, objectKey{Namespace: o.Namespace, Name: o.Name})
	for _, key := range slices.Sorted(maps.Keys(o.Data)) {
		images := imagesIn(o.Data[key], isWhole)
		slices.Sort(images)
		for _, image := range slices.Compact(images) {
			h.add(Reference{Image: image, Container: "data[" + key + "]", Use: policy.Referenced, Guessed: !known})
		}
	}
	return h
}
