package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func resourceOf(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

var poolResource = resourceOf("machineconfiguration.openshift.io", "v1", "machineconfigpools")

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// containers returns the spec of a pod with a container for each image, called a, b, ...
func containers(images ...string) corev1.PodSpec {
	var spec corev1.PodSpec
	for i, image := range images {
		spec.Containers = append(spec.Containers, corev1.Container{Name: string(rune('a' + i)), Image: image})
	}
	return spec
}
