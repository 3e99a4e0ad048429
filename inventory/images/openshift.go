package images

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A Kind is one whose objects are known to name images, and where in it they do. Not every cluster has all of them.
type Kind struct {
	Resource schema.GroupVersionResource
	// FormerVersion is the version to ask for if that of Resource is not served, "" for
	// none.
	FormerVersion string
	Kind          string
	fields        []imageField
	// secrets are the paths of the names of pull secrets for what fields name, or of what
	// has such a secret.
	secrets []string
	// account is the path of the service account whose pull secrets are for it as well,
	// or else that of the name defaultAccount; "" where none are.
	account, defaultAccount string
	// templates are the paths of pod templates.
	templates []string
	// lookup is set if the admission plugin for ImageStreams looks at the templates.
	lookup bool
	// Without is a label that marks objects to leave out, "" for none.
	Without string
	// history is a prefix of the names of objects that are kept for a rollback.
	history string
	// over holds for objects that have done their work and pull nothing any more.
	over condition
	// dockerfile is the path of inline Dockerfiles, "" where there are none, and stages are what they
	// begin with.
	dockerfile string
	stages     []string
	// tags is set if ImageStreamTags are named besides images.
	tags bool
	// gathers is set if policy.MustGatherAnnotation may name an image.
	gathers bool
	// Large is set for objects that may come near 1 MiB.
	Large bool
	// typed reads objects with a Go type of their own, which empty makes; nil for all others, which are read by their fields.
	typed func(runtime.Object) Holder
	empty func() runtime.Object
}

// An imageField is a path in an object, as in the comment of visitField, that ends
// at an image.
type imageField struct {
	path string
	use  policy.Use
}

// A condition holds where the text at a path is one of some values.
type condition struct {
	path   string
	values []string
}

func (c condition) holds(o map[string]any) bool {
	holds := false
	if c.path != "" {
		visitField(o, c.path, func(_ string, value any) {
			text, _ := value.(string)
			holds = slices.Contains(c.values, text)
		})
	}
	return holds
}

func resourceOf(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

func referenced(paths ...string) []imageField { return fieldsOf(policy.Referenced, paths) }

func history(paths ...string) []imageField { return fieldsOf(policy.History, paths) }

func fieldsOf(use policy.Use, paths []string) []imageField {
	return convert.Each(paths, func(p string) imageField { return imageField{p, use} })
}

// customKinds are the kinds of OpenShift and of add-ons whose image fields are known.
var customKinds = []Kind{
	{
		Resource:  resourceOf("apps.openshift.io", "v1", "deploymentconfigs"),
		Kind:      "DeploymentConfig",
		fields:    referenced("spec.strategy.customParams.image"),
		templates: []string{"spec.template"},
		lookup:    true,
	},
	{
		// The pause image, infraImageKey, is what every pod on a new node starts
		// with, and no pod names it.
		Resource: resourceOf("machineconfiguration.openshift.io", "v1", "controllerconfigs"),
		Kind:     "ControllerConfig",
		fields: referenced("spec.images{}", "spec.osImageURL", "spec.baseOSContainerImage",
			"spec.baseOSExtensionsContainerImage", "spec.releaseImage"),
		Large: true,
	},
	{
		// MCO merges it from the other MachineConfigs and the ControllerConfig, which name the current
		// images as well.
		Resource: resourceOf("machineconfiguration.openshift.io", "v1", "machineconfigs"),
		Kind:     "MachineConfig",
		fields:   referenced("spec.osImageURL", "spec.baseOSExtensionsContainerImage"),
		history:  "rendered-",
		Large:    true,
	},
	{
		Resource:      resourceOf("machineconfiguration.openshift.io", "v1", "pinnedimagesets"),
		FormerVersion: "v1alpha1", // the fields are the same
		Kind:          "PinnedImageSet",
		fields:        referenced("spec.pinnedImages[].name"),
	},
	{
		// The build's job has registries.conf and policy.json of the pool's rendered
		// MachineConfig: it pulls as the nodes will, once MCO has rendered a change
		// (machine-config-operator, pkg/controller/build/buildrequest/buildrequest.go).
		Resource:   resourceOf("machineconfiguration.openshift.io", "v1", "machineosconfigs"),
		Kind:       "MachineOSConfig",
		fields:     referenced("status.currentImagePullSpec"),
		secrets:    []string{"spec.baseImagePullSecret.name"},
		dockerfile: containerfileField,
		stages:     layeringStages,
	},
	{
		Resource: resourceOf("machineconfiguration.openshift.io", "v1", "machineosbuilds"),
		Kind:     "MachineOSBuild",
		fields:   history("status.digestedImagePushSpec"),
	},
	{
		// Nothing depends on available updates: a mirror seldom holds them before one has
		// been chosen.
		Resource: resourceOf("config.openshift.io", "v1", "clusterversions"),
		Kind:     "ClusterVersion",
		fields: append(referenced("status.desired.image", "spec.desiredUpdate.image"),
			history("status.history[].image", "status.availableUpdates[].image", "status.conditionalUpdates[].release.image")...),
	},
	{
		// OLM copies the ClusterServiceVersion of a global operator into every
		// namespace (operator-framework/operator-lifecycle-manager,
		// pkg/controller/operators/olm/operatorgroup.go).
		Resource:  resourceOf("operators.coreos.com", "v1alpha1", "clusterserviceversions"),
		Kind:      "ClusterServiceVersion",
		fields:    referenced("spec.relatedImages[].image"),
		templates: []string{"spec.install.spec.deployments[].spec.template"},
		Without:   "olm.copiedFrom",
		gathers:   true,
		Large:     true,
	},
	{
		// oc adm must-gather --all-images starts what these name as well, and nothing else in them is an image
		// (openshift/oc, pkg/cli/admin/mustgather/mustgather.go).
		Resource: resourceOf("config.openshift.io", "v1", "clusteroperators"),
		Kind:     "ClusterOperator",
		gathers:  true,
	},
	{
		// The bundle is unpacked by a Job. A plan that has come to an end is never taken up
		// again (operator-lifecycle-manager, pkg/controller/operators/catalog/operator.go,
		// syncInstallPlans).
		Resource: resourceOf("operators.coreos.com", "v1alpha1", "installplans"),
		Kind:     "InstallPlan",
		fields:   referenced("status.bundleLookups[].path"),
		over:     condition{"status.phase", []string{"Complete", "Failed"}},
		Large:    true,
	},
	{
		Resource: resourceOf("operators.coreos.com", "v1alpha1", "catalogsources"),
		Kind:     "CatalogSource",
		fields:   referenced("spec.image"),
		secrets:  []string{"spec.secrets[]"}, // OLM gives them to the registry pod's service account
	},
	{
		Resource: resourceOf("olm.operatorframework.io", "v1", "clustercatalogs"),
		Kind:     "ClusterCatalog",
		fields:   referenced("spec.source.image.ref", "status.resolvedSource.image.ref"),
	},
	{
		// The first item of a tag is what it means today.
		Resource: resourceOf("image.openshift.io", "v1", "imagestreams"),
		Kind:     streamKind,
		// A tag is a catalogue entry: no node pulls for it. Its users have the image in their own
		// template or build. The samples alone name hundreds of images that a disconnected cluster
		// never mirrors. The exceptions are in followedTags.
		fields: history("spec.tags[].from", "status.tags[].items[].dockerImageReference"),
	},
	{
		Resource: resourceOf("build.openshift.io", "v1", "buildconfigs"),
		Kind:     "BuildConfig",
		fields: referenced("spec.strategy.dockerStrategy.from", "spec.strategy.sourceStrategy.from",
			"spec.strategy.customStrategy.from", "spec.source.images[].from"),
		secrets: buildSecrets, account: "spec.serviceAccount", defaultAccount: "builder",
		dockerfile: dockerfileField,
		tags:       true, // a build pulls what the tag stands for when it begins
	},
	{
		// The Build has the image that a tag stood for when the build began.
		Resource: resourceOf("build.openshift.io", "v1", "builds"),
		Kind:     "Build",
		fields: referenced("spec.strategy.dockerStrategy.from", "spec.strategy.sourceStrategy.from",
			"spec.strategy.customStrategy.from", "spec.source.images[].from"),
		secrets: buildSecrets, account: "spec.serviceAccount", defaultAccount: "builder",
		dockerfile: dockerfileField,
		tags:       true,
		over:       condition{"status.phase", []string{"Complete", "Failed", "Error", "Cancelled"}},
	},
	{
		Resource: resourceOf("hypershift.openshift.io", "v1beta1", "hostedclusters"),
		Kind:     "HostedCluster",
		fields: append(referenced("spec.release.image", "spec.controlPlaneRelease.image", "status.version.desired.image"),
			history("status.version.history[].image")...),
		secrets: []string{"spec.pullSecret.name"}, // the hosted nodes' own
	},
	{
		Resource: resourceOf("hypershift.openshift.io", "v1beta1", "nodepools"),
		Kind:     "NodePool",
		fields:   referenced("spec.release.image"),
		secrets:  []string{"spec.clusterName"}, // each HostedCluster has one
	},
	{
		Resource:  resourceOf("", "v1", "podtemplates"),
		Kind:      "PodTemplate",
		templates: []string{"template"},
	},
	{
		Resource:  resourceOf("argoproj.io", "v1alpha1", "rollouts"),
		Kind:      "Rollout",
		templates: []string{"spec.template"},
	},
	{
		Resource: resourceOf("kubevirt.io", "v1", "virtualmachines"),
		Kind:     "VirtualMachine",
		fields: referenced("spec.template.spec.volumes[].containerDisk.image",
			"spec.template.spec.domain.firmware.kernelBoot.container.image"),
	},
}

// streamKind is the kind of ImageStreams, whose tags stand for images.
const streamKind = "ImageStream"

// buildSecrets are what a build may take credentials from for the images it starts from.
var buildSecrets = []string{
	"spec.strategy.dockerStrategy.pullSecret.name", "spec.strategy.sourceStrategy.pullSecret.name",
	"spec.strategy.customStrategy.pullSecret.name", "spec.source.images[].pullSecret.name",
}

// ReadsTemplates reports whether the kind has pod templates.
func (k Kind) ReadsTemplates() bool { return len(k.templates) > 0 }

// Extract returns the images that an object of the kind names: one of its Go type, or *unstructured.Unstructured.
func (k Kind) Extract(o runtime.Object) Holder {
	if k.typed != nil {
		return k.typed(o)
	}
	return k.fromFields(o.(*unstructured.Unstructured))
}

func (k Kind) fromFields(o *unstructured.Unstructured) Holder {
	h := Holder{Kind: k.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	if _, marked := o.GetLabels()[k.Without]; marked {
		return h
	}
	past := k.history != "" && strings.HasPrefix(h.Name, k.history) || k.over.holds(o.Object)
	use := func(u policy.Use) policy.Use {
		if past {
			return policy.History
		}
		return u
	}
	var pulled map[string]bool
	if k.Kind == streamKind {
		pulled = followedTags(o.Object)
	}
	for _, f := range k.fields {
		visitField(o.Object, f.path, func(field string, value any) {
			r := Reference{Image: imageIn(value), Container: field, Use: use(f.use)}
			if pulled[field] {
				r.Use = policy.Referenced
			}
			switch {
			case k.tags:
				r.Tag = tagIn(value, h.Namespace)
			case k.Kind == streamKind:
				r.Tag = h.tagAt(field, r.Image)
			}
			h.add(r)
		})
	}
	if k.gathers {
		h.add(Reference{Image: o.GetAnnotations()[policy.MustGatherAnnotation], Container: "annotation " + policy.MustGatherAnnotation, Use: policy.History})
	}
	if k.dockerfile != "" {
		h.addDockerfiles(o.Object, k.dockerfile, k.stages, use(policy.Referenced))
	}
	k.addSecrets(&h, o.Object)
	for _, path := range k.templates {
		visitField(o.Object, path, func(_ string, value any) { h.addTemplate(o, value, k) })
	}
	return h
}

// addSecrets notes for the references of h, which come from fields, what credentials they
// are pulled with.
func (k Kind) addSecrets(h *Holder, object map[string]any) {
	own := false
	for _, path := range k.secrets {
		own = own || textAt(object, path) != ""
	}
	account := k.defaultAccount
	if name := textAt(object, k.account); name != "" {
		account = name
	}
	for i := range h.References {
		h.References[i].OwnPullSecret, h.References[i].Account = own, account
	}
}

// textAt returns the first text at a path that is not empty.
func textAt(object map[string]any, path string) (text string) {
	visitField(object, path, func(_ string, value any) {
		if found, ok := value.(string); ok && text == "" {
			text = found
		}
	})
	return text
}

// imageIn returns the image that a field holds: a text, or the object reference of
// ImageStreams and BuildConfigs, which names an image outside of the cluster only if its
// kind is DockerImage.
func imageIn(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case map[string]any:
		if v["kind"] != "DockerImage" {
			return ""
		}
		name, _ := v["name"].(string)
		return name
	default:
		return ""
	}
}

// tagIn returns the ImageStreamTag or ImageStreamImage that an object reference names, as
// Reference.Tag has it; "" for anything else.
func tagIn(value any, namespace string) string {
	object, _ := value.(map[string]any)
	kind, _ := object["kind"].(string)
	name, _ := object["name"].(string)
	if kind != "ImageStreamTag" && kind != "ImageStreamImage" || name == "" {
		return ""
	}
	if other, _ := object["namespace"].(string); other != "" {
		namespace = other
	}
	return namespace + "/" + name
}

// streamItem matches the fields of an ImageStream that hold an image which a tag stands
// for, or stood for.
var streamItem = regexp.MustCompile(`^status\.tags\[(.+)\]\.items\[(\d+)\]\.dockerImageReference$`)

// tagAt returns the tag that stands for the image in a field of an ImageStream. Only the
// first item of a tag is what it means today; the others go by their digests.
func (h *Holder) tagAt(field, image string) string {
	m := streamItem.FindStringSubmatch(field)
	if m == nil || strings.TrimSpace(image) == "" {
		return ""
	}
	if m[2] == "0" {
		return h.Namespace + "/" + h.Name + ":" + m[1]
	}
	_, digest, found := strings.Cut(image, "@")
	if !found {
		return ""
	}
	return h.Namespace + "/" + h.Name + "@" + digest
}
