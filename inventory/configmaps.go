package inventory

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

var configMapKind = schema.GroupKind{Kind: "ConfigMap"}

// imageConfigMaps are the ConfigMaps in which the release tells operators what to deploy.
// Nothing else names some of these images: builder and deployer are those of the builds
// and roll-outs of tomorrow. Each has its images as values, or in a value images.json.
// Their names are asked for one by one, as a role can grant them so: to list ConfigMaps is
// to read what people keep in them.
var imageConfigMaps = []objectKey{
	{"openshift-controller-manager-operator", "openshift-controller-manager-images"},
	{"openshift-machine-config-operator", "machine-config-operator-images"},
	{"openshift-machine-config-operator", "machine-config-osimageurl"},
	{"openshift-machine-api", "machine-api-operator-images"},
	{"openshift-machine-api", "cluster-baremetal-operator-images"},
	{"openshift-cloud-controller-manager-operator", "cloud-controller-manager-images"},
	{"openshift-cluster-api", "cluster-capi-operator-images"},
	{"openshift-cluster-api-operator", "cluster-capi-operator-images"},
}

// configMaps returns the sources of imageConfigMaps.
func configMaps(kube kubernetes.Interface, index *Index) []*source {
	var sources []*source
	for _, key := range imageConfigMaps {
		s := &source{
			name:   "configmap " + key.namespace + "/" + key.name,
			kind:   configMapKind.Kind,
			client: builtin(kube.CoreV1().ConfigMaps(key.namespace), kube),
			page:   1,
			bears:  notServedOrForbidden,
			retry:  &retryNowAndThen,
			trim:   func(o runtime.Object) any { return pack(fromConfigMap(o.(*corev1.ConfigMap)).References) },
			sink:   objectSink{holderSink{index, configMapKind.Kind}, key},
		}
		s.only(key.name)
		sources = append(sources, s)
	}
	return sources
}

// decodeConfigMap is Decode for a ConfigMap, which is looked through if it is known to
// hold images, or if its name says so.
func decodeConfigMap(data []byte) (Holder, error) {
	var named metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &named); err != nil {
		return Holder{}, fmt.Errorf("reading ConfigMap: %w", err)
	}
	if !isImageConfigMap(named.Namespace, named.Name) {
		return Holder{}, ErrKind // what is wrong with the data of another is nothing to us
	}
	var o corev1.ConfigMap
	if err := json.Unmarshal(data, &o); err != nil {
		return Holder{}, fmt.Errorf("reading ConfigMap: %w", err)
	}
	return fromConfigMap(&o), nil
}

func isImageConfigMap(namespace, name string) bool {
	return slices.Contains(imageConfigMaps, objectKey{namespace, name}) || isGuessableConfigMap(namespace, name)
}

// isGuessableConfigMap reports whether a ConfigMap that is not known may list images:
// those of OpenShift's operators that do say so by their names.
func isGuessableConfigMap(namespace, name string) bool {
	return strings.HasPrefix(namespace, "openshift-") && strings.Contains(name, "images")
}

// fromConfigMap returns the images in the values of a ConfigMap, which are guesses unless
// the ConfigMap is known.
func fromConfigMap(o *corev1.ConfigMap) Holder {
	h := holderOf(configMapKind.Kind, o)
	known := slices.Contains(imageConfigMaps, objectKey{o.Namespace, o.Name})
	for _, key := range slices.Sorted(maps.Keys(o.Data)) {
		images := imagesIn(o.Data[key], isWhole)
		slices.Sort(images)
		for _, image := range slices.Compact(images) {
			h.add(Reference{Image: image, Container: "data[" + key + "]", Use: policy.Referenced, Guessed: !known})
		}
	}
	return h
}
