package scenarios

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addOns are kinds in the stories that the control plane does not have. They accept any
// fields, and their status as written.
func addOns() []*apiextensionsv1.CustomResourceDefinition {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, r := range []struct{ plural, group, version, kind string }{
		{"buildconfigs", "build.openshift.io", "v1", "BuildConfig"},
		{"deploymentconfigs", "apps.openshift.io", "v1", "DeploymentConfig"},
		{"builds", "build.openshift.io", "v1", "Build"},
		{"imagestreams", "image.openshift.io", "v1", "ImageStream"},
		{"clusterserviceversions", "operators.coreos.com", "v1alpha1", "ClusterServiceVersion"},
		{"installplans", "operators.coreos.com", "v1alpha1", "InstallPlan"},
		{"rollouts", "argoproj.io", "v1alpha1", "Rollout"},
		{"virtualmachines", "kubevirt.io", "v1", "VirtualMachine"},
		{"tasks", "tekton.dev", "v1", "Task"},
		{"widgets", "example.com", "v1", "Widget"},
		{"routes", "route.openshift.io", "v1", "Route"},
		{"clusteroperators", "config.openshift.io", "v1", "ClusterOperator"},
	} {
		scope := apiextensionsv1.NamespaceScoped
		if r.kind == "ClusterOperator" {
			scope = apiextensionsv1.ClusterScoped
		}
		crds = append(crds, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: r.plural + "." + r.group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: r.group, Scope: scope,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: r.kind, Plural: r.plural},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: r.version, Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: new(true),
					}},
				}},
			},
		})
	}
	return crds
}
